//! `demo`: shows the guarantees of the engine on real files.
//!
//! 1. [`source`] finds a tree of files, or creates a small one.
//! 2. [`load`] imports it with several writers, while a verifier compares snapshots with the files.
//! 3. A child process that writes to the same database is killed with SIGKILL. Then the database is opened again and
//!    judged: no acknowledged commit may be lost, no commit may be applied partially, and every file must be unchanged.
//! 4. A check reads every page and verifies every checksum.
//!
//! Each step prints its measurements. The run fails if any guarantee is violated.

mod args;
mod source;
mod verify;
mod load;
mod report;

pub use args::DemoArgs;

use crate::crash::victim::Victim;
use crate::crash::workload;
use crate::crash::writer::Tuning;
use crate::failure::{Failure, Outcome};
use crate::open::CreateArgs;
use crate::output::say;
use crate::scratch::Scratch;
use crate::text;
use pando::{Database, Stats};
use source::Source;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use verify::Tally;

/// The default memory limit. It is less than the imported data, so that checkpoints, page faults and evictions happen
/// during verification.
const MEMORY_BYTES: usize = 32 << 20;

/// Runs `pando demo`.
pub fn run(args: &DemoArgs) -> Outcome {
    let begun = Instant::now();
    let mut scratch = Scratch::new(args.dir.as_deref(), "demo")?;
    let outcome = Demo::prepare(args, &scratch).and_then(|demo| demo.run());
    if let Err(Failure::Engine(_) | Failure::Failed(_)) = outcome {
        scratch.keep();
        eprintln!("the database is kept in {}", scratch.path().display());
    }
    outcome?;
    say!("\nEverything held, in {}.", text::time(begun.elapsed()))?;
    match args.dir {
        Some(_) => say!("Look around with `pando tables {}`.", scratch.path().join("database").display()),
        None => Ok(()),
    }
}

struct Demo<'a> {
    args: &'a DemoArgs,
    create: CreateArgs,
    database: PathBuf,
    source: Source,
}

impl<'a> Demo<'a> {
    fn prepare(args: &'a DemoArgs, scratch: &Scratch) -> Outcome<Self> {
        let source = Source::find(args, scratch.path())?;
        let database = scratch.path().join("database");
        say!("Pando {}: a demonstration", env!("CARGO_PKG_VERSION"))?;
        let (files, size) = (text::count(source.files.len() as u64), text::size(source.bytes));
        report::field("source", format_args!("{}: {files} files, {size}", source.name))?;
        let mut create = args.create;
        let memory = *create.write.memory.memory.get_or_insert(MEMORY_BYTES);
        let memory = text::size(memory as u64);
        report::field("database", format_args!("{}, {memory} of memory", database.display()))?;
        Ok(Demo { args, create, database, source })
    }

    fn run(&self) -> Outcome {
        let counters = self.load()?;
        self.kill()?;
        self.check()?;
        say!("\n4. Counters of the import")?;
        report::counters(&counters)
    }

    fn load(&self) -> Outcome<Stats> {
        let db = self.create.create(&self.database)?;
        let durability = format!("{:?}", db.transaction_options().durability).to_lowercase();
        let writers = self.args.threads;
        say!("\n1. {writers} writers import, {durability} and serializable, while a reader verifies")?;
        let loaded = load::run(&db, &self.source, writers.into())?;
        report::load(&self.source, &loaded)?;
        let begun = Instant::now();
        let tally = self.verify(&db)?;
        let (bytes, rate) = (text::size(tally.bytes), text::size(text::rate(tally.bytes, begun.elapsed())));
        let files = text::count(tally.files);
        report::field("verified after", format_args!("all {files} files, {bytes}, {rate}/s"))?;
        let counters = db.stats()?;
        db.close()?;
        Ok(counters)
    }

    fn kill(&self) -> Outcome {
        let tuning = Tuning { seed: self.args.seed, checkpoint_bytes: 1 << 20, segment_bytes: 4 << 20 };
        let writers = workload::WRITERS;
        say!("\n2. A child process with {writers} writers, killed with SIGKILL in the middle of writing")?;
        let victim = Victim::start(&self.database, tuning)?;
        // A slow machine needs time to start the child.
        victim.wait_for(1, Duration::from_secs(60));
        victim.wait_for(if self.args.small { 500 } else { 10_000 }, Duration::from_secs(5));
        let heard = victim.kill()?;
        if heard.commits == 0 {
            return Err(Failure::Failed("the child acknowledged nothing within a minute".to_owned()));
        }
        let begun = Instant::now();
        let db = self.create.builder().open(&self.database)?;
        let opened = begun.elapsed();
        let verdict = workload::judge(&db, self.args.seed, &heard.marks)?;
        if !verdict.wrong.is_empty() {
            return Err(Failure::Failed(verdict.wrong.join("\n")));
        }
        report::kill(&heard, &verdict, opened)?;
        let files = text::count(self.verify(&db)?.files);
        report::field("the import", format_args!("all {files} files are as they were"))?;
        Ok(db.close()?)
    }

    fn check(&self) -> Outcome {
        say!("\n3. A check reads every page")?;
        let db = self.create.builder().open(&self.database)?;
        db.checkpoint()?;
        let begun = Instant::now();
        let found = db.check()?;
        report::check(&found, begun.elapsed(), &db.stats()?)?;
        Ok(db.close()?)
    }

    /// Compares all files with a snapshot.
    fn verify(&self, db: &Database) -> Outcome<Tally> {
        let mut tally = Tally::default();
        verify::sweep(db, &self.source, true, &mut tally)?;
        Ok(tally)
    }
}
