//! Texts of several statements, and the failures of statements.

use crate::failure::{Failure, Outcome};
use pando::ErrorKind;

/// Runs each statement of `text`. A failure names the line on which the statement begins.
pub(super) fn each_statement(text: &str, mut run: impl FnMut(&str) -> Outcome) -> Outcome {
    let mut rest = text;
    while let Some(first) = sql::split_first(rest) {
        let line = 1 + text[..text.len() - rest.len() + offset(rest, first.statement)].matches('\n').count();
        let place =
            |message: String| if text.contains('\n') { format!("line {line}: {message}") } else { message };
        run(first.statement).map_err(|failure| match failure {
            Failure::Failed(message) => Failure::Failed(place(message)),
            other => other,
        })?;
        rest = first.rest;
    }
    Ok(())
}

/// Returns the offset in `text` at which its part `part` begins.
fn offset(text: &str, part: &str) -> usize {
    part.as_ptr().addr() - text.as_ptr().addr()
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
