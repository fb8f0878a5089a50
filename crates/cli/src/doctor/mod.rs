//! `pando doctor`: says in sentences what is wrong with a database or its server, and what to do.
//!
//! 1. [`figures`] collects what there is to see: counts and sizes, open readers, advice, the disk, and of a server its
//!    metrics, which [`samples`] parses.
//! 2. Each [`finding`] is a function of these figures and of nothing else: of the disk and the files ([`space`]), of
//!    what slows operations down ([`speed`]), and of the surroundings, such as connections and shipping ([`around`]).
//!    Each has its thresholds beside it.
//! 3. [`run`] prints the findings, the most urgent first. The exit code is [`FOUND`] if one needs attention.

mod figures;
mod finding;
mod samples;
mod space;
mod speed;
mod around;

use crate::failure::{Failure, Outcome};
use crate::open::Existing;
use crate::output::{self, Cell, Format, FormatArgs, Rows, say};
use crate::remote::Remote;
use clap::Args;
use figures::Figures;
use finding::{Finding, Severity};
use std::thread::sleep;
use std::time::Duration;

/// The exit code if a finding needs attention.
const FOUND: u8 = 6;

#[derive(Args, Debug)]
#[command(after_help = "\
Findings have a severity:
  critical  data is not accepted, not copied, or in danger: act now
  warning   something is slow, nearly full, or will fail later
  note      something could be better; it does not change the exit code

The exit code is 0 without critical findings and warnings, and 6 with one.
Counters of a server count since its database was opened. With --over, only what happens meanwhile counts.

Examples:
  pando doctor shop
  pando --url http://127.0.0.1:7263/shop doctor --over 10
  pando --url http://127.0.0.1:7263/shop doctor --json | jq -r '.[].what'")]
pub struct DoctorArgs {
    #[command(flatten)]
    database: Existing,
    /// Watch a server for SECONDS (a whole number), and judge only what happens in that time [default: judge all since
    /// the database was opened]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    over: Option<u64>,
    #[command(flatten)]
    format: FormatArgs,
}

/// Returns the findings of all rules, the most urgent first.
fn examine(figures: &Figures) -> Vec<Finding> {
    let rules = space::RULES.iter().chain(speed::RULES).chain(around::RULES);
    let mut findings: Vec<Finding> = rules.flat_map(|rule| rule(figures)).collect();
    findings.sort_by_key(|finding| finding.severity);
    findings
}

/// Runs `pando doctor`.
pub fn run(args: &DoctorArgs) -> Outcome {
    let figures = match (Remote::find(&args.database.dir)?, args.over) {
        (Some(remote), None) => figures::of_server(&remote)?,
        (Some(remote), Some(seconds)) => {
            let before = figures::of_server(&remote)?;
            sleep(Duration::from_secs(seconds));
            figures::of_server(&remote)?.since(&before, Duration::from_secs(seconds))
        }
        (None, None) => figures::of_directory(&args.database)?,
        (None, Some(_)) => {
            let message = "--over needs a server (http://HOST:PORT/DATABASE): the counters of a database in \
                           a directory belong to the process that has it open";
            return Err(Failure::Usage(message.to_owned()));
        }
    };
    let findings = examine(&figures);
    match args.format.format() {
        Format::Table => for_people(&figures, &findings)?,
        format => rows(&findings, format)?,
    }
    let is_healthy = findings.iter().all(|finding| finding.severity == Severity::Note);
    if is_healthy { Ok(()) } else { Err(Failure::Reported(FOUND)) }
}

fn for_people(figures: &Figures, findings: &[Finding]) -> Outcome {
    for Finding { severity, name, what, advice } in findings {
        say!("{}: {what} [{name}]\n  {advice}", severity.name())?;
    }
    let count = |wanted| findings.iter().filter(|finding| finding.severity == wanted).count();
    let (critical, warnings) = (count(Severity::Critical), count(Severity::Warning));
    match (critical, warnings) {
        (0, 0) => say!("{} is healthy.", figures.target)?,
        _ => say!("{} needs attention: {critical} critical, {warnings} warnings.", figures.target)?,
    }
    figures.unseen.iter().try_for_each(|what| say!("Not examined: {what}"))
}

fn rows(findings: &[Finding], format: Format) -> Outcome {
    let write = || {
        let columns = ["severity", "finding", "what", "advice"];
        let mut rows = Rows::new(output::stdout(), format, &columns)?;
        for Finding { severity, name, what, advice } in findings {
            let words = [severity.name(), name, what, advice];
            rows.row(&words.map(|word| Cell::Bytes(word.as_bytes())))?;
        }
        rows.finish().map(drop)
    };
    write().map_err(Failure::stdout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The names of the findings in `figures` with their severities.
    pub fn names(figures: &Figures) -> Vec<(Severity, &'static str)> {
        examine(figures).iter().map(|finding| (finding.severity, finding.name)).collect()
    }

    #[test]
    fn nothing_is_found_where_nothing_is_seen() {
        assert_eq!(names(&Figures::default()), []);
    }

    #[test]
    fn the_most_urgent_comes_first() {
        let mut figures = Figures::default();
        figures.stats.insert("short_of_room".to_owned(), 1);
        figures.fork = 7;
        figures.unready = Some("the log could not be synced".to_owned());
        figures.is_world_writable = true;
        let severities: Vec<Severity> = names(&figures).iter().map(|(severity, _)| *severity).collect();
        assert_eq!(severities.len(), 4);
        assert!(severities.is_sorted(), "{severities:?}");
    }

    #[test]
    fn every_finding_of_the_page_can_be_found_and_is_on_it() {
        let page = include_str!("../../../../docs/doctor.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let listed: BTreeSet<&str> = rows.collect();
        let sources = [include_str!("space.rs"), include_str!("speed.rs"), include_str!("around.rs")];
        let mut named = BTreeSet::new();
        for source in sources {
            let source = source.split("#[cfg(test)]").next().unwrap();
            for kind in ["Finding::critical(", "Finding::warning(", "Finding::note("] {
                for rest in source.split(kind).skip(1) {
                    named.insert(rest.split('"').nth(1).unwrap());
                }
            }
        }
        assert_eq!(listed, named);
        assert!(named.len() > 25, "{named:?}");
    }
}
