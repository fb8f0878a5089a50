//! The quick suite: small runs of each workload of the engine, three times, with CPU profiles. It takes two minutes on
//! two processors.

use crate::cli::{self, Args};
use crate::{Failure, Outcome};
use clap::{Args as _, FromArgMatches};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::Write;

/// The workloads, each with its flags as on the command line. Those that measure the process's memory come first.
const SUITE: [&str; 14] = [
    "steady --seconds 10",
    "btree-insert --n 300k --repeat 3",
    "leaf-edit --repeat 3",
    "read-start --n 200k --repeat 3",
    "write-throughput --threads 1,2,4 -i 300 --repeat 3",
    "bulk --n 300k --repeat 3",
    "point-get --n 200k --repeat 3",
    "scan --n 300k --repeat 3",
    "delete-churn --n 100k --repeat 3",
    "range-delete --n 100k --repeat 3",
    "many-ranges --n 4k --repeat 3",
    "queue --n 20k --repeat 3",
    "ycsb --n 100k --repeat 3",
    "kv-load --n 500k --layout lsm --memory 16MiB --repeat 3",
];

/// Runs the suite and writes each row to `out` when it is ready, one JSON object per line.
///
/// # Errors
/// An error of a workload.
pub(crate) fn run(out: &mut dyn Write) -> Outcome<()> {
    let bar = ProgressBar::new(SUITE.len() as u64);
    let style = "{pos}/{len} {wide_bar} {elapsed} {msg}";
    bar.set_style(ProgressStyle::with_template(style).expect("the template is constant"));
    for words in SUITE {
        bar.set_message(words.split(' ').next().unwrap_or(words).to_owned());
        bar.tick();
        cli::run_all(&arguments(words)?, out)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

fn arguments(words: &str) -> Outcome<Args> {
    let words = words.split(' ').chain(["--json", "--profile", "cpu"]);
    let parsed = Args::augment_args(clap::Command::new("bench").no_binary_name(true))
        .try_get_matches_from(words)
        .and_then(|matches| Args::from_arg_matches(&matches));
    parsed.map_err(|error| Failure::Usage(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads;

    #[test]
    fn what_is_run_exists() {
        for words in SUITE {
            let args = arguments(words).unwrap();
            assert!(
                workloads::named(&args.workloads[0]).is_ok() && args.json && args.profile.is_some(),
                "{words}"
            );
        }
    }
}
