//! What each option of `serve` is, and what set it, for `/v1/settings` of the server.
//!
//! The command line is parsed once more, because the parsed options do not say where they come from. The options of a
//! file were inserted into the command line (`config_file`), so an option that the words before that lack is of the
//! file.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use server::Setting;
use std::ffi::{OsStr, OsString};

/// Returns the options of `serve`, a part of `command`, in the command line `words`, which was `expanded` by those of a
/// file; none if it is another command.
pub fn of(command: &Command, words: &[OsString], expanded: Vec<OsString>) -> Vec<Setting> {
    let Ok(matches) = command.clone().try_get_matches_from(expanded) else { return Vec::new() };
    let (Some(serve), Some(found)) = (command.find_subcommand("serve"), matches.subcommand_matches("serve"))
    else {
        return Vec::new();
    };
    let is_option = |arg: &&Arg| arg.get_long().is_some_and(|name| name != "help");
    serve.get_arguments().filter(is_option).map(|arg| setting(arg, found, words)).collect()
}

fn setting(arg: &Arg, found: &ArgMatches, words: &[OsString]) -> Setting {
    let (id, name) = (arg.get_id().as_str(), arg.get_long().unwrap_or_default());
    let source = found.value_source(id);
    let is_given = |word: &OsString| {
        let rest = word.to_str().and_then(|word| word.strip_prefix("--")?.strip_prefix(name));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    };
    let origin = match source {
        None | Some(ValueSource::DefaultValue) => "the default".to_owned(),
        Some(ValueSource::EnvVariable) => {
            format!("the variable {}", arg.get_env().unwrap_or_default().display())
        }
        Some(ValueSource::CommandLine) if !words.iter().any(is_given) => "the file in --config".to_owned(),
        Some(_) => "the command line".to_owned(),
    };
    let values = found.get_raw(id).into_iter().flatten();
    let shown = |value: &OsStr| match id {
        // Its parameters may have a password as well.
        "store" => crate::copy::shown(value.as_ref()),
        _ => without_password(&value.to_string_lossy()),
    };
    let values: Vec<String> = values.map(shown).collect();
    let is_flag = !arg.get_action().takes_values();
    let value = match (values.is_empty(), is_flag) {
        (true, true) => found.get_flag(id).to_string(),
        (true, false) => String::new(),
        (false, _) => values.join(","),
    };
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    Setting { name: name.to_owned(), value, origin, help }
}

/// Returns an address without the user and the password in it.
pub fn without_password(text: &str) -> String {
    match text.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.split('/').next().unwrap_or_default();
            let hidden = host.rfind('@').map_or(0, |at| at + 1);
            format!("{scheme}://{}", &rest[hidden..])
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_addresses_are_not_shown() {
        for (given, shown) in [
            ("http://ann:secret@db.example/x", "http://db.example/x"),
            ("s3://bucket/a@b", "s3://bucket/a@b"),
            ("127.0.0.1:7263", "127.0.0.1:7263"),
        ] {
            assert_eq!(without_password(given), shown);
        }
    }
}
