//! Runs texts of statements and commands.

use super::commands;
use super::script::{Item, items};
use super::session::Session;
use super::show::Show;
use crate::failure::{Doing, Failure, Outcome};
use std::io::Write;

/// Runs a text, up to the first failure or, after `.bail off`, to its end. A failure names the line of its statement.
/// Returns whether the program goes on: not after `.quit`.
pub fn script(session: &Session, show: &mut Show, text: &str) -> Outcome<bool> {
    let has_lines = text.trim_end().contains('\n');
    let mut has_failed = false;
    for (line, item, _) in items(text) {
        match one(session, show, item) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(failure) => {
                let failure = if has_lines { at_line(failure, line) } else { failure };
                if show.settings.bail {
                    return Err(failure);
                }
                failure.report(Doing::Using);
                has_failed = true;
            }
        }
    }
    if has_failed { Err(Failure::Reported(1)) } else { Ok(true) }
}

/// Runs a statement or a command. Returns whether the program continues.
pub fn one(session: &Session, show: &mut Show, item: Item<'_>) -> Outcome<bool> {
    let text = match item {
        Item::Statement { text, .. } | Item::Command(text) => text,
    };
    let is_once = show.is_sent_once();
    if show.settings.echo {
        show.write(|out| writeln!(out, "{text}"))?;
    }
    let done = match item {
        Item::Statement { text, .. } => show.statement(session, text).map(|()| true),
        Item::Command(text) => commands::run(session, show, text),
    };
    if is_once {
        show.send_to(None, false)?;
    }
    done
}

fn at_line(failure: Failure, line: usize) -> Failure {
    match failure {
        Failure::Failed(message) => Failure::Failed(format!("line {line}: {message}")),
        Failure::Usage(message) => Failure::Usage(format!("line {line}: {message}")),
        other => other,
    }
}
