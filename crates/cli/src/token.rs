//! `token`: who may use a server.

use crate::failure::{Failure, Outcome};
use crate::output::{self, Cell, FormatArgs, Rows, say};
use clap::{Args, Subcommand, ValueEnum};
use server::{Scope, TokenFile};
use std::path::PathBuf;

const NOTES: &str = "\
A server that runs takes notice within a second. As long as a directory never had a token its server asks
for none, and listens to this machine alone. With the last token revoked nobody gets in; remove `tokens.json`
to begin anew.";

#[derive(Args, Debug)]
#[command(after_help = NOTES)]
pub struct TokenArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a token and print it, once: it is stored as a hash
    Create {
        /// The served directory
        dir: PathBuf,
        /// What it is called
        #[arg(long)]
        name: String,
        /// What it allows
        #[arg(long, value_enum)]
        scope: ScopeName,
        /// The one database that it is for [default: all]
        #[arg(long, value_name = "NAME")]
        database: Option<String>,
    },
    /// List the tokens: what they are called and what they allow
    List {
        /// The served directory
        dir: PathBuf,
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Make a token worthless
    Revoke {
        /// The served directory
        dir: PathBuf,
        /// What it is called
        name: String,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ScopeName {
    /// To read records
    Read,
    /// To change records, and make tables, too
    Write,
    /// Everything
    Admin,
}

/// `pando token`.
pub fn run(args: &TokenArgs) -> Outcome {
    match &args.action {
        Action::Create { dir, name, scope, database } => {
            let scope = match scope {
                ScopeName::Read => Scope::Read,
                ScopeName::Write => Scope::Write,
                ScopeName::Admin => Scope::Admin,
            };
            say!("{}", TokenFile::of(dir).create(name, scope, database.clone())?)
        }
        Action::List { dir, format } => {
            let columns = &["name", "scope", "database", "created_s"];
            let mut rows = Rows::new(output::stdout(), format.format(), columns).map_err(Failure::stdout)?;
            for token in TokenFile::of(dir).list()? {
                let scope = format!("{:?}", token.scope).to_lowercase();
                let database = token.database.as_deref().unwrap_or("*");
                let cells = [
                    Cell::Bytes(token.name.as_bytes()),
                    Cell::Bytes(scope.as_bytes()),
                    Cell::Bytes(database.as_bytes()),
                    Cell::Number(token.created_s),
                ];
                rows.row(&cells).map_err(Failure::stdout)?;
            }
            rows.finish().map(drop).map_err(Failure::stdout)
        }
        Action::Revoke { dir, name } => Ok(TokenFile::of(dir).revoke(name)?),
    }
}
