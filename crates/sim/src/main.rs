//! `pando-sim`: explores crashes and faults, and prints what to run to see a failure again.

use clap::{Parser, Subcommand};
use sim::explore::{self, Settings};
use sim::report::Tally;
use std::process::ExitCode;

/// Runs the engine on a simulated disk and takes the power away.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Explores the crashes of seeded workloads.
    Explore {
        /// How many workloads.
        #[arg(long, default_value_t = 100)]
        seeds: u64,
        /// The first one's seed.
        #[arg(long, default_value_t = 1)]
        first_seed: u64,
        /// Stop at the first failure.
        #[arg(long)]
        stop_at_first: bool,
        /// Images drawn at each event of the disk, at most.
        #[arg(long, default_value_t = Settings::default().images_per_event)]
        images_per_event: usize,
        /// 1: crashes of the run; 2: also of recoveries from them; 3: and of recoveries from those.
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=3))]
        depth: u8,
        /// Fail unless at least so many different images were seen.
        #[arg(long, default_value_t = 0)]
        min_distinct: u64,
        /// Print one JSON object instead of the table.
        #[arg(long)]
        json: bool,
    },
}

fn main() -> ExitCode {
    let Command::Explore { seeds, first_seed, stop_at_first, images_per_event, depth, min_distinct, json } =
        Arguments::parse().command;
    let settings = Settings { images_per_event, depth: depth.into() };
    let mut tally = Tally::default();
    let mut failures = 0;
    for seed in first_seed..first_seed + seeds {
        if let Err(failure) = explore::seed(seed, settings, &mut tally) {
            failures += 1;
            eprintln!("{failure}");
            if stop_at_first {
                break;
            }
        }
    }
    if json {
        println!("{}", tally.json())
    } else {
        println!("{tally}")
    }
    if failures > 0 {
        eprintln!("{failures} seeds failed");
    }
    if tally.distinct() < min_distinct {
        eprintln!("only {} distinct images, {min_distinct} were asked for", tally.distinct());
        return ExitCode::FAILURE;
    }
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
