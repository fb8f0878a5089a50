//! The samples of a page of metrics in the text format of Prometheus.

use std::collections::BTreeMap;

/// The samples of a page.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<Sample>);

/// One sample.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The name of the metric.
    pub name: String,
    /// The labels by name.
    pub labels: BTreeMap<String, String>,
    /// The value.
    pub value: f64,
}

impl Sample {
    /// Returns the value of a label; empty if there is no such label.
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }

    /// Returns whether the value only grows.
    fn is_count(&self) -> bool {
        ["_total", "_sum", "_count"].iter().any(|end| self.name.ends_with(end))
    }
}

impl Samples {
    /// Parses a page.
    ///
    /// # Errors
    /// The first line that is not a sample.
    pub fn parse(page: &str) -> Result<Self, String> {
        let lines = page.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let parsed = lines.map(|line| sample(line).ok_or_else(|| format!("{line:?} is not a sample")));
        parsed.collect::<Result<_, _>>().map(Samples)
    }

    /// Returns the samples of a metric.
    pub fn all<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s Sample> {
        self.0.iter().filter(move |sample| sample.name == name)
    }

    /// Returns the value of the sample of a metric that has these labels, and maybe others.
    pub fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let has_labels = |sample: &&Sample| labels.iter().all(|(label, value)| sample.label(label) == *value);
        self.all(name).find(has_labels).map(|sample| sample.value)
    }

    /// Keeps the samples of one database, and those of the server as a whole.
    pub fn of_database(mut self, database: &str) -> Self {
        self.0.retain(|sample| ["", database].contains(&sample.label("database")));
        self
    }

    /// Subtracts the counts in `before`, so that those remain that were counted since.
    pub fn since(mut self, before: &Samples) -> Self {
        for sample in self.0.iter_mut().filter(|sample| sample.is_count()) {
            let mut earlier = before.all(&sample.name).filter(|other| other.labels == sample.labels);
            // A counter that is smaller than before began again, because the server did.
            let value = earlier.next().map_or(0.0, |earlier| earlier.value);
            sample.value -= if value <= sample.value { value } else { 0.0 };
        }
        self
    }
}

/// Parses `name{label="value",...} number`.
fn sample(line: &str) -> Option<Sample> {
    let end = line.find(|c: char| c != '_' && c != ':' && !c.is_ascii_alphanumeric())?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while let Some((label, after)) = rest.split_once("=\"") {
            let (value, after) = quoted(after)?;
            labels.insert(label.trim_start_matches(',').to_owned(), value);
            rest = after;
            if let Some(after) = rest.strip_prefix('}') {
                rest = after;
                break;
            }
        }
    }
    let value = rest.split_whitespace().next()?.parse().ok()?;
    (!name.is_empty()).then(|| Sample { name: name.to_owned(), labels, value })
}

/// Returns the text up to the closing quote, without its escapes, and the rest of the line.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut escaped) = (String::new(), false);
    for (at, c) in text.char_indices() {
        match c {
            'n' if escaped => value.push('\n'),
            c if escaped => value.push(c),
            '\\' => {}
            '"' => return Some((value, &text[at + 1..])),
            c => value.push(c),
        }
        escaped = c == '\\' && !escaped;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_as_it_is_written() {
        let page = "# HELP a Words.\n# TYPE a counter\na_total 7\n\
                    b{database=\"shop\",table=\"x\\\"\\\\\\n, y\"} 1.5e3\n\
                    b{database=\"other\"} 2\nc{le=\"+Inf\"} NaN\n";
        let samples = Samples::parse(page).unwrap();
        assert_eq!(samples.get("a_total", &[]), Some(7.0));
        assert_eq!(samples.get("b", &[("database", "shop"), ("table", "x\"\\\n, y")]), Some(1500.0));
        assert_eq!(samples.get("b", &[("database", "none")]), None);
        assert!(samples.get("c", &[("le", "+Inf")]).unwrap().is_nan());
        let own = samples.clone().of_database("other");
        assert_eq!((own.all("b").count(), own.all("a_total").count()), (1, 1));
        for wrong in ["a", "a{", "a{b=\"c} 1", "{} 1", "a one"] {
            assert!(Samples::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn counts_are_of_the_time_between_and_sizes_of_now() {
        let page =
            |counts, size| Samples::parse(&format!("a_total{{x=\"1\"}} {counts}\nb {size}\n")).unwrap();
        let since = page(12, 5).since(&page(9, 100));
        assert_eq!((since.get("a_total", &[]), since.get("b", &[])), (Some(3.0), Some(5.0)));
        let restarted = page(2, 5).since(&page(9, 100));
        assert_eq!(restarted.get("a_total", &[]), Some(2.0));
    }
}
