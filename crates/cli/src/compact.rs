//! `compact`: shrinks the files of a database as far as possible.

use crate::failure::Outcome;
use crate::open::WriteArgs;
use crate::output::{self, Cell, FormatArgs};
use crate::remote::Remote;
use crate::text;
use clap::Args;
use indicatif::ProgressBar;
use pando::Compacted;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args, Debug)]
pub struct CompactArgs {
    /// The directory of the database, or its address on a server: http://HOST:PORT/DATABASE
    dir: PathBuf,
    #[command(flatten)]
    write: WriteArgs,
    #[command(flatten)]
    format: FormatArgs,
}

/// Runs `pando compact`.
pub fn run(args: &CompactArgs) -> Outcome {
    if let Some(remote) = Remote::find(&args.dir)? {
        let answer = remote.ask_json("POST", "/compact")?;
        let number = |name: &str| answer.get(name).and_then(serde_json::Value::as_u64).unwrap_or_default();
        return write(NAMES.map(number), args);
    }
    let db = args.write.builder().open(&args.dir)?;
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(200));
    let done = db.compact(|now| bar.set_message(describe(now)));
    bar.finish_and_clear();
    let done = done?;
    db.close()?;
    write(numbers(&done), args)
}

fn describe(now: &Compacted) -> String {
    let (was, is) = (text::size(now.data_file_bytes_before), text::size(now.data_file_bytes));
    format!("pass {}: {was} are {is}, {} in use", now.passes, text::size(now.data_used_bytes))
}

/// The names of the printed numbers.
const NAMES: [&str; 6] = [
    "data_file_bytes_before",
    "data_file_bytes",
    "data_used_bytes",
    "log_file_bytes_before",
    "log_file_bytes",
    "checkpoints",
];

/// Returns the numbers of a finished compaction.
fn numbers(done: &Compacted) -> [u64; 6] {
    [
        done.data_file_bytes_before,
        done.data_file_bytes,
        done.data_used_bytes,
        done.log_file_bytes_before,
        done.log_file_bytes,
        done.checkpoints,
    ]
}

fn write(numbers: [u64; 6], args: &CompactArgs) -> Outcome {
    let fields: Vec<_> = NAMES.into_iter().zip(numbers.map(Cell::Number)).collect();
    output::write_record(args.format.format(), &fields)
}
