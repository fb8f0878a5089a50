//! `demo`: what the engine promises, shown on real files.
//!
//! 1. [`source`] finds a tree of files, or makes a small one;
//! 2. [`load`] imports it with several writers while a verifier compares what snapshots show with the files;
//! 3. a child process that writes to the same database is killed with SIGKILL, the database is opened again, and
//!    judged: every acknowledged commit there, nothing half there, every file still as it was;
//! 4. a check reads every page and verifies every checksum.
//!
//! Each step prints what it measured. The run fails if anything was found untrue.

mod load;
mod source;
mod verify;

use crate::crash::victim::{Heard, Victim};
use crate::crash::workload::{self, Verdict};
use crate::crash::writer::Tuning;
use crate::failure::{Failure, Outcome};
use crate::open::CreateArgs;
use crate::scratch::Scratch;
use crate::{inspect, text};
use clap::Args;
use load::Loaded;
use pando::Database;
use source::Source;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use verify::Tally;

#[derive(Args, Debug)]
pub struct DemoArgs {
    /// The tree to import [default: the sources in cargo's registry; a small made-up tree if there are none]
    source: Option<PathBuf>,
    /// A made-up tree of a few MiB and a short run: a few seconds
    #[arg(long, conflicts_with = "source")]
    small: bool,
    /// An empty directory to keep the database in [default: a temporary one]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Writers
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Decides the order of the files and what is made up
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Import at most so many bytes
    #[arg(long, value_name = "SIZE", value_parser = text::parse_size, default_value = "200M")]
    most_bytes: usize,
    /// Import at most so many files
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    most_files: usize,
    #[command(flatten)]
    create: CreateArgs,
}

/// `pando demo`.
pub fn run(args: &DemoArgs) -> Outcome {
    let begun = Instant::now();
    let mut scratch = Scratch::new(args.dir.as_deref(), "demo")?;
    let outcome = Demo::prepare(args, &scratch).and_then(|demo| demo.run());
    if let Err(Failure::Engine(_) | Failure::Failed(_)) = outcome {
        scratch.keep();
        eprintln!("the database is kept in {}", scratch.path().display());
    }
    outcome?;
    println!("\nEverything held, in {}.", text::time(begun.elapsed()));
    if args.dir.is_some() {
        println!(
            "The database is in {}; look around with `pando tables`.",
            scratch.path().join("database").display()
        );
    }
    Ok(())
}

struct Demo<'a> {
    args: &'a DemoArgs,
    database: PathBuf,
    source: Source,
}

impl<'a> Demo<'a> {
    fn prepare(args: &'a DemoArgs, scratch: &Scratch) -> Outcome<Self> {
        let source = Source::find(args, scratch.path())?;
        let database = scratch.path().join("database");
        println!("Pando {}: a demonstration", env!("CARGO_PKG_VERSION"));
        let (files, size) = (text::count(source.files.len() as u64), text::size(source.bytes));
        println!("  source    {}: {files} files, {size}", source.name);
        println!("  database  {}", database.display());
        Ok(Demo { args, database, source })
    }

    fn run(&self) -> Outcome {
        let db = self.args.create.create(&self.database)?;
        self.load(&db)?;
        db.close()?;
        drop(db);
        self.kill()?;
        self.check()
    }

    fn load(&self, db: &Database) -> Outcome {
        let durability = format!("{:?}", db.transaction_options().durability).to_lowercase();
        println!(
            "\n1. {} writers import, {durability} and serializable, while a reader verifies",
            self.args.threads
        );
        let loaded = load::run(db, &self.source, self.args.threads.into())?;
        report_load(&self.source, &loaded);
        let mut tally = Tally::default();
        let begun = Instant::now();
        verify::sweep(db, &self.source, true, &mut tally)?;
        let (bytes, elapsed) = (text::size(tally.bytes), begun.elapsed());
        let rate = text::size(text::rate(tally.bytes, elapsed));
        println!("  verified after           all {} files, {bytes}, {rate}/s", text::count(tally.files));
        Ok(())
    }

    fn kill(&self) -> Outcome {
        let tuning = Tuning { seed: self.args.seed, checkpoint_bytes: 1 << 20, segment_bytes: 4 << 20 };
        let writers = workload::WRITERS;
        println!("\n2. A child process with {writers} writers, killed with SIGKILL in the middle of writing");
        let victim = Victim::start(&self.database, tuning)?;
        let (commits, patience) = if self.args.small { (500, 1) } else { (10_000, 4) };
        victim.wait_for(commits, Duration::from_secs(patience));
        let heard = victim.kill()?;
        let begun = Instant::now();
        let db = self.args.create.builder().open(&self.database)?;
        let opened = begun.elapsed();
        let verdict = workload::judge(&db, self.args.seed, &heard.marks)?;
        report_kill(&heard, &verdict, opened)?;
        let mut tally = Tally::default();
        verify::sweep(&db, &self.source, true, &mut tally)?;
        println!("  the import               all {} files are as they were", text::count(tally.files));
        Ok(db.close()?)
    }

    fn check(&self) -> Outcome {
        println!("\n3. A check reads every page");
        let db = self.args.create.builder().open(&self.database)?;
        db.checkpoint()?;
        let begun = Instant::now();
        let report = db.check()?;
        let elapsed = begun.elapsed();
        for (name, value) in inspect::check_fields(&report) {
            print_field(name, value);
        }
        println!("  {:<24} {}", "time", text::time(elapsed));
        println!("\n4. Sizes and counters since this opening");
        for (name, value) in inspect::stats_fields(&db.stats()?) {
            print_field(name, value);
        }
        let stored = db.stats()?.data_used_bytes;
        let amplification = stored as f64 / report.record_bytes.max(1) as f64;
        println!("  {:<24} {amplification:.2} bytes on disk for a byte of keys and values", "space");
        Ok(db.close()?)
    }
}

fn print_field(name: &str, value: u64) {
    let shown = if name.ends_with("_bytes") { text::size(value) } else { text::count(value) };
    println!("  {:<24} {shown}", name.replace('_', " "));
}

fn report_load(source: &Source, loaded: &Loaded) {
    let files = source.files.len() as u64;
    let (count, commits) = (text::count(files), text::count(loaded.latencies.len()));
    let (bytes, elapsed) = (text::size(source.bytes), text::time(loaded.elapsed));
    println!("  imported                 {count} files, {bytes}, in {commits} commits and {elapsed}");
    let rate = text::size(text::rate(source.bytes, loaded.elapsed));
    println!(
        "  throughput               {rate}/s, {} files/s",
        text::count(text::rate(files, loaded.elapsed))
    );
    let at = |quantile| text::time(Duration::from_micros(loaded.latencies.value_at_quantile(quantile)));
    let (p50, p90, p99, max) = (at(0.5), at(0.9), at(0.99), at(1.0));
    println!("  commit latency           p50 {p50}, p90 {p90}, p99 {p99}, max {max}");
    let tally = &loaded.verified;
    println!(
        "  verified meanwhile       {} snapshots, {} files, {}, while {} of {} batches were still to come at the first",
        text::count(tally.snapshots),
        text::count(tally.files),
        text::size(tally.bytes),
        text::count(source.batches().count() as u64 - tally.batches_at_first),
        text::count(source.batches().count() as u64),
    );
}

fn report_kill(heard: &Heard, verdict: &Verdict, opened: Duration) -> Outcome {
    if !verdict.wrong.is_empty() {
        return Err(Failure::Failed(verdict.wrong.join("\n")));
    }
    let found: u64 = verdict.marks.iter().sum();
    let (heard, found) = (text::count(heard.commits), text::count(found));
    println!("  acknowledged             {heard} commits before it died, sync and buffered");
    println!("  opened again             in {}", text::time(opened));
    println!("  found                    {found} commits: every acknowledged one, none half there");
    println!("  compared                 {} rows, byte for byte", text::count(verdict.rows));
    Ok(())
}
