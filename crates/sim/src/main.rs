//! `pando-sim`: explores crashes and faults, and prints the command that reproduces a failure.

use clap::{Parser, Subcommand};
use sim::explore::{self, Settings};
use sim::faults::{self, Failed};
use sim::report::Tally;
use sim::rot::{self, Rotted};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::process::ExitCode;
use std::thread;

/// Run the engine on a simulated disk and cut its power
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Explore the crashes of seeded workloads
    Explore {
        /// How many workloads to explore
        #[arg(long, default_value_t = 100)]
        seeds: u64,
        /// The seed of the first workload; the others count up from it
        #[arg(long, default_value_t = 1)]
        first_seed: u64,
        /// Stop at the first failure
        #[arg(long)]
        stop_at_first: bool,
        /// Draw at most this many disk images at each disk event
        #[arg(long, default_value_t = Settings::default().images_per_event)]
        images_per_event: usize,
        /// How deep to crash: 1 crashes the run; 2 also each recovery; 3 also the recoveries of those
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=3))]
        depth: u8,
        /// Fail unless the exploration saw at least this many different images
        #[arg(long, default_value_t = 0)]
        min_distinct: u64,
        /// Explore with this many threads, each with its own seeds [default: one for each core]
        #[arg(long)]
        threads: Option<NonZeroUsize>,
        /// Print one JSON object instead of the table
        #[arg(long)]
        json: bool,
    },
    /// Make each I/O call fail in turn, and try disks of every size
    Faults {
        /// How many scripts to run
        #[arg(long, default_value_t = 2)]
        scripts: u64,
        /// The seed of the first script; the others count up from it
        #[arg(long, default_value_t = 1)]
        first_seed: u64,
    },
    /// Flip single bytes of closed databases, and verify that the damage is found
    Rot {
        /// How many workloads to run
        #[arg(long, default_value_t = 20)]
        seeds: u64,
        /// The seed of the first workload; the others count up from it
        #[arg(long, default_value_t = 1)]
        first_seed: u64,
        /// How many bytes to flip in each database
        #[arg(long, default_value_t = 400)]
        flips: u64,
    },
}

fn main() -> ExitCode {
    let passed = match Arguments::parse().command {
        Command::Explore {
            seeds,
            first_seed,
            stop_at_first,
            images_per_event,
            depth,
            min_distinct,
            threads,
            json,
        } => {
            let settings = Settings { images_per_event, depth: depth.into() };
            let threads =
                threads.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
            let (tally, failures) =
                explore::seeds(first_seed..first_seed + seeds, settings, threads.get(), |failure| {
                    eprintln!("{failure}");
                    !stop_at_first
                });
            explored(&tally, failures, min_distinct, json)
        }
        Command::Faults { scripts, first_seed } => fail_all(first_seed..first_seed + scripts),
        Command::Rot { seeds, first_seed, flips } => rot_all(first_seed..first_seed + seeds, flips),
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn explored(tally: &Tally, failures: usize, min_distinct: u64, json: bool) -> bool {
    if json {
        println!("{}", tally.json());
    } else {
        println!("{tally}");
    }
    if failures > 0 {
        eprintln!("{failures} failed");
    }
    let enough = tally.distinct() >= min_distinct;
    if !enough {
        eprintln!("only {} distinct images, {min_distinct} were asked for", tally.distinct());
    }
    failures == 0 && enough
}

fn fail_all(seeds: Range<u64>) -> bool {
    let mut failed = Failed::default();
    for seed in seeds {
        if let Err(wrong) = faults::seed(seed, &mut failed) {
            eprintln!("{wrong}");
            return false;
        }
    }
    let Failed { runs, latched, small_disks, emptied, images } = failed;
    println!(
        "{runs} runs with a failing call ({latched} latched), {small_disks} on disks that were too small \
         ({emptied} of these emptied while full); {images} images reopened"
    );
    true
}

fn rot_all(seeds: Range<u64>, flips: u64) -> bool {
    let mut rotted = Rotted::default();
    for seed in seeds {
        if let Err(wrong) = rot::seed(seed, flips, &mut rotted) {
            eprintln!("{wrong}");
            return false;
        }
    }
    let Rotted { flips, lost_blocks, refused, harmless } = rotted;
    println!(
        "{flips} bytes flipped, {lost_blocks} blocks of logs lost: {refused} refused, {harmless} harmless"
    );
    true
}
