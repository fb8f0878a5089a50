//! Texts of several statements, and what a failure of one becomes.

use crate::failure::{Failure, Outcome};
use pando::ErrorKind;

/// Runs each statement of `text`. The failure of one says on which line it begins.
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

/// Where in `text` its part `part` begins.
fn offset(text: &str, part: &str) -> usize {
    part.as_ptr().addr() - text.as_ptr().addr()
}

/// A failed statement: an exit code of its own where the caller can do something about it.
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
