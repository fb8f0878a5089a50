//! `pando-bench`: the workloads as a separate command. `pando bench` does the same.

use clap::Parser;
use pando_bench::alloc::CountingAllocator;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: profile::Allocator<CountingAllocator> = profile::Allocator::new(CountingAllocator);

/// Run Pando's workloads, check what they wrote and print their results
#[derive(Debug, Parser)]
#[command(name = "pando-bench", version)]
struct Command {
    #[command(flatten)]
    args: pando_bench::cli::Args,
}

fn main() -> ExitCode {
    pando_bench::cli::run(&Command::parse().args)
}
