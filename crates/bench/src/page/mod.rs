//! `report`: draws saved rows as one self-contained page of HTML.
//!
//! Each workload has a section: the time of an operation for each case, its latency percentiles, its figures over time
//! (in which a stall is a gap), what it wrote and what it keeps, its memory, and finally every number. Light and dark
//! follow the reader's system. Bars are text and boxes, so that they fit a phone. `chart` draws, and `style.css`
//! defines the style.

mod chart;

use crate::results::{Key, Results, Series};
use chart::{Bar, Line, bars, escape, lines, polylines};
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");
/// The percentiles that rows may have, and their names.
const PERCENTILES: [(&str, &str); 4] =
    [("p50_ns", "p50"), ("p99_ns", "p99"), ("p999_ns", "p99.9"), ("max_ns", "max")];

/// Returns the page.
pub fn html(results: &Results) -> String {
    let mut workloads: Vec<&str> = Vec::new();
    for (key, _) in &results.series {
        if !workloads.contains(&&key.workload[..]) {
            workloads.push(&key.workload);
        }
    }
    let mut body = String::new();
    for context in &results.contexts {
        let _ = writeln!(body, "<p class=context>{}</p>", escape(context));
    }
    let links: Vec<_> =
        workloads.iter().map(|name| format!("<a href=\"#{0}\">{0}</a>", escape(name))).collect();
    let _ = writeln!(body, "<nav>{}</nav>", links.join(" "));
    for workload in workloads {
        let of_this: Vec<_> = results.series.iter().filter(|(key, _)| key.workload == workload).collect();
        section(&mut body, workload, &of_this);
    }
    format!(
        "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n\
         <meta name=viewport content=\"width=device-width, initial-scale=1\">\n\
         <meta name=color-scheme content=\"light dark\">\n<title>Pando: benchmarks</title>\n\
         <style>\n{STYLE}</style>\n<main>\n<h1>Pando: benchmarks</h1>\n{body}</main>\n</html>\n"
    )
}

type Case<'a> = &'a (Key, Series);

fn section(out: &mut String, workload: &str, cases: &[Case<'_>]) {
    let _ = writeln!(out, "<section id=\"{0}\"><h2>{0}</h2>", escape(workload));
    let settings = &cases[0].0.settings;
    // Flags that all cases share are named once.
    let shared = cases.iter().all(|case| case.0.settings == *settings);
    if shared && !settings.is_empty() {
        let _ = writeln!(out, "<p class=context>{}</p>", escape(settings));
    }
    let label = |key: &Key| label(key, !shared);
    let bar = |figure: &'static str| {
        move |case: &Case<'_>| {
            let (least, most) = case.1.range(figure)?;
            Some(Bar { label: label(&case.0), value: case.1.median(figure)?, least, most })
        }
    };
    figure(out, "Time of an operation", "median; the line spans all repetitions", &|| {
        bars(&cases.iter().filter_map(bar("ns_per_op")).collect::<Vec<_>>(), &duration)
    });
    figure(out, "Latency percentiles", "logarithmic", &|| {
        let line = |case: &Case<'_>| {
            let points =
                PERCENTILES.iter().filter_map(|(figure, _)| case.1.median(figure)).collect::<Vec<_>>();
            (points.len() == PERCENTILES.len()).then(|| Line { label: label(&case.0), points })
        };
        let names: Vec<_> = PERCENTILES.iter().map(|(_, name)| *name).collect();
        lines(&cases.iter().filter_map(line).collect::<Vec<_>>(), &names, &duration)
    });
    let mut over_time: Vec<&String> = cases.iter().flat_map(|case| case.1.over_time.keys()).collect();
    over_time.sort();
    over_time.dedup();
    for name in over_time {
        figure(
            out,
            &name.replace('_', " "),
            "over time, from the start of the run; the last repetition",
            &|| {
                let line = |case: &Case<'_>| {
                    let points = case.1.over_time.get(name)?.clone();
                    (points.len() > 1).then(|| Line { label: label(&case.0), points })
                };
                polylines(&cases.iter().filter_map(line).collect::<Vec<_>>(), &|value| {
                    figure_text(name, value)
                })
            },
        );
    }
    for (name, title, note) in [
        (
            "disk_bytes",
            "Bytes made dirty for the disk",
            "a page that is rewritten before it is written back counts once",
        ),
        ("file_bytes", "Bytes of the files at the end", ""),
        ("peak_memory_bytes", "Peak memory", "resident, the workload's own keys included"),
    ] {
        figure(out, title, note, &|| bars(&cases.iter().filter_map(bar(name)).collect::<Vec<_>>(), &bytes));
    }
    flames(out, workload, cases);
    numbers(out, cases, &label);
    out.push_str("</section>\n");
}

/// Adds a titled drawing if there is anything to draw.
fn figure(out: &mut String, title: &str, note: &str, draw: &dyn Fn() -> String) {
    let drawing = draw();
    if !drawing.is_empty() {
        let (title, note) = (escape(title), escape(note));
        let _ = writeln!(
            out,
            "<figure><figcaption>{title} <small>{note}</small></figcaption>\n{drawing}</figure>"
        );
    }
}

/// Adds the workload's flame graphs, each as a document of its own, in which a click zooms.
fn flames(out: &mut String, workload: &str, cases: &[Case<'_>]) {
    let profiles = cases.iter().flat_map(|case| &case.1.profiles);
    for (kind, folded) in profiles.filter_map(|(kind, folded)| Some((kind.parse().ok()?, folded))) {
        let svg = profile::folded::draw(kind, workload, folded);
        let _ = writeln!(
            out,
            "<figure><figcaption>Flame graph, {kind} <small>of the whole workload, its load and its checks \
             included; click to look closer</small></figcaption>\n<object class=flames type=\"image/svg+xml\" \
             data=\"data:image/svg+xml;base64,{}\"></object></figure>",
            base64(svg.as_bytes())
        );
    }
}

/// Encodes base64 (RFC 4648).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word = three.iter().enumerate().map(|(at, &byte)| u32::from(byte) << (16 - 8 * at)).sum::<u32>();
        let digit = |at: usize| char::from(DIGITS[(word >> (18 - 6 * at)) as usize & 63]);
        out.extend((0..4).map(|at| if at <= three.len() { digit(at) } else { '=' }));
    }
    out
}

fn numbers(out: &mut String, cases: &[Case<'_>], label: &dyn Fn(&Key) -> String) {
    let mut names: Vec<&String> = cases.iter().flat_map(|case| case.1.figures.keys()).collect();
    names.sort();
    names.dedup();
    let heads: String = cases.iter().map(|case| format!("<th>{}</th>", escape(&label(&case.0)))).collect();
    let _ = writeln!(out, "<details><summary>Every number (medians)</summary>\n<div class=wide><table>");
    let _ = writeln!(out, "<tr><th></th>{heads}</tr>");
    for name in names {
        let cell = |case: &Case<'_>| match case.1.median(name) {
            Some(value) => format!("<td>{}</td>", figure_text(name, value)),
            None => "<td></td>".to_owned(),
        };
        let cells: String = cases.iter().map(cell).collect();
        let _ = writeln!(out, "<tr><th>{}</th>{cells}</tr>", escape(name));
    }
    out.push_str("</table></div></details>\n");
}

fn label(key: &Key, with_settings: bool) -> String {
    let threads = if key.threads == 1 { String::new() } else { format!(", {} threads", key.threads) };
    let shown = with_settings && !key.settings.is_empty();
    let settings = if shown { format!(" ({})", key.settings) } else { String::new() };
    format!("{}, {}{threads}{settings}", key.case, key.durability)
}

/// Returns a number in the unit at the end of its name.
fn figure_text(name: &str, value: f64) -> String {
    match name {
        _ if name.ends_with("_ns") || name == "ns_per_op" => duration(value),
        _ if name.ends_with("_us") => duration(value * 1e3),
        _ if name.ends_with("seconds") => duration(value * 1e9),
        _ if name.ends_with("_bytes") => bytes(value),
        _ if value.fract() == 0.0 => count(value),
        _ => format!("{value:.2}"),
    }
}

fn duration(ns: f64) -> String {
    scaled(ns, &[(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")])
}

fn bytes(bytes: f64) -> String {
    let (kib, mib, gib) = (f64::from(1 << 10), f64::from(1 << 20), f64::from(1 << 30));
    scaled(bytes, &[(gib, "GiB"), (mib, "MiB"), (kib, "KiB"), (1.0, "B")])
}

fn count(value: f64) -> String {
    if value < 1e4 { format!("{value:.0}") } else { scaled(value, &[(1e9, "G"), (1e6, "M"), (1e3, "k")]) }
}

fn scaled(value: f64, steps: &[(f64, &str)]) -> String {
    let (step, unit) = *steps.iter().find(|(step, _)| value >= *step).unwrap_or(&steps[steps.len() - 1]);
    let value = value / step;
    let digits = if value >= 100.0 || value.fract() == 0.0 { 0 } else { 1 };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Results {
        let row = |ns: u32| {
            format!(
                r#"{{"workload":"w<1>","case":"a & b","durability":"sync","threads":2,"ns_per_op":{ns},
                "p50_ns":1000,"p99_ns":2000,"p999_ns":9000,"max_ns":1000000,"peak_memory_bytes":1048576,
                "rows_by_second":[5,0,7],"profile":"cpu","folded":"main;run::get 9\\n",
                "context":"some machine"}}"#
            )
            .replace('\n', "")
        };
        Results::parse(&format!("{}\n{}\n", row(1500), row(1700))).unwrap()
    }

    #[test]
    fn a_page_shows_everything_and_loads_nothing() {
        let page = html(&rows());
        for wanted in [
            "w&lt;1&gt;",
            "a &amp; b, sync, 2 threads",
            "1.6 us",
            "Latency percentiles",
            "rows by second",
            "1 MiB",
            "some machine",
            "Flame graph, cpu",
        ] {
            assert!(page.contains(wanted), "{wanted} is missing in {page}");
        }
        for foreign in ["http", "src=", "@import", "url(", "<script", "w<1>"] {
            assert!(!page.contains(foreign), "{foreign} is in the page");
        }
    }

    #[test]
    fn base64_is_that_of_the_rfc() {
        let known = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        assert!(known.iter().all(|(plain, coded)| base64(plain.as_bytes()) == *coded));
    }

    #[test]
    fn an_empty_file_is_a_page_too() {
        assert!(html(&Results::default()).contains("<h1>"));
    }

    #[test]
    fn numbers_have_short_units() {
        assert_eq!(
            (duration(1234.0), duration(0.5), duration(2e9)),
            ("1.2 us".into(), "0.5 ns".into(), "2 s".into())
        );
        assert_eq!(
            (bytes(1536.0), count(1_234_567.0), count(77.0)),
            ("1.5 KiB".into(), "1.2 M".into(), "77".into())
        );
        assert_eq!(figure_text("cpu_seconds", 0.25), "250 ms");
    }
}
