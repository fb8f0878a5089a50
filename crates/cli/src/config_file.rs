//! The file in `--config` of `pando serve`: its options are inserted into the command line.

use crate::failure::{Failure, Outcome};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};
use std::ffi::OsString;
use std::path::PathBuf;

/// Inserts the options of the file in `--config` before those of the command line, which take precedence. `command`
/// makes the whole command, of which `serve` is a part.
pub fn expand(words: Vec<OsString>, command: fn() -> Command) -> Outcome<Vec<OsString>> {
    if words.get(1).is_none_or(|command| command != "serve") {
        return Ok(words);
    }
    let named =
        words.iter().enumerate().find_map(|(at, word)| match word.to_str()?.strip_prefix("--config")? {
            "" => words.get(at + 1).map(PathBuf::from),
            rest => rest.strip_prefix('=').map(PathBuf::from),
        });
    let Some(path) = named else { return Ok(words) };
    let shown = path.display();
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Failure::Usage(format!("cannot read {shown}: {error}")))?;
    let options: toml::Table =
        text.parse().map_err(|error: toml::de::Error| Failure::Usage(format!("{shown}: {error}")))?;
    let (command, mut expanded) = (command(), words[..2].to_vec());
    for (name, value) in options {
        let word = match value {
            toml::Value::Boolean(true) => format!("--{name}"),
            toml::Value::Boolean(false) => continue,
            toml::Value::String(text) => format!("--{name}={text}"),
            toml::Value::Integer(number) => format!("--{name}={number}"),
            other => {
                let message = format!(
                    "{shown}: `{name}` is of type {}; an option must be a string, an integer or a boolean",
                    other.type_str()
                );
                return Err(Failure::Usage(message));
            }
        };
        check_option(&command, &name, &word).map_err(|what| Failure::Usage(format!("{shown}: {what}")))?;
        if !is_set_outside(&command, &name) {
            expanded.push(word.into());
        }
    }
    expanded.extend_from_slice(&words[2..]);
    Ok(expanded)
}

/// Checks one option of a file by itself, so that the message refers to the file and not to a command line.
fn check_option(command: &Command, name: &str, word: &str) -> Result<(), String> {
    let Err(error) = command.clone().try_get_matches_from(["pando", "serve", ".", word]) else {
        return Ok(());
    };
    let said = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(&text[..]),
        _ => None,
    };
    match error.kind() {
        ErrorKind::UnknownArgument | ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let near = said(ContextKind::SuggestedArg).and_then(|near| near.strip_prefix("--"));
            let near = near.map_or(String::new(), |near| format!("; there is `{near}`"));
            Err(format!("there is no option `{name}`{near}: `pando serve --help` lists them"))
        }
        // Something else is wrong, a variable for example. Parsing the whole command line reports it.
        _ if said(ContextKind::InvalidArg).is_some_and(|arg| !arg.starts_with(&format!("--{name}"))) => {
            Ok(())
        }
        _ => {
            let text = error.to_string();
            let lines: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
            Err(lines.join(" ").trim_start_matches("error: ").to_owned())
        }
    }
}

/// Returns whether a variable sets the option, which takes precedence over the file, or whether the option is the file
/// itself.
fn is_set_outside(command: &Command, name: &str) -> bool {
    let serve = command.find_subcommand("serve").expect("there is such a command");
    let arg = serve.get_arguments().find(|arg| arg.get_long() == Some(name));
    name == "config"
        || arg.and_then(Arg::get_env).is_some_and(|variable| std::env::var_os(variable).is_some())
}
