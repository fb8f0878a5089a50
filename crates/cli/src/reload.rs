//! The configuration of a running server, read again at SIGHUP.
//!
//! 1. The command line of the process is parsed again, with the file of `--config` as it is now. Variables of the
//!    environment cannot have changed.
//! 2. Options that a running server can take over are listed in [`RENEWED`]. If another one has changed, the log names
//!    it, because it is not in effect.

use crate::args::Cli;
use crate::config_file::expand;
use crate::failure::{Failure, Outcome};
use crate::logging::Level;
use crate::serve::ServeArgs;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};
use server::{Config, Effect, Reload, Renewed};
use std::collections::BTreeMap;
use std::ffi::OsString;

/// The options that change while the server runs, by their names on the command line.
pub const RENEWED: [&str; 11] = [
    "body-timeout",
    "cors-origin",
    "drain-delay",
    "head-timeout",
    "log",
    "max-body",
    "max-head",
    "max-import",
    "max-sql-timeout",
    "slow",
    "sql-timeout",
];

/// The values of all options, by their names on the command line.
type Values = BTreeMap<String, Vec<OsString>>;

/// Returns what reads the options of this process again. `None` if the server is run by another command, as by
/// `profile`, whose command line has no file of options. `level` is that of the log.
pub fn reload(level: Level) -> Option<Reload> {
    if std::env::args_os().nth(1).is_none_or(|command| command != "serve") {
        return None;
    }
    // What the server has begun with: the process has just parsed the same words.
    let begun = parse().ok().map(|(_, values)| values);
    Some(Reload::new(move || {
        let invalid = |failure: Failure| pando::Error::invalid(failure.message());
        let (args, values) = parse().map_err(invalid)?;
        args.check().map_err(invalid)?;
        let mut config = Config::new(args.dir());
        args.set_limits(&mut config);
        let fixed = begun.as_ref().map_or_else(Vec::new, |begun| changed(begun, &values));
        let (level, wanted) = (level.clone(), args.log_level());
        let effect = Effect::new(move || level.set(wanted));
        Ok(Renewed { cors_origins: config.cors_origins, limits: config.limits, effect, fixed })
    }))
}

/// Parses the command line of this process.
fn parse() -> Outcome<(ServeArgs, Values)> {
    let words = expand(std::env::args_os().collect(), Cli::command)?;
    let usage = |error: clap::Error| {
        let text = error.to_string();
        Failure::Usage(text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned())
    };
    let matches = Cli::command().try_get_matches_from(words).map_err(usage)?;
    let serve = matches.subcommand_matches("serve").expect("it is the command that runs");
    Ok((ServeArgs::from_arg_matches(serve).map_err(usage)?, values(serve)))
}

fn values(serve: &ArgMatches) -> Values {
    let command = Cli::command();
    let known = command.find_subcommand("serve").expect("there is such a command").get_arguments();
    let named = known.filter_map(|arg| Some((arg.get_id().as_str(), arg.get_long()?)));
    let value = |(id, name): (&str, &str)| {
        let given = serve.try_get_raw(id).ok().flatten()?;
        Some((name.to_owned(), given.map(ToOwned::to_owned).collect()))
    };
    named.filter_map(value).collect()
}

/// Returns the names of the options that differ, except for those that a running server takes over.
fn changed(before: &Values, after: &Values) -> Vec<String> {
    let names = before.keys().chain(after.keys()).filter(|name| !RENEWED.contains(&name.as_str()));
    let mut changed: Vec<String> =
        names.filter(|name| before.get(*name) != after.get(*name)).cloned().collect();
    changed.sort_unstable();
    changed.dedup();
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Values {
        let words = [&["pando", "serve", "data"], words].concat();
        let matches = Cli::command().try_get_matches_from(words).unwrap();
        values(matches.subcommand_matches("serve").unwrap())
    }

    #[test]
    fn options_that_a_running_server_cannot_take_over_are_named() {
        let before = of(&["--max-body", "1M", "--listen", "127.0.0.1:1"]);
        assert_eq!(changed(&before, &before), [""; 0]);
        assert_eq!(changed(&before, &of(&["--max-body", "2M", "--listen", "127.0.0.1:1"])), [""; 0]);
        let after = of(&["--listen", "127.0.0.1:2", "--max-sql", "3", "--allow-anyone"]);
        assert_eq!(changed(&before, &after), ["allow-anyone", "listen", "max-sql"]);
    }

    #[test]
    fn every_renewed_option_exists() {
        let command = Cli::command();
        let serve = command.find_subcommand("serve").unwrap();
        for name in RENEWED {
            assert!(serve.get_arguments().any(|arg| arg.get_long() == Some(name)), "{name}");
        }
    }
}
