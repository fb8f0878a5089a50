//! `profile`: runs any other command and writes its flame graph.

use crate::args::Cli;
use crate::failure::{Doing, Failure, Outcome};
use crate::text;
use clap::Args;
use profile::{Kind, Profile, Recording};
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The number of functions that are listed on standard error.
const LISTED: usize = 10;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando profile -- bench point-get --n 1000000
  pando profile --kind lock -o waits.svg -- bench write-throughput
  pando profile --kind alloc -o allocations.folded -- import DIR TABLE records.csv

The exit code is that of the command. CPU time is sampled at every kernel tick (usually 250 a second),
allocations once every 64 KiB, and the engine's waits for locks, flushes, pages and room once every
20 us of waiting.")]
pub struct ProfileArgs {
    /// What to sample: `cpu` time, `alloc` (bytes allocated) or `lock` (time waiting for locks and flushes)
    #[arg(long, default_value = "cpu")]
    kind: Kind,
    /// Write the profile to FILE: a picture for a browser if the name ends in .svg, folded text otherwise; can be
    /// given several times [default: pando-KIND.svg]
    #[arg(short, long, value_name = "FILE")]
    out: Vec<PathBuf>,
    /// The command to run, after `--` and without `pando`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs `pando profile`: calls `dispatch` with the other command in this process.
pub fn run(args: &ProfileArgs, dispatch: impl FnOnce(Cli) -> ExitCode) -> ExitCode {
    let command = Cli::parse_words(&args.command);
    let recording = match Recording::start(args.kind) {
        Ok(recording) => recording,
        Err(error) => return Failure::Failed(error.to_string()).report(Doing::Using),
    };
    let code = dispatch(command);
    let profile = recording.stop();
    match write(&profile, args) {
        Ok(()) => code,
        Err(failure) => failure.report(Doing::Using),
    }
}

fn write(profile: &Profile, args: &ProfileArgs) -> Outcome {
    let usual = [PathBuf::from(format!("pando-{}.svg", args.kind))];
    let paths = if args.out.is_empty() { &usual[..] } else { &args.out };
    for path in paths {
        let is_picture = path.extension().is_some_and(|extension| extension == "svg");
        let text = if is_picture { profile.svg() } else { profile.folded() };
        fs::write(path, text).map_err(|cause| Failure::system(format!("write {}", path.display()), cause))?;
    }
    let total = profile.total();
    eprintln!("{} in {:.2} s, most of it in", amount(args.kind, total), profile.time().as_secs_f64());
    for (function, figure) in profile.top(LISTED) {
        eprintln!("{:6.1}%  {function}", 100.0 * figure as f64 / total as f64);
    }
    if profile.lost() > 0 {
        eprintln!("{} samples were lost because they came too fast", profile.lost());
    }
    for path in paths {
        eprintln!("wrote {}", path.display());
    }
    Ok(())
}

fn amount(kind: Kind, total: u64) -> String {
    match kind {
        Kind::Cpu => format!("{total} samples of CPU time"),
        Kind::Alloc => format!("{} allocated", text::size(total)),
        Kind::Lock => format!("{:.3?} waited", Duration::from_nanos(total)),
    }
}
