//! Restores as of commits and times, compared with the model.

use super::faulty::Faulty;
use super::model::{History, Model};
use crate::handle::Shipper;
use crate::lineage::Lineage;
use crate::options::Options;
use crate::restore::{self, Goal, Report};
use base::env::{Clock, Random};
use base::{ErrorKind, Result};
use std::sync::Arc;
use std::time::Duration;

const HOUR_MS: u64 = 3_600_000;

/// Ships `model` until everything is in the bucket.
pub fn ship_all(store: &Arc<Faulty>, model: &Model, options: Options) {
    let shipper = Shipper::over(Arc::new(model.clone()), store.bucket(), options).unwrap();
    shipper.stop().unwrap();
}

pub fn restored(store: &Arc<Faulty>, goal: Goal) -> Result<(Report, History)> {
    let mut history = History::default();
    let lineage = Lineage::expect(&store.bucket())?;
    let report = restore::run(&lineage, goal, &mut history, &mut |_| {})?;
    Ok((report, history))
}

/// Commits of all sizes at times that mostly go forward, in several sessions; returns the model.
pub fn grown(store: &Arc<Faulty>, seed: u64, commits: u64) -> Model {
    let (model, mut random) = (Model::new(1), Random::seeded(seed));
    for _ in 0..commits {
        // A clock that is set back now and then. A base has the time of the real one.
        std::thread::sleep(std::time::Duration::from_millis(1));
        let time = Clock::default().now_ms() - if random.chance(1, 10) { random.below(5) } else { 0 };
        let most = if random.chance(1, 60) { 9 << 20 } else { 2_000 };
        let mut bytes = vec![0; random.below(most) as usize];
        bytes.iter_mut().step_by(50).for_each(|byte| *byte = random.next_u64() as u8);
        model.commit(time, bytes);
        if random.chance(1, 20) {
            if random.chance(1, 4) {
                model.forget();
            }
            ship_all(store, &model, Options { segment_bytes: 5_000, ..Options::default() });
        }
    }
    ship_all(store, &model, Options { segment_bytes: 5_000, ..Options::default() });
    model
}

/// What the model has at `time_ms`, from commit `from` on: commits up to the first one that is later.
fn at(model: &Model, from: u64, time_ms: u64) -> u64 {
    let history = model.history();
    let later = history.0.iter().skip(from as usize).position(|change| change.0 > time_ms);
    later.map_or(history.0.len() as u64, |later| from + later as u64)
}

#[test]
fn restores_at_random_commits_and_times_equal_the_model() {
    for seed in 0..2 {
        let store = Faulty::new(seed);
        let model = grown(&store, seed, 200);
        let (report, newest) = restored(&store, Goal::Newest).unwrap();
        assert_eq!((newest, report.commit), (model.history(), 200), "seed {seed}");
        let mut random = Random::seeded(seed ^ 7);
        let (mut commits, mut times) = (0, 0);
        for _ in 0..400 {
            let commit = 1 + random.below(200);
            match restored(&store, Goal::Commit(commit)) {
                Ok((report, history)) => {
                    assert_eq!((&history, report.commit), (&model.history().prefix(commit), commit));
                    commits += 1;
                }
                // A part of the log that a base leaps over.
                Err(error) => assert_eq!(error.kind(), ErrorKind::Missing, "seed {seed}, {commit}: {error}"),
            }
            let times_of = model.history().0;
            let time = times_of[random.below(200) as usize].0 + random.below(2);
            match restored(&store, Goal::Time(time)) {
                Ok((report, history)) => {
                    let expected = model.history().prefix(at(&model, report.base_commit, time));
                    assert_eq!(history, expected, "seed {seed}");
                    times += 1;
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Missing, "seed {seed}, {time}: {error}"),
            }
            if commits >= 20 && times >= 20 {
                break;
            }
        }
        assert!(commits >= 20 && times >= 20, "seed {seed}: {commits} commits, {times} times");
    }
}

#[test]
fn what_is_not_there_is_refused_with_what_is() {
    let store = Faulty::new(1);
    assert_eq!(restored(&store, Goal::Newest).unwrap_err().kind(), ErrorKind::Missing, "no lineage yet");
    let model = Model::new(1);
    for time in 1..=3 {
        model.commit(time, "x");
    }
    ship_all(&store, &model, Options::default());
    let error = restored(&store, Goal::Commit(4)).unwrap_err();
    assert!(error.kind() == ErrorKind::Missing && error.to_string().contains("the newest is 3"), "{error}");
    let error = restored(&store, Goal::Commit(2)).unwrap_err();
    assert!(error.kind() == ErrorKind::Missing && error.to_string().contains("commit 3"), "{error}");
}

#[test]
fn what_a_newer_base_makes_superfluous_goes_and_fences_stay() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    let options = Options { keep_bases: 1, keep_for: Duration::ZERO, ..Options::default() };
    for round in 1..=4 {
        for time in 0..4 {
            model.commit(round * 100 + time, vec![round as u8; 3000]);
        }
        // Each session begins with a leap, and so with a base of its own.
        model.forget();
        ship_all(&store, &model, options.clone());
    }
    let names = |folder: &str| store.bucket().list(folder, None).unwrap();
    assert_eq!(names("base").len(), 1);
    assert_eq!(names("epochs").len(), 4);
    let fences = names("log").len();
    assert!((4..=6).contains(&fences), "{:?}", names("log"));
    assert_eq!(restored(&store, Goal::Newest).unwrap().1, model.history());
}

/// Lets a writer delete the base, and the log after it, at the first read of an object whose name contains `word`.
fn delete_at(store: &Arc<Faulty>, model: &Model, word: &'static str, rounds: u64) {
    let (writing, source) = (Arc::clone(store), model.clone());
    store.before_get(word, move || {
        source.commit(1_000, "meanwhile");
        source.forget();
        let options = Options { keep_bases: 1, keep_for: Duration::ZERO, ..Options::default() };
        ship_all(&writing, &source, options);
        if rounds > 1 {
            delete_at(&writing, &source, word, rounds - 1);
        }
    });
}

#[test]
fn a_restore_whose_base_is_deleted_begins_again_with_a_newer_one() {
    for word in ["parts/base", "log/"] {
        let (store, model) = (Faulty::new(1), Model::new(1));
        (1..=4).for_each(|time| _ = model.commit(time, vec![1; 3000]));
        ship_all(&store, &model, Options::default());
        delete_at(&store, &model, word, 1);
        let (report, history) = restored(&store, Goal::Newest).unwrap();
        assert_eq!((history, report.commit), (model.history(), 5), "deleted at {word}");
    }
}

#[test]
fn a_restore_ends_if_bases_are_deleted_faster_than_it_reads() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    model.commit(1, "first");
    ship_all(&store, &model, Options::default());
    delete_at(&store, &model, "parts/base", 100);
    let error = restored(&store, Goal::Newest).unwrap_err();
    assert!(error.kind() == ErrorKind::Conflict && error.to_string().contains("--ship-keep-for"), "{error}");
}

/// The time of a database can be ahead of the wall clock (decision 31). Its bases are dated like its commits.
#[test]
fn a_base_is_not_older_than_its_commits() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    let now = Clock::default().now_ms() + HOUR_MS;
    model.commit(now, "first");
    ship_all(&store, &model, Options::default());
    model.commit(now + 1_000, "second");
    model.commit(now + 2_000, "third");
    // The next base leaps over these.
    model.forget();
    ship_all(&store, &model, Options::default());
    let error = restored(&store, Goal::Time(now + 1_000)).unwrap_err();
    assert!(error.kind() == ErrorKind::Missing && error.to_string().contains("leaps over"), "{error}");
    assert_eq!(restored(&store, Goal::Time(now + 2_000)).unwrap().0.commit, 3);
}

/// Bases are kept for some time of the database, because they are dated by it.
#[test]
fn bases_age_by_the_time_of_the_database() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    let now = Clock::default().now_ms() + HOUR_MS;
    let keep_for = Duration::from_millis(HOUR_MS / 2);
    for minutes in [0, 10, 60] {
        model.commit(now + minutes * 60_000, "a commit");
        model.forget();
        ship_all(&store, &model, Options { keep_bases: 1, keep_for, ..Options::default() });
    }
    let bases = Lineage::expect(&store.bucket()).unwrap().bases().unwrap();
    let commits: Vec<_> = bases.iter().map(|base| base.manifest.commit).collect();
    assert_eq!(commits, [2, 3], "the first one is not needed for the last half hour");
}
