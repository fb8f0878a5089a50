//! `compact`: the files as small as they get.

use crate::failure::Outcome;
use crate::open::WriteArgs;
use crate::output::{self, Cell, FormatArgs};
use crate::remote::Remote;
use crate::{inspect, text};
use clap::Args;
use indicatif::ProgressBar;
use pando::Compacted;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args, Debug)]
pub struct CompactArgs {
    /// The database's directory
    dir: PathBuf,
    #[command(flatten)]
    write: WriteArgs,
    #[command(flatten)]
    format: FormatArgs,
}

/// `pando compact`.
pub fn run(args: &CompactArgs) -> Outcome {
    if let Some(remote) = Remote::of(&args.dir)? {
        return inspect::write_numbers(&remote.ask_json("POST", "/compact")?, args.format);
    }
    let db = args.write.builder().open(&args.dir)?;
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(200));
    let done = db.compact(|now| bar.set_message(describe(now)));
    bar.finish_and_clear();
    let done = done?;
    db.close()?;
    let fields = fields(&done).map(|(name, value)| (name, Cell::Number(value)));
    output::write_record(args.format.format(), &fields)
}

fn describe(now: &Compacted) -> String {
    let (was, is) = (text::size(now.data_file_bytes_before), text::size(now.data_file_bytes));
    format!("pass {}: {was} are {is}, {} in use", now.passes, text::size(now.data_used_bytes))
}

/// What it came to.
fn fields(done: &Compacted) -> [(&'static str, u64); 6] {
    [
        ("data_file_bytes_before", done.data_file_bytes_before),
        ("data_file_bytes", done.data_file_bytes),
        ("data_used_bytes", done.data_used_bytes),
        ("log_file_bytes_before", done.log_file_bytes_before),
        ("log_file_bytes", done.log_file_bytes),
        ("checkpoints", done.checkpoints),
    ]
}
