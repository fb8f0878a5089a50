//! `promote`: makes a replica a primary.

use super::http::Primary;
use super::source::source;
use crate::failure::{Failure, Outcome};
use crate::open::MemoryArgs;
use crate::output::{self, Cell, FormatArgs, Rows};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args, Debug)]
#[command(after_help = "\
A replica of a bucket applies everything that the bucket has, and fences the server that wrote it: nothing that was
shipped is lost, and the old server can ship no more. A replica of a server has what reached it; stop that server first,
because nothing else keeps it from accepting writes.

Examples:
  pando promote http://127.0.0.1:7263
  pando promote data && pando serve data --ship s3://my-bucket/pando

The variable PANDO_TOKEN holds the token for a server, which must allow everything (admin).")]
pub struct PromoteArgs {
    /// The running replica at http://HOST:PORT or https://HOST:PORT, or the directory of a replica that is not running
    replica: PathBuf,
    #[command(flatten)]
    memory: MemoryArgs,
    #[command(flatten)]
    format: FormatArgs,
}

/// Runs `pando promote`.
pub fn run(args: &PromoteArgs) -> Outcome {
    let server = args.replica.to_str().map(Primary::for_command).transpose()?.flatten();
    let promoted = match server {
        Some(server) => by_server(&server)?,
        None => {
            let address = server::followed_by(&args.replica)?;
            let missing = || Failure::Usage(format!("{} is not a replica", args.replica.display()));
            let from = source(&address.ok_or_else(missing)?, None, Duration::from_secs(1))?;
            server::promote(&args.replica, from, args.memory.memory)?
        }
    };
    let columns = ["database", "commit"];
    let mut rows = Rows::new(output::stdout(), args.format.format(), &columns).map_err(Failure::stdout)?;
    for (name, commit) in &promoted {
        rows.row(&[Cell::Bytes(name.as_bytes()), Cell::Number(*commit)]).map_err(Failure::stdout)?;
    }
    rows.finish().map(drop).map_err(Failure::stdout)
}

fn by_server(server: &Primary) -> Outcome<Vec<(String, u64)>> {
    let answer = server.promote()?;
    let databases = answer.get("databases").and_then(serde_json::Value::as_object);
    let databases = databases.ok_or_else(|| Failure::Failed("the response has no databases".to_owned()))?;
    let last =
        |(name, commit): (&String, &serde_json::Value)| (name.clone(), commit.as_u64().unwrap_or_default());
    Ok(databases.iter().map(last).collect())
}
