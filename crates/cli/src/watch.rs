//! `stats --watch`: prints a row of a server's rates at an interval.
//!
//! A row has the operations per second since the row before, and the current sizes. Rows are streamed: at a terminal as
//! columns with a repeated head, else in the chosen format.

use crate::failure::{Failure, Outcome};
use crate::output::{self, Cell, Format, Rows};
use crate::remote::Remote;
use crate::text;
use serde_json::{Map, Value};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The counters, and the names of their rates.
const RATES: [(&str, &str); 8] = [
    ("gets", "gets_per_s"),
    ("scans", "scans_per_s"),
    ("writes", "writes_per_s"),
    ("commits", "commits_per_s"),
    ("conflicts", "conflicts_per_s"),
    ("log_flushes", "flushes_per_s"),
    ("log_appended_bytes", "log_bytes_per_s"),
    ("pool_faults", "pages_read_per_s"),
];
/// The names of current sizes.
const SIZES: [&str; 4] = ["readers", "memory_used_bytes", "unabsorbed_log_bytes", "data_file_bytes"];
/// The number of rows under one head, for people.
const ROWS_A_HEAD: u64 = 20;
const COLUMN_WIDTH: usize = 11;

/// Prints rows until Ctrl-C, or `times` rows.
pub fn run(remote: &Remote, every: Duration, times: Option<u64>, format: Format) -> Outcome {
    let columns: Vec<&str> =
        RATES.iter().map(|(_, name)| *name).chain(SIZES).chain(["debt_permille"]).collect();
    let mut rows = match format {
        Format::Table => None,
        // A single array would not be complete before the end.
        Format::Json | Format::Ndjson => Some(Format::Ndjson),
        Format::Csv => Some(Format::Csv),
    }
    .map(|format| Rows::new(output::stdout(), format, &columns).map_err(Failure::stdout))
    .transpose()?;
    let (mut before, mut at) = (remote.ask_json("GET", "/stats")?, Instant::now());
    for number in 0..times.unwrap_or(u64::MAX) {
        sleep(every);
        let (now, then) = (remote.ask_json("GET", "/stats")?, std::mem::replace(&mut at, Instant::now()));
        let figures = figures(&before, &now, at - then);
        match &mut rows {
            Some(rows) => {
                let cells: Vec<Cell<'_>> = figures.iter().map(|figure| Cell::Number(*figure)).collect();
                rows.row(&cells).and_then(|()| rows.flush()).map_err(Failure::stdout)?;
            }
            None => show(&columns, &figures, number)?,
        }
        before = now;
    }
    Ok(())
}

fn figures(before: &Map<String, Value>, now: &Map<String, Value>, time: Duration) -> Vec<u64> {
    let number = |of: &Map<String, Value>, name: &str| of.get(name).and_then(Value::as_u64).unwrap_or(0);
    let rate = |name| {
        let grown = number(now, name).saturating_sub(number(before, name));
        (grown as f64 / time.as_secs_f64().max(f64::MIN_POSITIVE)).round() as u64
    };
    let debts = ["debt_memtables_permille", "debt_log_permille", "debt_budget_permille"];
    let debt = debts.iter().map(|name| number(now, name)).max().unwrap_or(0);
    let rates = RATES.iter().map(|(name, _)| rate(name));
    rates.chain(SIZES.iter().map(|name| number(now, name))).chain([debt]).collect()
}

fn show(columns: &[&str], figures: &[u64], number: u64) -> Outcome {
    let line = |cells: Vec<String>| {
        let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>COLUMN_WIDTH$}")).collect();
        output::say_line(format_args!("{}", cells.join(" ")))
    };
    if number.is_multiple_of(ROWS_A_HEAD) {
        let head = |column: &&str| {
            let short = column.trim_end_matches("_bytes").replace("_per_s", "/s").replace("_bytes/s", "/s");
            short
                .replace("unabsorbed_", "")
                .replace("_permille", "")
                .replace("memory_used", "memory")
                .replace('_', " ")
        };
        line(columns.iter().map(head).collect())?;
    }
    let shown = columns.iter().zip(figures).map(|(column, &figure)| match *column {
        "debt_permille" => format!("{}.{} %", figure / 10, figure % 10),
        column if column.contains("bytes") => text::size(figure),
        _ => text::count(figure),
    });
    line(shown.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_grew_is_a_rate_and_what_is_so_large_is_itself() {
        let of = |value: Value| value.as_object().unwrap().clone();
        let before = of(json!({"gets": 100, "readers": 7, "commits": 5}));
        let now = of(json!({"gets": 300, "readers": 2, "commits": 5, "debt_log_permille": 12}));
        let figures = figures(&before, &now, Duration::from_secs(2));
        assert_eq!(figures.len(), RATES.len() + SIZES.len() + 1);
        assert_eq!((figures[0], figures[3], figures[8], figures[12]), (100, 0, 2, 12));
    }
}
