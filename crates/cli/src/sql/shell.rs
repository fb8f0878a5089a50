//! The prompt: lines with history and completion, statements that end with a semicolon, and commands that begin with a
//! dot.

use super::show::{self, Show};
use super::statements::failure;
use crate::failure::{Doing, Failure, Outcome};
use crate::output::{Format, say_line};
use clap::ValueEnum;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{Context, Editor, Helper, Highlighter, Hinter, Validator};
use sql::Connection;
use std::path::PathBuf;

const HELP: &str = "\
Statements end with a semicolon. Ctrl-C stops a running statement, Ctrl-D ends the shell.
.tables            List the tables and views
.schema [TABLE]    Print the statements that create tables, views, indexes and triggers
.format FORMAT     Set the output format: table, json, ndjson or csv
.timing on|off     Print how long each statement took
.read FILE         Run the statements in a file
.help              Print this help
.quit              End the shell";

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
        let commands = [".tables", ".schema", ".format", ".timing", ".read", ".help", ".quit"];
        let all = commands.into_iter().chain(self.names.iter().map(String::as_str)).chain(KEYWORDS);
        Ok((start, all.filter(fits).map(str::to_owned).collect()))
    }
}

/// Reads and runs input until its end.
pub fn run(connection: &Connection, show: &mut Show) -> Outcome {
    let broken = |error: ReadlineError| Failure::Failed(format!("the terminal: {error}"));
    let mut editor: Editor<Words, DefaultHistory> = Editor::new().map_err(broken)?;
    editor.set_helper(Some(Words { names: names(connection) }));
    let history = history_file();
    if let Some(file) = &history {
        // The first run has no history.
        let _ = editor.load_history(file);
    }
    let interrupt = connection.interrupt_handle();
    let handled = ctrlc::set_handler(move || interrupt.interrupt());
    handled.map_err(|error| Failure::Failed(format!("cannot watch for Ctrl-C: {error}")))?;
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
        if text.trim_start().starts_with('.') {
            let _ = editor.add_history_entry(text.trim());
            match command(connection, show, text.trim()) {
                Ok(true) => {}
                Ok(false) => break,
                Err(failure) => drop(failure.report(Doing::Using)),
            }
            continue;
        }
        pending = statements(connection, show, &text);
        if pending.is_empty() {
            let _ = editor.add_history_entry(text.trim());
            if let Some(words) = editor.helper_mut() {
                words.names = names(connection);
            }
        }
    }
    if let Some(file) = &history {
        // The shell works without a history.
        let _ = editor.save_history(file);
    }
    Ok(())
}

/// Runs the complete statements and returns the rest of the text.
fn statements(connection: &Connection, show: &mut Show, text: &str) -> String {
    let mut rest = text;
    while let Some(first) = sql::split_first(rest) {
        if !first.is_complete {
            return rest.to_owned();
        }
        if let Err(failure) = show.statement(connection, first.statement) {
            failure.report(Doing::Using);
            return String::new();
        }
        rest = first.rest;
    }
    String::new()
}

/// Runs a command and returns whether the shell continues.
fn command(connection: &Connection, show: &mut Show, text: &str) -> Outcome<bool> {
    let mut words = text.split_ascii_whitespace();
    let (name, argument) = (words.next().unwrap_or_default(), words.next());
    match (name, argument) {
        (".tables", None) => {
            let rows: Vec<_> =
                connection.tables().map_err(failure)?.into_iter().map(|table| vec![table.name]).collect();
            show::lines(show.format, &["table"], &rows)?;
        }
        (".schema", table) => {
            for found in connection.tables().map_err(failure)? {
                if table.is_none_or(|name| name.trim_matches('"').eq_ignore_ascii_case(&found.name)) {
                    let rest = found.indexes.iter().chain(&found.triggers);
                    for statement in std::iter::once(&found.create).chain(rest) {
                        say_line(format_args!("{statement};"))?;
                    }
                }
            }
        }
        (".format", Some(format)) => {
            let wrong = |_| Failure::Usage("the format must be table, json, ndjson or csv".to_owned());
            show.format = Format::from_str(format, true).map_err(wrong)?;
        }
        (".timing", Some(word @ ("on" | "off"))) => show.timing = word == "on",
        (".read", Some(file)) => {
            let text = std::fs::read_to_string(file);
            let text = text.map_err(|cause| Failure::system(format!("read {file}"), cause))?;
            show.script(connection, &text)?;
        }
        (".help", None) => say_line(format_args!("{HELP}"))?,
        (".quit" | ".exit", None) => return Ok(false),
        _ => return Err(Failure::Usage(format!("{text:?} is not a command; .help lists the commands"))),
    }
    Ok(true)
}

/// Returns the names that are completed in addition to keywords.
fn names(connection: &Connection) -> Vec<String> {
    let tables = connection.tables().unwrap_or_default();
    let mut names: Vec<_> =
        tables.into_iter().flat_map(|table| [vec![table.name], table.columns].concat()).collect();
    names.sort();
    names.dedup();
    names
}

fn history_file() -> Option<PathBuf> {
    Some(PathBuf::from(std::env::var_os("HOME")?).join(".pando_sql_history"))
}
