//! `token`: the access tokens of a server.

use crate::failure::{Failure, Outcome};
use crate::output::{self, Cell, FormatArgs, Rows, say};
use crate::remote::refuse_address;
use crate::text;
use clap::{Args, Subcommand, ValueEnum};
use pando::{Error, ErrorKind};
use server::{NewToken, Scope, TokenFile};
use std::path::{Path, PathBuf};
use std::time::Duration;

const NOTES: &str = "\
A running server notices changes within a second. As long as a directory has never had a token, its server
requires none and accepts connections from this machine only. After the last token is revoked, the server
rejects every request; delete `tokens.json` to start again without tokens.

Example:
  pando token create data --name reporting --scope read --database shop";

#[derive(Args, Debug)]
#[command(after_help = NOTES)]
pub struct TokenArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a token and print it once; only its hash is stored
    Create {
        /// The served directory
        dir: PathBuf,
        /// The name of the token
        #[arg(long)]
        name: String,
        /// What the token allows
        #[arg(long, value_enum)]
        scope: ScopeName,
        /// The only database that the token may use [default: all]
        #[arg(long, value_name = "NAME")]
        database: Option<String>,
        /// Allow at most N requests a second over HTTP; further ones get 429. The requests of one second may come at
        /// once [default: no limit]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        rate: Option<u32>,
        /// The token is valid for TIME from now on, as in 12h or 30d [default: until it is revoked]
        #[arg(long, value_name = "TIME", value_parser = text::parse_duration)]
        expires_in: Option<Duration>,
        /// Allow at most N requests at a time over HTTP; further ones get 429. A response that is sent in pieces counts
        /// until its end [default: no limit]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        concurrency: Option<u32>,
    },
    /// List the tokens with their names and what they allow
    List {
        /// The served directory
        dir: PathBuf,
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Revoke a token
    Revoke {
        /// The served directory
        dir: PathBuf,
        /// The name of the token
        name: String,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ScopeName {
    /// Read records
    Read,
    /// Read and change records, and create tables
    Write,
    /// Everything
    Admin,
}

/// Runs `pando token`.
pub fn run(args: &TokenArgs) -> Outcome {
    let (Action::Create { dir, .. } | Action::List { dir, .. } | Action::Revoke { dir, .. }) = &args.action;
    refuse_address(dir, "run it on the server's machine with the served directory")?;
    match &args.action {
        Action::Create { dir, name, scope, database, rate, concurrency, expires_in } => {
            let scope = match scope {
                ScopeName::Read => Scope::Read,
                ScopeName::Write => Scope::Write,
                ScopeName::Admin => Scope::Admin,
            };
            let new = NewToken {
                name,
                scope,
                database: database.clone(),
                rate: *rate,
                concurrency: *concurrency,
                lives_for: *expires_in,
            };
            say!("{}", TokenFile::in_dir(dir).create_as(new)?)
        }
        Action::List { dir, format } => {
            check_exists(dir)?;
            let columns = &["name", "scope", "database", "created_s", "rate", "concurrency", "expires_s"];
            let mut rows = Rows::new(output::stdout(), format.format(), columns).map_err(Failure::stdout)?;
            for token in TokenFile::in_dir(dir).list()? {
                let scope = format!("{:?}", token.scope).to_lowercase();
                let database = token.database.as_deref().unwrap_or("*");
                let cells = [
                    Cell::Bytes(token.name.as_bytes()),
                    Cell::Bytes(scope.as_bytes()),
                    Cell::Bytes(database.as_bytes()),
                    Cell::Number(token.created_s),
                    token.rate.map_or(Cell::Null, |rate| Cell::Number(rate.into())),
                    token.concurrency.map_or(Cell::Null, |most| Cell::Number(most.into())),
                    token.expires_s.map_or(Cell::Null, Cell::Number),
                ];
                rows.row(&cells).map_err(Failure::stdout)?;
            }
            rows.finish().map(drop).map_err(Failure::stdout)
        }
        Action::Revoke { dir, name } => {
            check_exists(dir)?;
            Ok(TokenFile::in_dir(dir).revoke(name)?)
        }
    }
}

/// Refuses a directory that does not exist. Only the first token may make it.
fn check_exists(dir: &Path) -> Outcome {
    match dir.is_dir() {
        true => Ok(()),
        false => {
            Err(Error::new(ErrorKind::Missing, format!("there is no directory {}", dir.display())).into())
        }
    }
}
