//! `consumers`: lists the named consumers of changes, and drops one.

use crate::failure::{Failure, Outcome};
use crate::open::Existing;
use crate::output::{self, Cell, FormatArgs, Rows};
use crate::remote::{Remote, escape};
use clap::Args;
use pando::{Error, ErrorKind};
use serde_json::Value;

#[derive(Args, Debug)]
#[command(after_help = "\
`pando watch --consumer NAME`, programs, clients of a server and replicas create consumers. The log keeps
every commit that a consumer has not acknowledged, within 1 GiB (`max_changes_bytes`), so drop those that
nothing uses any longer. A consumer whose state is `lost` lacks changes that are no longer kept: drop it,
create it again, and begin with a copy of the data. While another process writes a directory, name the
address of that process's server.

Examples:
  pando consumers shop
  pando consumers http://127.0.0.1:7263/shop --json
  pando consumers shop --drop mails")]
pub struct ConsumersArgs {
    #[command(flatten)]
    database: Existing,
    /// Drop the consumer NAME and release what is kept for it, and list nothing
    #[arg(long, value_name = "NAME", conflicts_with_all = ["format", "json"])]
    drop: Option<String>,
    #[command(flatten)]
    format: FormatArgs,
}

/// Runs `pando consumers`.
pub fn run(args: &ConsumersArgs) -> Outcome {
    let remote = Remote::find(&args.database.dir)?;
    match (&args.drop, &remote) {
        (Some(name), Some(remote)) => {
            remote.ask("DELETE", &format!("/consumers/{}", escape(name.as_bytes())), None).map(drop)
        }
        (Some(name), None) => {
            let db = args.database.memory.builder().open(&args.database.dir)?;
            db.drop_consumer(name)?;
            Ok(db.close()?)
        }
        (None, Some(remote)) => list_remote(remote, args),
        (None, None) => list(args),
    }
}

/// Lists the consumers of a directory.
fn list(args: &ConsumersArgs) -> Outcome {
    let db = args.database.open()?;
    if db.is_beside_writer() {
        let message = "another process has the database open for writing, and has its consumers; if it is a \
                       server, run `pando consumers http://HOST:PORT/DATABASE`";
        return Err(Error::new(ErrorKind::Locked, message).into());
    }
    let consumers = db.consumers()?;
    write(args, consumers.iter().map(|consumer| (&consumer.name[..], consumer.position, consumer.is_lost)))
}

fn list_remote(remote: &Remote, args: &ConsumersArgs) -> Outcome {
    let listed = remote.ask_json("GET", "/consumers")?;
    let consumers = listed.get("consumers").and_then(Value::as_array).into_iter().flatten();
    write(
        args,
        consumers.map(|consumer| {
            let name = consumer["name"].as_str().unwrap_or_default();
            let position = consumer["position"].as_u64().unwrap_or_default();
            (name, position, consumer["is_lost"].as_bool().unwrap_or_default())
        }),
    )
}

/// Writes a row for each consumer: its name, its position, and whether it has lost it.
fn write<'c>(args: &ConsumersArgs, consumers: impl Iterator<Item = (&'c str, u64, bool)>) -> Outcome {
    let columns = ["consumer", "position", "state"];
    let mut rows = Rows::new(output::stdout(), args.format.format(), &columns).map_err(Failure::stdout)?;
    for (name, position, is_lost) in consumers {
        let state: &[u8] = if is_lost { b"lost" } else { b"kept" };
        let cells = [Cell::Bytes(name.as_bytes()), Cell::Number(position), Cell::Bytes(state)];
        rows.row(&cells).map_err(Failure::stdout)?;
    }
    rows.finish().map(drop).map_err(Failure::stdout)
}
