//! `kills`: many rounds of killing a writing process, on one database.
//!
//! A round starts a child and kills it 1 to 200 ms later, at any point: while it opens, recovers, commits or
//! checkpoints. After three rounds in four the parent opens the database and judges it. After the fourth the next child
//! recovers what its predecessor left, and may be killed while it does. Commits that were found once are expected from
//! then on as if they had been acknowledged.

use super::victim::Victim;
use super::workload::{self, Marks, WRITERS};
use super::writer::Tuning;
use crate::failure::{Failure, Outcome};
use crate::output::say;
use crate::scratch::Scratch;
use crate::text;
use base::env::Random;
use clap::Args;
use indicatif::ProgressBar;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

#[derive(Args, Debug)]
pub struct KillsArgs {
    /// Start and kill a process N times
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Keep the database in this directory, which must be empty or not exist [default: a temporary one, kept only
    /// after a failure]
    #[arg(long)]
    dir: Option<PathBuf>,
    #[command(flatten)]
    tuning: Tuning,
}

/// One round in this number is not judged at once.
const UNJUDGED_ONE_IN: u64 = 4;
/// One judged round in this number also reads every page.
const CHECKED_ONE_IN: u64 = 8;
/// The longest time in milliseconds between the start and the kill of a child.
const LONGEST_MS: u64 = 200;

/// Runs `pando kills`.
pub fn run(args: &KillsArgs) -> Outcome {
    let mut scratch = Scratch::new(args.dir.as_deref(), "kills")?;
    let begun = Instant::now();
    let bar = ProgressBar::new(args.rounds.into());
    let mut rounds = Rounds::new(scratch.path(), args.tuning);
    for round in 1..=args.rounds {
        let outcome = rounds.run(round == args.rounds);
        if let Err(failure) = outcome {
            bar.abandon();
            scratch.keep();
            let (seed, path) = (args.tuning.seed, scratch.path().display());
            eprintln!("error: round {round} of seed {seed} failed; the database is kept in {path}");
            return Err(failure);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    say!(
        "{} kills in {}: {} commits acknowledged, {} rows compared in {} recoveries, {} full checks; \
         no acknowledged commit lost, no commit applied partially",
        text::count(args.rounds.into()),
        text::time(begun.elapsed()),
        text::count(rounds.acknowledged),
        text::count(rounds.rows),
        text::count(rounds.judged),
        text::count(rounds.checked),
    )
}

struct Rounds<'a> {
    dir: &'a Path,
    tuning: Tuning,
    random: Random,
    /// The last commit of each writer that must exist.
    marks: Marks,
    acknowledged: u64,
    judged: u64,
    rows: u64,
    checked: u64,
}

impl<'a> Rounds<'a> {
    fn new(dir: &'a Path, tuning: Tuning) -> Self {
        let random = Random::seeded(tuning.seed);
        Rounds { dir, tuning, random, marks: [0; WRITERS], acknowledged: 0, judged: 0, rows: 0, checked: 0 }
    }

    fn run(&mut self, is_last: bool) -> Outcome {
        let victim = Victim::start(self.dir, self.tuning)?;
        thread::sleep(Duration::from_micros(1_000 + self.random.below(LONGEST_MS * 1_000)));
        let heard = victim.kill()?;
        self.acknowledged += heard.commits;
        for (mark, heard) in self.marks.iter_mut().zip(heard.marks) {
            *mark = (*mark).max(heard);
        }
        if is_last || !self.random.chance(1, UNJUDGED_ONE_IN) {
            self.judge(is_last)?;
        }
        Ok(())
    }

    fn judge(&mut self, is_last: bool) -> Outcome {
        // A child that was killed at once has not created the database.
        let db = self.tuning.builder().create(self.dir)?;
        let verdict = workload::judge(&db, self.tuning.seed, &self.marks)?;
        if !verdict.wrong.is_empty() {
            return Err(Failure::Failed(verdict.wrong.join("\n")));
        }
        self.marks = verdict.marks;
        self.judged += 1;
        self.rows += verdict.rows;
        if is_last || self.random.chance(1, CHECKED_ONE_IN) {
            db.check()?;
            self.checked += 1;
        }
        Ok(db.close()?)
    }
}
