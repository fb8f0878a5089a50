//! The crash explorer: it examines every moment of a run, and of the recoveries from it, in every state that a crash
//! could leave.
//!
//! For a seed:
//! 1. It runs the seed's workload (`schedule`), which already checks everything that clients and readers see.
//! 2. At each moment of each session (after each event of its disk) it draws images. An image that was seen before is
//!    not opened again, but must keep what *this* moment promises.
//! 3. It opens each new image and compares it with the model. The image must be the state after some number of commits,
//!    which is at least the promised one (`Sync` commits; for a killed process also `Buffered` ones).
//! 4. To some images it also writes, makes a checkpoint, closes and opens them once more.
//! 5. It opens some images read-only before, which must give the same state without a single event on the disk.
//! 6. For some images it takes the recovery itself as a run: it repeats step 2 on its events, with the same promise,
//!    which after the opening includes everything that was shown. This nests to a depth of three.

use crate::history::{Promise, Run};
use crate::phase::Course;
use crate::report::{ByFingerprint, Tally};
use crate::schedule;
use crate::verify;
use base::env::Random;
use io::sim::{Fate, Image, ImageKind, SimDisk};
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// The thoroughness of the exploration.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The largest number of images drawn at each event.
    pub images_per_event: usize,
    /// The depth: 1 explores crashes of the run only; 2 also of recoveries from them; 3 also of recoveries from those.
    pub depth: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { images_per_event: 4, depth: 3 }
    }
}

/// One image in this number is written to and reopened.
const GO_ON_ONE_IN: u64 = 12;
/// One image in this number is opened read-only first.
const READ_ONE_IN: u64 = 12;
/// One image in this number has its recovery explored.
const NEST_ONE_IN: u64 = 24;

/// The number of events that are shown before a fatal crash.
const SHOWN_EVENTS: usize = 24;

/// A failure, and how to reproduce it.
#[derive(Debug)]
pub struct Failure {
    /// The seed of the workload.
    pub seed: u64,
    /// The crashes that led to it, outermost first: the moment, the step, and what survived. Empty if there was no
    /// crash.
    pub trail: Vec<String>,
    /// A description of what is wrong.
    pub what: String,
    settings: Settings,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { seed, trail, what, settings } = self;
        writeln!(f, "seed {seed}: {what}")?;
        trail.iter().try_for_each(|crash| writeln!(f, "  {crash}"))?;
        let Settings { images_per_event, depth } = settings;
        write!(
            f,
            "  again: cargo run --release -q -p pando-sim -- explore --seeds 1 --first-seed {seed} \
             --images-per-event {images_per_event} --depth {depth}"
        )
    }
}

/// Explores many seeds on `threads` threads. The work of a seed does not depend on other seeds. `failed` is called for
/// each failure when it is found, and returns whether to continue. Returns the counts, and how many seeds failed.
pub fn seeds(
    seeds: Range<u64>,
    settings: Settings,
    threads: usize,
    failed: impl Fn(&Failure) -> bool + Sync,
) -> (Tally, usize) {
    let (next, stopped) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let work = || {
        let (mut tally, mut failures) = (Tally::default(), 0);
        while !stopped.load(Ordering::SeqCst) {
            let number = next.fetch_add(1, Ordering::SeqCst);
            if number >= seeds.end {
                break;
            }
            if let Err(failure) = seed(number, settings, &mut tally) {
                failures += 1;
                if !failed(&failure) {
                    stopped.store(true, Ordering::SeqCst);
                }
            }
        }
        (tally, failures)
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let (mut tally, mut failures) = work();
        for other in others {
            let (its_tally, its_failures) = other.join().expect("a seed's panics are caught");
            tally.add(its_tally);
            failures += its_failures;
        }
        (tally, failures)
    })
}

/// Explores one seed.
///
/// # Errors
/// The first failure, including a panic of the engine.
pub fn seed(seed: u64, settings: Settings, tally: &mut Tally) -> Result<(), Box<Failure>> {
    let mut trail = Vec::new();
    let explored = catch_unwind(AssertUnwindSafe(|| {
        let run = schedule::run(seed)?;
        let random = Random::seeded(seed ^ 0x6578_706c_6f72_6572);
        let seen = HashMap::default();
        Explorer { run: &run, settings, seen, tally, random, trail: &mut trail }.all()
    }));
    let what = match explored {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(what)) => what,
        Err(panic) => match panic.downcast_ref::<String>() {
            Some(message) => format!("panic: {message}"),
            None => format!("panic: {}", panic.downcast_ref::<&str>().unwrap_or(&"")),
        },
    };
    Err(Box::new(Failure { seed, trail, what, settings }))
}

/// Returns the events before a moment, for the report of a failure.
fn last_events(disk: &SimDisk, at: usize) -> impl Iterator<Item = String> {
    let first = at.saturating_sub(SHOWN_EVENTS);
    let events = disk.events_since(first).into_iter().take(at - first);
    (first..).zip(events).map(|(number, event)| format!("  {number} {event:?}"))
}

struct Explorer<'a> {
    run: &'a Run,
    settings: Settings,
    /// The number of commits that each image holds.
    seen: HashMap<u64, u64, ByFingerprint>,
    tally: &'a mut Tally,
    random: Random,
    trail: &'a mut Vec<String>,
}

impl Explorer<'_> {
    fn all(mut self) -> Result<(), String> {
        let run = self.run;
        for (number, session) in run.sessions.iter().enumerate() {
            for at in session.first..=session.last {
                let promise = session.promise(at);
                let label = format_args!("session {number}, ");
                self.moment(&session.disk, at, &session.course, promise, 1, label)?;
            }
        }
        let tally = self.tally;
        tally.seeds += 1;
        tally.sessions += run.sessions.len() as u64;
        tally.commits += run.model.last();
        tally.seals += run.crossed.seals;
        tally.checkpoints += run.crossed.checkpoints;
        tally.switches += run.crossed.switches;
        tally.copies += run.copies;
        tally.looks += run.looks;
        tally.given += run.given;
        Ok(())
    }

    /// Draws and examines the images of one moment.
    fn moment(
        &mut self,
        disk: &SimDisk,
        at: usize,
        course: &Course,
        promise: Promise,
        depth: usize,
        session: fmt::Arguments<'_>,
    ) -> Result<(), String> {
        let count = if depth == 1 { self.settings.images_per_event } else { 1 };
        let mut kinds = ImageKind::all(count.div_ceil(11));
        self.random.shuffle(&mut kinds);
        let images = disk.images(at, &kinds[..count.min(kinds.len())], &mut self.random);
        for image in images {
            self.tally.images += 1;
            let fingerprint = image.fingerprint();
            let required = match image.fate() {
                Fate::Everything => promise.buffered,
                _ => promise.synced,
            };
            if let Some(&commits) = self.seen.get(&fingerprint).filter(|&&commits| commits >= required) {
                debug_assert!(commits >= required);
                continue;
            }
            let phase = course.at(at);
            self.trail.push(format!(
                "after a crash at {session}event {at} ({}), image {}",
                phase.label(),
                image.fate()
            ));
            let commits = self.image(&image, promise.exists, required, depth).inspect_err(|_| {
                self.trail.extend(last_events(disk, at));
            })?;
            self.trail.pop();
            self.seen.insert(fingerprint, commits);
            self.tally.count(fingerprint, phase, image.fate(), depth);
        }
        Ok(())
    }

    /// Opens an image and compares it with the model. Returns how many commits it holds.
    fn image(&mut self, image: &Image, exists: bool, required: u64, depth: usize) -> Result<u64, String> {
        let disk = image.restore();
        let nest = depth < self.settings.depth && self.random.chance(1, NEST_ONE_IN);
        disk.keep_history(nest);
        if nest {
            disk.mark("open");
        }
        let created = !image.names().any(|name| name == "data");
        let read = match self.random.chance(1, READ_ONE_IN) && !created {
            true => Some(verify::read_only(&image.restore(), self.run)?),
            false => None,
        };
        let recovered = verify::recover(&disk, self.run, exists, &mut self.random)?;
        let commits = recovered.commits;
        self.tally.recovery_checkpoints += recovered.checkpoints;
        self.tally.crossing_recoveries += u64::from(recovered.checkpoints > 1);
        if let Some(read) = read {
            self.tally.read_only += 1;
            if read != commits {
                return Err(format!("{read} commits were read read-only, {commits} recovered"));
            }
        }
        if commits < required {
            return Err(format!("{commits} commits were recovered, but {required} had been promised"));
        }
        if self.random.chance(1, GO_ON_ONE_IN) {
            verify::go_on(&recovered, &disk, self.run)?;
            self.tally.continued += 1;
        } else {
            recovered.store.close().map_err(|error| format!("closing: {error:?}"))?;
        }
        if nest {
            self.recovery(
                &disk,
                recovered.opened_at,
                created,
                Promise { exists, synced: required, buffered: required },
                commits,
                depth + 1,
            )?;
        }
        Ok(commits)
    }

    /// Takes a recovery as a run of its own.
    fn recovery(
        &mut self,
        disk: &SimDisk,
        opened_at: usize,
        created: bool,
        promise: Promise,
        commits: u64,
        depth: usize,
    ) -> Result<(), String> {
        let mut course = Course::default();
        course.enter_recovery(disk, 0, created);
        for at in 0..=opened_at {
            let promise = match at == opened_at {
                true => Promise { exists: true, synced: commits, buffered: commits },
                false => promise,
            };
            self.moment(disk, at, &course, promise, depth, format_args!("its recovery, "))?;
        }
        Ok(())
    }
}
