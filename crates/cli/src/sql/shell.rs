//! The prompt: lines with history and completion, statements that end with a semicolon, and commands that begin with a
//! dot.

use super::commands::COMMANDS;
use super::run;
use super::script::{Item, items};
use super::session::Session;
use super::show::Show;
use crate::failure::{Doing, Failure, Outcome};
use crate::output::say_line;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{Context, Editor, Helper, Highlighter, Hinter, Validator};
use std::path::PathBuf;

const KEYWORDS: [&str; 44] = [
    "ALTER TABLE",
    "AND",
    "AS",
    "BEGIN",
    "BETWEEN",
    "BY",
    "CASE",
    "COMMIT",
    "CREATE INDEX",
    "CREATE TABLE",
    "DEFAULT",
    "DELETE FROM",
    "DESC",
    "DISTINCT",
    "DROP TABLE",
    "ELSE",
    "END",
    "EXISTS",
    "EXPLAIN QUERY PLAN",
    "FROM",
    "GROUP BY",
    "HAVING",
    "IN",
    "INNER JOIN",
    "INSERT INTO",
    "INTEGER PRIMARY KEY",
    "IS NULL",
    "JOIN",
    "LEFT JOIN",
    "LIKE",
    "LIMIT",
    "NOT NULL",
    "OFFSET",
    "ON CONFLICT",
    "OR",
    "ORDER BY",
    "RETURNING",
    "ROLLBACK",
    "SAVEPOINT",
    "SELECT",
    "SET",
    "UPDATE",
    "VALUES",
    "WHERE",
];

/// Completes commands, keywords, tables and columns.
#[derive(Helper, Highlighter, Hinter, Validator)]
struct Words {
    names: Vec<String>,
}

impl Completer for Words {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let is_end = |c: char| !(c.is_alphanumeric() || c == '_' || c == '.');
        let start = line[..at]
            .rfind(is_end)
            .map_or(0, |end| end + line[end..].chars().next().map_or(1, char::len_utf8));
        let begun = &line[start..at];
        if begun.is_empty() {
            return Ok((at, Vec::new()));
        }
        let fits = |word: &&str| word.get(..begun.len()).is_some_and(|head| head.eq_ignore_ascii_case(begun));
        let commands = COMMANDS.iter().map(|(name, ..)| *name);
        let all = commands.chain(self.names.iter().map(String::as_str)).chain(KEYWORDS);
        Ok((start, all.filter(fits).map(str::to_owned).collect()))
    }
}

/// Reads and runs input until its end.
pub fn prompt(session: &Session, show: &mut Show) -> Outcome {
    let broken = |error: ReadlineError| Failure::Failed(format!("the terminal: {error}"));
    let mut editor: Editor<Words, DefaultHistory> = Editor::new().map_err(broken)?;
    editor.set_helper(Some(Words { names: session.names() }));
    let history = history_file();
    if let Some(file) = &history {
        // The first run has no history.
        let _ = editor.load_history(file);
    }
    if let Some(interrupt) = session.connection().map(sql::Connection::interrupt_handle) {
        let handled = ctrlc::set_handler(move || interrupt.interrupt());
        handled.map_err(|error| Failure::Failed(format!("cannot watch for Ctrl-C: {error}")))?;
    }
    let _ = say_line(format_args!("End statements with a semicolon; .help lists the commands"));
    let mut pending = String::new();
    loop {
        let prompt = if pending.is_empty() { "pando> " } else { "  ...> " };
        match editor.readline(prompt) {
            Ok(line) => pending.push_str(&line),
            Err(ReadlineError::Interrupted) => {
                pending.clear();
                continue;
            }
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(broken(error)),
        }
        pending.push('\n');
        let text = std::mem::take(&mut pending);
        let (rest, goes_on) = typed(session, show, &text);
        pending = rest;
        if pending.is_empty() {
            let _ = editor.add_history_entry(text.trim());
            if let Some(words) = editor.helper_mut() {
                words.names = session.names();
            }
        }
        if !goes_on {
            break;
        }
    }
    if let Some(file) = &history {
        // The shell works without a history.
        let _ = editor.save_history(file);
    }
    Ok(())
}

/// Runs commands and complete statements, up to the first failure. Returns the rest of the text, and whether the shell
/// continues.
fn typed(session: &Session, show: &mut Show, text: &str) -> (String, bool) {
    for (_, item, rest) in items(text) {
        if matches!(item, Item::Statement { is_complete: false, .. }) {
            return (rest.to_owned(), true);
        }
        match run::one(session, show, item) {
            Ok(true) => {}
            Ok(false) => return (String::new(), false),
            Err(failure) => {
                failure.report(Doing::Using);
                break;
            }
        }
    }
    (String::new(), true)
}

fn history_file() -> Option<PathBuf> {
    Some(PathBuf::from(std::env::var_os("HOME")?).join(".pando_sql_history"))
}
