//! Saved rows: reads what `--json` wrote, for [`crate::compare`] and [`crate::page`].
//!
//! Rows of the same workload, case, durability, threads and settings are repetitions of one *series*.

use crate::{Failure, Outcome};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The properties that make rows comparable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The workload's name.
    pub workload: String,
    /// The case of the workload.
    pub case: String,
    /// The durability of its writes.
    pub durability: String,
    /// The number of threads that did the operations.
    pub threads: u64,
    /// The flags that differ from the defaults, as one string.
    pub settings: String,
}

/// The repetitions of one case.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// The row's numbers, each with its value in every repetition that has it.
    pub figures: BTreeMap<String, Vec<f64>>,
    /// The figures over time of the last repetition.
    pub over_time: BTreeMap<String, Vec<f64>>,
    /// The workload's profiles by kind, as folded text, of the last repetition.
    pub profiles: BTreeMap<String, String>,
}

impl Series {
    /// Returns the median of a figure.
    pub fn median(&self, name: &str) -> Option<f64> {
        self.figures.get(name).and_then(|values| median(values))
    }

    /// Returns the smallest and the largest value of a figure.
    pub fn range(&self, name: &str) -> Option<(f64, f64)> {
        let values = self.figures.get(name)?;
        let least = values.iter().copied().reduce(f64::min)?;
        Some((least, values.iter().copied().reduce(f64::max)?))
    }
}

/// A file of rows.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// The series in the order in which the cases first appear.
    pub series: Vec<(Key, Series)>,
    /// The machines and versions that the rows name, each once.
    pub contexts: Vec<String>,
}

impl Results {
    /// Reads a file of `pando bench --json`.
    ///
    /// # Errors
    /// [`Failure::Host`] if the file cannot be read; [`Failure::Usage`] with the line's number if a line is not a row.
    pub fn read(path: &Path) -> Outcome<Self> {
        let text = fs::read_to_string(path).map_err(|error| {
            let message = format!("reading {}: {error}", path.display());
            Failure::Host(std::io::Error::new(error.kind(), message))
        })?;
        let name = path.display();
        Results::parse(&text).map_err(|(line, why)| Failure::Usage(format!("{name}, line {line}: {why}")))
    }

    /// Parses rows, one JSON object per line. On failure, returns the number of the first line that is not a row, and
    /// the reason.
    pub fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut results = Results::default();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let row: Map<String, Value> =
                serde_json::from_str(line).map_err(|error| (at + 1, error.to_string()))?;
            results
                .add(&row)
                .map_err(|missing| (at + 1, format!("no row of a workload: {missing} is missing")))?;
        }
        Ok(results)
    }

    /// Returns the series of a key.
    pub fn get(&self, key: &Key) -> Option<&Series> {
        self.series.iter().find(|(own, _)| own == key).map(|(_, series)| series)
    }

    /// Adds the rows of another file. Rows of a series that exists are further repetitions.
    pub fn join(&mut self, other: Results) {
        for context in other.contexts {
            if !self.contexts.contains(&context) {
                self.contexts.push(context);
            }
        }
        for (key, series) in other.series {
            match self.series.iter_mut().find(|(own, _)| *own == key) {
                Some((_, own)) => {
                    for (name, values) in series.figures {
                        own.figures.entry(name).or_default().extend(values);
                    }
                    own.over_time.extend(series.over_time);
                    own.profiles.extend(series.profiles);
                }
                None => self.series.push((key, series)),
            }
        }
    }

    fn add(&mut self, row: &Map<String, Value>) -> Result<(), &'static str> {
        let text = |name: &'static str| row.get(name).and_then(Value::as_str).map(str::to_owned).ok_or(name);
        let key = Key {
            workload: text("workload")?,
            case: text("case")?,
            durability: text("durability")?,
            threads: row.get("threads").and_then(Value::as_u64).ok_or("threads")?,
            settings: text("settings").unwrap_or_default(),
        };
        row.get("ns_per_op").and_then(Value::as_f64).ok_or("ns_per_op")?;
        if let Ok(context) = text("context")
            && !self.contexts.contains(&context)
        {
            self.contexts.push(context);
        }
        let at = match self.series.iter().position(|(own, _)| *own == key) {
            Some(at) => at,
            None => {
                self.series.push((key, Series::default()));
                self.series.len() - 1
            }
        };
        let series = &mut self.series[at].1;
        if let (Ok(kind), Ok(folded)) = (text("profile"), text("folded")) {
            series.profiles.insert(kind, folded);
        }
        for (name, value) in row.iter().filter(|(name, _)| !matches!(name.as_str(), "threads" | "repetition"))
        {
            if let Some(number) = value.as_f64() {
                series.figures.entry(name.clone()).or_default().push(number);
            } else if let Some(list) = value.as_array() {
                let numbers = list.iter().filter_map(Value::as_f64).collect();
                series.over_time.insert(name.clone(), numbers);
            }
        }
        Ok(())
    }
}

/// Returns the middle value, or the mean of the two in the middle.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = r#"{"workload":"scan","case":"all","durability":"none","threads":1,"ns_per_op":5.0,"#;

    #[test]
    fn repetitions_come_together() {
        let (one, two) = (r#""repetition":1,"ops":7}"#, r#""repetition":2,"ops":9,"rows_by_second":[1,2]}"#);
        let text = format!("{ROW}{one}\n\n{ROW}{two}\n");
        let results = Results::parse(&text).unwrap();
        assert_eq!(results.series.len(), 1);
        let series = &results.series[0].1;
        assert_eq!(series.figures["ops"], [7.0, 9.0]);
        assert_eq!(series.median("ops"), Some(8.0));
        assert_eq!(series.range("ops"), Some((7.0, 9.0)));
        assert_eq!(series.over_time["rows_by_second"], [1.0, 2.0]);
        assert!(!series.figures.contains_key("repetition"));
    }

    #[test]
    fn other_settings_are_another_series() {
        let text = format!("{ROW}\"settings\":\"--n 5\"}}\n{ROW}\"settings\":\"\"}}\n");
        assert_eq!(Results::parse(&text).unwrap().series.len(), 2);
    }

    #[test]
    fn a_bad_line_is_named() {
        assert_eq!(Results::parse(&format!("{ROW}\"a\":1}}\n{{\"workload\":1}}")).unwrap_err().0, 2);
        assert_eq!(Results::parse("x").unwrap_err().0, 1);
        let (_, why) =
            Results::parse(r#"{"workload":"a","case":"b","durability":"c","threads":1}"#).unwrap_err();
        assert!(why.contains("ns_per_op"), "{why}");
    }
}
