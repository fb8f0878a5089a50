//! The commands that begin with a dot, by the names and arguments of SQLite's shell.

use super::dump;
use super::literal::matches;
use super::load::{self, Load};
use super::mode::{Mode, NAMES};
use super::run::script;
use super::session::Session;
use super::show::{Settings, Show};
use crate::failure::{Failure, Outcome};
use std::io::Write;
use std::path::Path;

/// A command: its name, its arguments, and what it does.
type Command = (&'static str, &'static str, &'static str);

pub const COMMANDS: [Command; 23] = [
    (".bail", "on|off", "End a script at the first failure; on unless it is set"),
    (".changes", "on|off", "Print how many rows a statement changed"),
    (".databases", "", "Print the name of the database"),
    (".dump", "[PATTERN]", "Print the tables, or those whose names match, as statements"),
    (".echo", "on|off", "Print each statement before its result"),
    (".eqp", "on|off", "Print the plan of each statement before its result"),
    (".exit", "", "End the shell"),
    (".headers", "on|off", "Print the names of the columns"),
    (".help", "", "Print this help"),
    (".import", "[--csv] [--skip N] FILE TABLE", "Insert lines; the first one names a new table's columns"),
    (".indexes", "[PATTERN]", "List the indexes, or those of tables whose names match"),
    (".mode", "MODE", "Set the form of rows"),
    (".nullvalue", "TEXT", "Print TEXT for a null"),
    (".once", "FILE", "Write the next result to FILE"),
    (".output", "[FILE]", "Write results to FILE, or to standard output again"),
    (".print", "TEXT...", "Print TEXT"),
    (".quit", "", "End the shell"),
    (".read", "FILE", "Run the statements and commands in FILE"),
    (".schema", "[PATTERN]", "Print the statements that make tables, indexes, views and triggers"),
    (".separator", "TEXT", "Print TEXT between values in the modes list and quote; .import reads it"),
    (".show", "", "Print the settings"),
    (".tables", "[PATTERN]", "List the tables and views"),
    (".timer", "on|off", "Print how long each statement took"),
];

/// Another name of a command.
const ALIASES: [(&str, &str); 2] = [(".indices", ".indexes"), (".header", ".headers")];

/// Commands of SQLite's shell that do not exist here, and what to do instead.
const ELSEWHERE: [(&str, &str); 9] = [
    (".backup", "`pando backup DIR TARGET` copies the database; `--to-sqlite FILE` writes a file of SQLite"),
    (".clone", "`pando backup DIR TARGET` copies the database"),
    (".load", "extensions cannot be loaded here"),
    (".open", "end the shell, and begin it with the other directory"),
    (
        ".restore",
        "`pando restore BACKUP DIR` restores a backup; `--from-sqlite FILE` copies a file of SQLite",
    ),
    (".save", "`pando backup DIR TARGET` copies the database; `--to-sqlite FILE` writes a file of SQLite"),
    (".shell", "programs are not run from here"),
    (".stats", "`pando stats DIR` shows figures of the database, `pando explain` those of an operation"),
    (".system", "programs are not run from here"),
];

/// How many files may be read, one from within the other.
const DEEPEST: usize = 25;

/// Runs a command. Returns whether the program continues.
pub fn run(session: &Session, show: &mut Show, text: &str) -> Outcome<bool> {
    let words = words(text)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [given, arguments @ ..] = &words[..] else { return Ok(true) };
    let command = find(given)?;
    match (command.0, arguments) {
        (".exit" | ".quit", []) => return Ok(false),
        (".help", []) => show.write(|out| out.write_all(help().as_bytes()))?,
        (".print", texts) => show.write(|out| writeln!(out, "{}", texts.join(" ")))?,
        (".read", [file]) => return read(session, show, file),
        (".once", [file]) => show.send_to(Some(Path::new(file)), true)?,
        (".output", [] | ["stdout"]) => show.send_to(None, false)?,
        (".output", [file]) => show.send_to(Some(Path::new(file)), false)?,
        (".dump", [] | [_]) => dump::dump(session, show, arguments.first().copied())?,
        (".import", [_, ..]) => load::load(session, &Load::parse(arguments, &show.settings)?)?,
        (".tables" | ".indexes" | ".databases", [] | [_]) => {
            list(session, show, command.0, arguments.first().copied())?;
        }
        (".schema", [] | [_]) => schema(session, show, arguments.first().copied())?,
        (".show", []) => show_settings(show)?,
        _ if set(&mut show.settings, command.0, arguments) => {}
        (".mode", _) => return Err(Failure::Usage(format!("the modes are: {NAMES}"))),
        (name, _) => return Err(Failure::Usage(format!("usage: {name} {}", command.1))),
    }
    Ok(true)
}

/// Changes a setting. Returns false if the arguments are none of the command.
fn set(settings: &mut Settings, name: &str, arguments: &[&str]) -> bool {
    let is_on = match arguments {
        ["on" | "yes" | "true" | "1"] => Some(true),
        ["off" | "no" | "false" | "0"] => Some(false),
        _ => None,
    };
    let switch = match name {
        ".bail" => Some(&mut settings.bail),
        ".changes" => Some(&mut settings.changes),
        ".echo" => Some(&mut settings.echo),
        ".eqp" => Some(&mut settings.plans),
        ".timer" => Some(&mut settings.timer),
        _ => None,
    };
    match (name, arguments) {
        (".headers", _) if is_on.is_some() => settings.headers = is_on,
        (".nullvalue", [text]) => settings.null = Some((*text).to_owned()),
        (".separator", [text]) => settings.separator = Some((*text).to_owned()),
        (".mode", [mode, rest @ ..]) if rest.len() < 2 => match Mode::of_name(mode, rest.first().copied()) {
            // A separator belongs to the mode in which it was set.
            Some(mode) => (settings.mode, settings.separator) = (mode, None),
            None => return false,
        },
        _ => match (switch, is_on) {
            (Some(switch), Some(is_on)) => *switch = is_on,
            _ => return false,
        },
    }
    true
}

/// Returns the command that has this name, or alone begins with it.
fn find(given: &str) -> Outcome<Command> {
    let lower = given.to_ascii_lowercase();
    let lower = ALIASES.iter().find(|(alias, _)| *alias == lower).map_or(&lower[..], |(_, name)| name);
    let mut found = COMMANDS.iter().filter(|(name, ..)| name.starts_with(lower));
    let exact = COMMANDS.iter().find(|(name, ..)| *name == lower);
    let of_others = ELSEWHERE.iter().find(|(name, _)| *name == lower);
    match (exact, of_others, found.next(), found.next()) {
        (Some(command), ..) => Ok(*command),
        (None, Some((name, instead)), ..) => {
            Err(Failure::Usage(format!("{name} is not supported: {instead}")))
        }
        (None, None, Some(command), None) if lower.len() > 1 => Ok(*command),
        (None, None, Some(one), Some(other)) => {
            Err(Failure::Usage(format!("{given:?} can be {} or {}", one.0, other.0)))
        }
        _ => Err(Failure::Usage(format!("{given:?} is not a command; .help lists the commands"))),
    }
}

fn help() -> String {
    let widest = COMMANDS.iter().map(|(name, arguments, _)| name.len() + arguments.len()).max().unwrap_or(0);
    let line = |(name, arguments, what): &Command| {
        let room = widest - name.len() - arguments.len();
        format!("{name} {arguments}{:room$}  {what}\n", "")
    };
    let commands: String = COMMANDS.iter().map(line).collect();
    format!(
        "Statements end with a semicolon. Ctrl-C stops a running statement, Ctrl-D ends the shell.\n\
         A command can be shortened, as `.sch`. PATTERN is one of LIKE. The modes are\n{NAMES}.\n{commands}"
    )
}

/// Divides a command into words at spaces. A word can be in single quotes, or in double ones, in which a backslash
/// begins `\n`, `\t`, `\r`, `\\` and `\"`.
fn words(text: &str) -> Outcome<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = text.trim_end().trim_end_matches(';').chars().peekable();
    loop {
        while rest.next_if(|c| c.is_whitespace()).is_some() {}
        let Some(&first) = rest.peek() else { return Ok(words) };
        let mut word = String::new();
        if first != '\'' && first != '"' {
            while let Some(c) = rest.next_if(|c| !c.is_whitespace()) {
                word.push(c);
            }
            words.push(word);
            continue;
        }
        rest.next();
        loop {
            match rest.next() {
                None => return Err(Failure::Usage(format!("{first} is not closed: {text}"))),
                Some(c) if c == first => break,
                Some('\\') if first == '"' => match rest.next() {
                    Some('n') => word.push('\n'),
                    Some('t') => word.push('\t'),
                    Some('r') => word.push('\r'),
                    Some(c) => word.push(c),
                    None => {}
                },
                Some(c) => word.push(c),
            }
        }
        words.push(word);
    }
}

fn read(session: &Session, show: &mut Show, file: &str) -> Outcome<bool> {
    if show.depth == DEEPEST {
        return Err(Failure::Failed(format!("{file} is not read: {DEEPEST} files already read one another")));
    }
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|cause| Failure::system(format!("read {file}"), cause))?;
    show.depth += 1;
    let done = script(session, show, &text);
    show.depth -= 1;
    done
}

fn list(session: &Session, show: &Show, what: &str, pattern: Option<&str>) -> Outcome {
    let (name, from) = match what {
        ".tables" => {
            let kinds = "type IN ('table', 'view') AND name NOT LIKE 'sqlite!_%' ESCAPE '!'";
            ("table", format!("sqlite_schema WHERE {kinds} AND {}", matches("name", pattern)))
        }
        ".indexes" => {
            let named = matches("tbl_name", pattern);
            ("index", format!("sqlite_schema WHERE type = 'index' AND {named}"))
        }
        _ => ("database", "pragma_database_list".to_owned()),
    };
    let rows = session.texts(&format!("SELECT name FROM {from} ORDER BY name"))?;
    show.lines(&[name], &rows)
}

fn schema(session: &Session, show: &Show, pattern: Option<&str>) -> Outcome {
    let named = matches("tbl_name", pattern);
    let all = format!("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND {named}");
    let rows = session.texts(&all)?;
    show.write(|out| rows.iter().flatten().try_for_each(|sql| writeln!(out, "{sql};")))
}

fn show_settings(show: &Show) -> Outcome {
    let Settings { mode, headers, null, separator, timer, plans, changes, echo, bail } = &show.settings;
    let on = |is_on: bool| if is_on { "on" } else { "off" };
    let headers = headers.map_or("as the mode has them", on);
    let usual = "as the mode has it";
    let of = |set: &Option<String>| set.as_ref().map_or(usual.to_owned(), |text| format!("{text:?}"));
    let lines = [
        ("bail", on(*bail).to_owned()),
        ("changes", on(*changes).to_owned()),
        ("echo", on(*echo).to_owned()),
        ("eqp", on(*plans).to_owned()),
        ("headers", headers.to_owned()),
        ("mode", mode.name().to_owned()),
        ("nullvalue", of(null)),
        ("separator", of(separator)),
        ("timer", on(*timer).to_owned()),
    ];
    show.write(|out| lines.iter().try_for_each(|(name, value)| writeln!(out, "{name:>9}: {value}")))
}
