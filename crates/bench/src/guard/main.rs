//! `pando-guard`: runs a fixed set of operations for `cargo xtask guard` to count: instructions under callgrind, system
//! calls under strace, and its own counters. No clock affects the result.
//!
//! 1. Every operation is a function of its own in [`ops`], which is called once and repeats it [`Op::times`] times, so
//!    callgrind shows each under its name. A warm-up before it is not measured, so that no measured step happens for
//!    the first time.
//! 2. `getppid`, which nothing else calls, is before and after each operation in the list of system calls.
//! 3. Standard output has a line for each figure: the operation, the figure's name, and the sum over all repetitions.

mod ops;

use ops::{Bench, OPS, Op};
use pando_bench::alloc::{CountingAllocator, counts};
use pando_bench::{Failure, Outcome};
use std::os::unix::process::parent_id;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome<()> {
    let mut bench = Bench::new()?;
    let lines: Vec<String> = OPS.iter().map(|op| measure(&mut bench, op)).collect::<Result<_, _>>()?;
    print!("{}", lines.concat());
    Ok(())
}

fn measure(bench: &mut Bench, op: &Op) -> Outcome<String> {
    (op.warm_up)(bench)?;
    let before = bench.counters()?;
    let allocated = || counts().ok_or_else(|| Failure::Wrong("allocations are not counted".into()));
    let allocated_before = allocated()?.allocations;
    let before_calls = parent_id();
    let outcome = (op.run)(bench, op.times);
    assert_eq!(parent_id(), before_calls);
    let allocations = allocated()?.allocations - allocated_before;
    outcome?;
    let after = bench.counters()?;
    let counted = before.into_iter().zip(after).map(|((name, before), (_, after))| (name, after - before));
    let figures = [("times", op.times), ("allocations", allocations)].into_iter().chain(counted);
    Ok(figures.map(|(name, figure)| format!("{} {name} {figure}\n", op.name)).collect())
}
