//! Texts of statements and of commands that begin with a dot, and the failures of statements.

use crate::failure::Failure;
use pando::ErrorKind;

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item<'t> {
    /// A statement, without its semicolon.
    Statement { text: &'t str, is_complete: bool },
    /// A command: a line that begins with a dot, where no statement has begun.
    Command(&'t str),
}

/// Divides a text. Each item comes with its line, counted from 1, and the text from it on.
pub(super) fn items(text: &str) -> impl Iterator<Item = (usize, Item<'_>, &str)> {
    let (mut rest, mut line, mut counted) = (text, 1, 0);
    std::iter::from_fn(move || {
        let first = sql::split_first(rest)?;
        // Comments before it are not part of it.
        let at = first.statement.as_ptr().addr() - text.as_ptr().addr();
        line += text[counted..at].matches('\n').count();
        counted = at;
        let item = match first.statement.starts_with('.') {
            true => {
                let command = text[at..].lines().next().unwrap_or_default();
                rest = &text[at + command.len()..];
                Item::Command(command.trim_end())
            }
            false => {
                rest = first.rest;
                Item::Statement { text: first.statement.trim_end(), is_complete: first.is_complete }
            }
        };
        Some((line, item, &text[at..]))
    })
}

/// Converts the error of a statement to a failure, with an exit code of its own where the caller can act on it.
pub(super) fn failure(error: sql::Error) -> Failure {
    match error.kind() {
        ErrorKind::Conflict
        | ErrorKind::Corruption
        | ErrorKind::Locked
        | ErrorKind::Full
        | ErrorKind::Foreign => Failure::Engine(error.into()),
        _ => Failure::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_divided_into_statements_and_commands() {
        let text = "-- begin\n.tables\nSELECT 1,\n '.x';SELECT 2 ;  .mode csv  \n\n/* c */ SELECT\n.5";
        let found: Vec<_> = items(text).map(|(line, item, _)| (line, item)).collect();
        let statement = |text, is_complete| Item::Statement { text, is_complete };
        let expected = [
            (2, Item::Command(".tables")),
            (3, statement("SELECT 1,\n '.x'", true)),
            (4, statement("SELECT 2", true)),
            (4, Item::Command(".mode csv")),
            (6, statement("SELECT\n.5", false)),
        ];
        assert_eq!(found, expected);
        assert!(items(" ; -- nothing\n").next().is_none());
    }
}
