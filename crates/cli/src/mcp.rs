//! `mcp`: serves a database to an agent, over the Model Context Protocol.

use crate::failure::{Failure, Outcome};
use crate::open::WriteArgs;
use crate::remote::Remote;
use crate::text;
use clap::Args;
use pando::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

const HELP: &str = "\
A client starts this command and speaks the protocol with it over standard input and output. In the configuration of a
client it looks like this:
  {\"mcpServers\": {\"shop\": {\"command\": \"pando\", \"args\": [\"mcp\", \"/data/shop\"]}}}

The tools list and describe tables, get and scan records, run SQL that reads, and explain. With --allow-writes there are
also tools that put, delete, create tables, and run SQL that writes. Without it, the command works beside a process that
writes the database, such as a server. docs/mcp.md describes each tool.";

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub struct McpArgs {
    /// The directory of the database; it must exist
    dir: PathBuf,
    /// Offer tools that write; no other process can then open the database for writing
    #[arg(long)]
    allow_writes: bool,
    /// Stop a SQL statement that runs longer than this, as in 10s or 2m
    #[arg(long, value_name = "TIME", value_parser = text::parse_duration, default_value = "30s")]
    statement_time: Duration,
    /// Cut off a result at SIZE, in bytes or with K or M; the result says how to read the rest
    #[arg(long, value_name = "SIZE", value_parser = text::parse_size, default_value = "256K")]
    result_size: usize,
    #[command(flatten)]
    write: WriteArgs,
}

/// Runs `pando mcp`.
pub fn run(args: &McpArgs) -> Outcome {
    if Remote::find(&args.dir)?.is_some() {
        return Err(Failure::Usage(
            "`pando mcp` opens a directory; a server on this machine does not keep it from reading, so name \
             the directory that the server serves"
                .into(),
        ));
    }
    let db =
        args.write.builder().read_only(!args.allow_writes).open(&args.dir).map_err(|error| {
            match error.kind() {
                ErrorKind::Locked if args.allow_writes => Failure::Engine(
                    error.within("start without --allow-writes to read beside the process that writes"),
                ),
                _ => error.into(),
            }
        })?;
    let options = mcp::Options {
        allows_writes: args.allow_writes,
        statement_time: args.statement_time,
        result_bytes: args.result_size,
    };
    mcp::serve(db.clone(), options)?;
    db.close()?;
    Ok(())
}
