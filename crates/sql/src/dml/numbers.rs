//! Numbers parameters, so that a statement's steps can share them.

use super::Dml;
use crate::error::{Error, Result};
use crate::lexer::{self, Kind, Token};
use std::ops::Range;

/// The statement's parameters, each with a number.
pub(super) struct Numbers {
    pub names: Vec<Option<String>>,
    /// The number of each parameter in the text, in order.
    numbers: Vec<usize>,
}

/// The largest number of parameters of a statement, which is SQLite's own limit.
const MOST_PARAMETERS: usize = 32766;

impl Numbers {
    pub fn new(tokens: &[Token<'_>]) -> Result<Self> {
        let mut numbers = Numbers { names: Vec::new(), numbers: Vec::new() };
        for token in tokens.iter().filter(|token| token.kind == Kind::Parameter) {
            let known = numbers.names.iter().position(|name| name.as_deref() == Some(token.text));
            let number = match token.text.strip_prefix('?') {
                Some("") => numbers.names.len() + 1,
                Some(digits) => digits.parse().unwrap_or(0),
                None => known.map_or(numbers.names.len() + 1, |place| place + 1),
            };
            if number == 0 || number > MOST_PARAMETERS {
                return Err(Error::new(format!("there is no parameter {}", token.text)));
            }
            if numbers.names.len() < number {
                numbers.names.resize(number, None);
            }
            if !token.text.starts_with('?') {
                numbers.names[number - 1] = Some(token.text.to_owned());
            }
            numbers.numbers.push(number);
        }
        Ok(numbers)
    }

    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// Returns a part of the statement with numbered parameters. `excluded.x` of these columns also becomes one.
    pub fn apply(&self, dml: &Dml<'_>, range: Range<usize>, excluded: &[&str]) -> String {
        let all = dml.tokens.iter().filter(|token| token.kind == Kind::Parameter);
        let numbers = all.zip(&self.numbers).filter(|(token, _)| range.contains(&token.start));
        let mut changes: Vec<_> =
            numbers.map(|(token, number)| (token.start..token.end(), *number)).collect();
        for three in dml.tokens.windows(3).filter(|three| range.contains(&three[0].start)) {
            let is_excluded = three[0].name().is_some_and(|name| name.eq_ignore_ascii_case("excluded"));
            let Some(column) = three[2].name().filter(|_| is_excluded && three[1].is_mark('.')) else {
                continue;
            };
            if let Some(place) = excluded.iter().position(|name| name.eq_ignore_ascii_case(&column)) {
                changes.push((three[0].start..three[2].end(), self.count() + place + 1));
            }
        }
        changes.sort_by_key(|(range, _)| range.start);
        replaced(dml.sql, range, &changes)
    }

    /// Renumbers a statement that was assembled from parts, which have all parameters up to their largest, in their
    /// order.
    pub fn renumber(&self, text: &str) -> Result<String> {
        let tokens = lexer::tokens(text).filter(|token| token.kind == Kind::Parameter);
        let changes: Vec<_> =
            tokens.zip(&self.numbers).map(|(token, n)| (token.start..token.end(), *n)).collect();
        Ok(replaced(text, 0..text.len(), &changes))
    }
}

fn replaced(sql: &str, range: Range<usize>, changes: &[(Range<usize>, usize)]) -> String {
    let mut text = String::new();
    let mut at = range.start;
    for (place, number) in changes {
        // Two overlap, as in `excluded.excluded.a`. SQLite reports what is wrong with the rest.
        if place.start < at || place.end > range.end {
            continue;
        }
        text.push_str(&sql[at..place.start]);
        text.push_str(&format!("?{number}"));
        at = place.end;
    }
    text.push_str(&sql[at..range.end]);
    text.trim().to_owned()
}
