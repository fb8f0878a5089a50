//! The same work on Pando and on the engines a user would pick instead.
//!
//! ```text
//!   main ──► drive (a process a repetition, engines interleaved) ──► report (the table), growth (by size)
//!                ├──► cgroup (a limit of its memory, for some workloads)
//!                └──► workloads (what is measured) ──► engine, tables (what they ask for) ◄── engines (a file each)
//!                         └──► records, measure
//! ```
//! Rules: equal and stated durability; every engine configured as its own documentation recommends; every answer
//! verified, a wrong one is no row; lost rows are shown.

mod cgroup;
mod drive;
mod engine;
mod engines;
mod growth;
mod measure;
mod records;
mod report;
mod tables;
mod workloads;

use clap::{Parser, Subcommand};
use drive::{Plan, Results, one};
use engine::{Durability, Failure, Outcome};
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use workloads::Workload;

/// The same work on Pando and on the engines a user would pick instead, each answer verified.
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run workloads on engines, interleaved, and print the table. Exits with 1 if one of them failed.
    Run {
        /// The workloads; all, if none is named.
        workloads: Vec<String>,
        /// Engines, separated by commas; all that were built in, if none is named.
        #[arg(long, value_delimiter = ',')]
        engines: Vec<String>,
        /// Repetitions; the table has their medians.
        #[arg(long, default_value_t = 3)]
        repeat: usize,
        /// Multiplies all sizes.
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        /// Cache of each engine that has one, in MiB.
        #[arg(long, default_value_t = 2048)]
        cache_mib: usize,
        /// Where the databases go; the system's temporary directory, if not given.
        #[arg(long)]
        dir: Option<PathBuf>,
        /// Seconds after which one repetition is given up.
        #[arg(long, default_value_t = 180)]
        limit: u64,
        /// Keep all rows in this file, for `report`: those that there are, if it is stopped before its end.
        #[arg(long)]
        json: Option<PathBuf>,
    },
    /// Print the table of runs that were kept, or, of several files, how costs grow with the size of the runs.
    Report {
        /// What `run --json` wrote.
        #[arg(required = true)]
        json: Vec<PathBuf>,
    },
    /// Name the workloads and the engines.
    List,
    /// One engine on one workload in this process; what `run` starts.
    #[command(hide = true)]
    One {
        engine: String,
        workload: String,
        durability: Durability,
        /// An empty directory.
        dir: PathBuf,
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        #[arg(long, default_value_t = 2048)]
        cache_mib: usize,
        /// The directory of the cgroup to run in.
        #[arg(long)]
        cgroup: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    match work(Args::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("rivals: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn work(command: Command) -> Outcome<()> {
    match command {
        Command::Run { workloads, engines, repeat, scale, cache_mib, dir, limit, json } => {
            let workloads = match workloads.is_empty() {
                true => workloads::ALL.iter().collect(),
                false => workloads.iter().map(|name| workload(name)).collect::<Outcome<_>>()?,
            };
            let known: Vec<_> = engines::all().iter().map(|entry| entry.name.to_owned()).collect();
            if let Some(unknown) = engines.iter().find(|name| !known.contains(name)) {
                let message = format!("no engine {unknown} is built in; there are {}", known.join(", "));
                return Err(Failure::Wrong(message));
            }
            let engines = if engines.is_empty() { known } else { engines };
            let limit = Duration::from_secs(limit);
            let cache_bytes = cache_mib << 20;
            let plan = Plan { engines, workloads, repeat, scale, cache_bytes, dir, limit, json };
            let results = plan.run()?;
            print!("{}", report::markdown(&results));
            if let Some(failure) = results.failure() {
                return Err(Failure::Wrong(failure));
            }
        }
        Command::Report { json } => {
            let read = |path: &PathBuf| Outcome::Ok(serde_json::from_str(&fs::read_to_string(path)?)?);
            let all: Vec<Results> = json.iter().map(read).collect::<Outcome<_>>()?;
            match &all[..] {
                [results] => print!("{}", report::markdown(results)),
                _ => print!("{}", growth::markdown(&all)),
            }
        }
        Command::List => {
            println!("workloads:");
            for workload in workloads::ALL {
                println!("  {:<13} {}", workload.name, workload.about);
            }
            println!("engines:");
            for entry in engines::all() {
                println!("  {:<13} {}", entry.name, entry.about);
            }
        }
        Command::One { engine, workload: name, durability, dir, scale, cache_mib, cgroup } => {
            cgroup.iter().try_for_each(|dir| cgroup::enter(dir))?;
            let answer = one(&engine, workload(&name)?, durability, scale, cache_mib << 20, &dir)?;
            println!("{}", serde_json::to_string(&answer)?);
        }
    }
    Ok(())
}

fn workload(name: &str) -> Outcome<&'static Workload> {
    let known = || workloads::ALL.iter().map(|workload| workload.name).collect::<Vec<_>>().join(", ");
    workloads::named(name)
        .ok_or_else(|| Failure::Wrong(format!("no workload is called {name}; there are {}", known())))
}
