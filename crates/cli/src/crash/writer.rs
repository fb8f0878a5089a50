//! The child that is killed. It opens a database, writes from several threads, and prints each commit's writer and
//! number to its standard output after the commit was acknowledged. It ends only when it is killed.

use super::workload::{Commit, Counter, Tables, WRITERS};
use crate::failure::{Failure, Outcome};
use base::env::Random;
use clap::Args;
use pando::{Builder, Database, TransactionOptions};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;

#[derive(Args, Clone, Debug)]
pub struct WriterArgs {
    /// The directory of the database; created if it does not exist
    dir: PathBuf,
    #[command(flatten)]
    tuning: Tuning,
}

/// The settings that parent and child must share.
#[derive(Args, Clone, Copy, Debug)]
pub struct Tuning {
    /// Seed of the commits' contents; the same seed writes the same commits
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Begin a checkpoint after this many bytes
    #[arg(long, hide = true, default_value_t = 256 << 10)]
    pub checkpoint_bytes: usize,
    /// The largest size of a log segment, in bytes
    #[arg(long, hide = true, default_value_t = 1 << 20)]
    pub segment_bytes: u64,
}

impl Tuning {
    /// Returns a builder with little memory and short segments, so that seals, checkpoints and segment switches are
    /// frequent.
    pub fn builder(self) -> Builder {
        const MEMORY_BYTES: usize = 8 << 20;
        let builder = Database::builder().memory_bytes(MEMORY_BYTES);
        builder.checkpoint_bytes(self.checkpoint_bytes).max_segment_bytes(self.segment_bytes)
    }

    /// Returns the child's command line.
    pub fn arguments(self, dir: &Path) -> Vec<OsString> {
        let options = [
            ("--seed", self.seed),
            ("--checkpoint-bytes", self.checkpoint_bytes as u64),
            ("--segment-bytes", self.segment_bytes),
        ];
        let options = options.into_iter().flat_map(|(name, value)| [name.into(), value.to_string().into()]);
        [OsString::from("crash-writer"), dir.into()].into_iter().chain(options).collect()
    }
}

/// Runs `pando crash-writer`.
pub fn run(args: &WriterArgs) -> Outcome {
    let db = args.tuning.builder().create(&args.dir)?;
    let tables = Tables::create(&db)?;
    thread::scope(|scope| {
        let (db, tables) = (&db, &tables);
        let write = |writer| scope.spawn(move || write_forever(db, tables, args.tuning.seed, writer));
        let threads: Vec<_> = (0..WRITERS).map(write).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a writer does not panic"))
    })
}

/// Writes commits until the parent has ended.
fn write_forever(db: &Database, tables: &Tables, seed: u64, writer: usize) -> Outcome {
    let mut counter = Counter::read(&db.snapshot()?, tables, writer)?;
    let mut random = Random::from_entropy();
    loop {
        let commit = Commit { seed, writer, number: counter.commit + 1 };
        if random.chance(1, 16) {
            // This transaction is rolled back, so nothing of it may ever be seen.
            let later = Commit { number: commit.number + random.below(4), ..commit };
            later.write(&mut db.begin()?, tables, counter)?;
        }
        counter = write_once(db, tables, commit, counter)?;
        // The line is one write below the atomic size of a pipe, so a kill leaves all of it or nothing.
        let line = format!("{writer} {}\n", counter.commit);
        io::stdout().lock().write_all(line.as_bytes()).map_err(Failure::stdout)?;
    }
}

/// Retries until there is no conflict.
fn write_once(db: &Database, tables: &Tables, commit: Commit, before: Counter) -> Outcome<Counter> {
    let options = TransactionOptions { durability: commit.durability(), ..db.transaction_options() };
    loop {
        let mut tx = db.begin_with(&options)?;
        let after = commit.write(&mut tx, tables, before)?;
        match tx.commit() {
            Ok(_) => return Ok(after),
            Err(error) if error.is_retryable() => {}
            Err(error) => return Err(error.into()),
        }
    }
}
