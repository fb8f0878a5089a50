//! How costs grow: the same cases at several sizes, an engine a row, a size a column.

use crate::drive::{Answer, Results};
use crate::engine::Durability;
use crate::measure::Row;
use crate::report::{self, Figure, columns, median};
use crate::workloads::{self, Workload};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The tables of all workloads that ran at more than one size, in Markdown. Files of one size are taken together.
pub fn markdown(all: &[Results]) -> String {
    let mut scales: Vec<f64> = all.iter().map(|results| results.scale).collect();
    scales.sort_by(f64::total_cmp);
    scales.dedup();
    let mut out = String::new();
    for workload in workloads::ALL {
        for &durability in workload.durabilities {
            section(&mut out, all, &scales, workload, durability);
        }
    }
    out
}

fn section(out: &mut String, all: &[Results], scales: &[f64], workload: &Workload, durability: Durability) {
    let sized: Vec<(f64, &Row)> = all
        .iter()
        .flat_map(|results| results.runs.iter().map(|run| (results.scale, run)))
        .filter(|(_, run)| run.workload == workload.name && run.durability == durability)
        .filter_map(|(scale, run)| match &run.answer {
            Answer::Rows(rows) => Some(rows.iter().map(move |row| (scale, row))),
            Answer::Unsupported(_) | Answer::Failed(_) => None,
        })
        .flatten()
        .collect();
    let Some((least, _)) = sized.iter().min_by(|a, b| a.0.total_cmp(&b.0)) else { return };
    if sized.iter().all(|(scale, _)| scale == least) {
        return;
    }
    let heads: Vec<_> = scales.iter().map(|scale| format!("x {scale}")).collect();
    let _ = writeln!(out, "\n## `{}`, {durability}, by size\n\n{}.\n", workload.name, workload.about);
    let _ = writeln!(out, "| case | engine | {} | the last costs, of the first |", heads.join(" | "));
    let _ = writeln!(out, "|---|---|{}---:|", "---:|".repeat(scales.len()));
    let engines: BTreeSet<String> = all.iter().flat_map(columns).collect();
    for case in report::cases(sized.iter().map(|(_, row)| *row)) {
        for figure in report::FIGURES {
            for engine in &engines {
                let at = |scale: &f64| {
                    let rows = sized
                        .iter()
                        .filter(|(of, row)| of == scale && row.case == case && row.engine == *engine);
                    median(rows.filter_map(|(_, row)| (figure.of)(row)).collect())
                };
                let figures: Vec<_> = scales.iter().map(at).collect();
                line(out, &figure.label(case), engine, figure, &figures);
            }
        }
    }
}

/// A line: nothing if there are not at least two sizes to compare.
fn line(out: &mut String, label: &str, engine: &str, figure: &Figure, figures: &[Option<f64>]) {
    let known: Vec<f64> = figures.iter().flatten().copied().collect();
    let (Some(&first), Some(&last)) = (known.first(), known.last()) else { return };
    if known.len() < 2 {
        return;
    }
    let cost = if figure.more_is_better { first / last } else { last / first };
    let cells: Vec<_> =
        figures.iter().map(|figure_at| figure_at.map_or("-".into(), |value| (figure.show)(value))).collect();
    let _ = writeln!(out, "| {label} | {engine} | {} | {cost:.2} |", cells.join(" | "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_the_last_size_beside_the_first() {
        let (rate, written) = (&report::FIGURES[0], &report::FIGURES[4]);
        let mut out = String::new();
        line(&mut out, "fast", "pando", rate, &[Some(800.0), None, Some(200.0)]);
        line(&mut out, "written", "pando", written, &[Some(2.0), Some(3.0), None]);
        line(&mut out, "once", "pando", rate, &[None, Some(800.0), None]);
        assert_eq!(
            out,
            "| fast | pando | 800 | - | 200 | 4.00 |\n| written | pando | 2.00 | 3.00 | - | 1.50 |\n"
        );
    }
}
