//! The shipper's thread: async and sync, with a bucket that goes away, and with another writer that takes over.

use super::faulty::Faulty;
use super::model::Model;
use super::restores::{restored, ship_all};
use crate::handle::Shipper;
use crate::lineage::Lineage;
use crate::options::{LEAST_COUNTED_BYTES, Options};
use crate::restore::Goal;
use crate::status::State;
use base::ErrorKind;
use base::env::Clock;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn start(store: &Arc<Faulty>, model: &Model, options: Options) -> Shipper {
    Shipper::over(Arc::new(model.clone()), store.bucket(), options).unwrap()
}

fn sync() -> Options {
    Options { sync: true, ..Options::default() }
}

#[test]
fn those_who_wait_share_puts() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    let shipper = start(&store, &model, sync());
    shipper.wait(0).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (model, shipper, store) = (&model, &shipper, &store);
            scope.spawn(move || {
                for n in 0..50 {
                    let commit = model.commit(n, vec![thread; 100]);
                    shipper.wait(commit).unwrap();
                    if n % 25 == 24 {
                        assert!(restored(store, Goal::Newest).unwrap().0.commit >= commit);
                    }
                }
            });
        }
    });
    let status = shipper.status();
    assert_eq!((status.shipped_commit, status.lag_commits, status.state), (400, 0, State::Shipping));
    assert!(status.segments < 400, "{} segments for 400 commits of 8 threads", status.segments);
    shipper.stop().unwrap();
    assert_eq!(restored(&store, Goal::Newest).unwrap().1, model.history());
}

#[test]
fn a_new_database_is_in_the_bucket_when_it_can_be_restored() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
    // The sender is dropped when the base may be put.
    let may_go_on = std::sync::Mutex::new(may_go_on);
    store.before_put("base/", move || {
        let _ended = may_go_on.lock().unwrap().recv();
    });
    let shipper = start(&store, &model, sync());
    assert!(!shipper.wait_for(0, Duration::from_millis(20)).unwrap(), "there is no base yet");
    drop(go_on);
    shipper.wait(0).unwrap();
    assert_eq!(restored(&store, Goal::Newest).unwrap().1, model.history());
    shipper.stop().unwrap();
}

#[test]
fn commits_gather_for_the_interval() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    let interval = Duration::from_secs(1);
    let shipper = start(&store, &model, Options { interval, ..Options::default() });
    shipper.wait(0).unwrap();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(4) {
        model.commit(1, vec![1; 50]);
        std::thread::sleep(Duration::from_millis(5));
    }
    let newest = model.commit(2, "the last");
    // A waiter does not wait for the interval.
    let begun = Instant::now();
    let (report, reported) = std::sync::mpsc::channel();
    shipper.when_shipped(newest, move |outcome| report.send(outcome).unwrap());
    shipper.wait(newest).unwrap();
    reported.recv().unwrap().unwrap();
    assert!(begun.elapsed() < interval, "{:?}", begun.elapsed());
    let segments = shipper.status().segments;
    assert!((3..=8).contains(&segments), "{segments} segments in four intervals");
}

#[test]
fn a_bucket_that_goes_away_is_caught_up_with() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    let shipper = start(&store, &model, sync());
    shipper.wait(model.commit(1, "before")).unwrap();
    store.set_away(true);
    let commit = (0..100).map(|time| model.commit(time, vec![3; 1000])).max().unwrap();
    assert!(!shipper.wait_for(commit, Duration::from_millis(300)).unwrap());
    let begun = Instant::now();
    while shipper.status().state != State::Retrying && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let status = shipper.status();
    assert_eq!((status.state, status.shipped_commit, status.lag_commits), (State::Retrying, 1, 100));
    assert!(status.lag_bytes > 0 && status.lag_seconds > 0.1, "{status:?}");
    assert!(status.last_error.unwrap().contains("timed out"));
    // The database gives up the commits that were not fetched: a base brings them.
    model.forget();
    store.set_away(false);
    shipper.wait(commit).unwrap();
    shipper.stop().unwrap();
    assert_eq!(restored(&store, Goal::Newest).unwrap().1, model.history());
}

#[test]
fn a_bucket_that_is_away_from_the_beginning_shows_as_lag() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    store.set_away(true);
    let shipper = start(&store, &model, sync());
    assert!(!shipper.wait_for(model.commit(1, "before"), Duration::from_millis(300)).unwrap());
    let status = shipper.status();
    assert_eq!((status.epoch, status.lag_commits), (0, 1));
    assert!(status.lag_seconds > 0.2, "{status:?}");
    store.set_away(false);
    shipper.wait(1).unwrap();
    shipper.stop().unwrap();
}

#[test]
fn stopping_while_the_bucket_is_away_ends_in_time() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    let shipper = start(&store, &model, Options { stop_within: Duration::from_millis(200), ..sync() });
    shipper.wait(model.commit(1, "before")).unwrap();
    store.set_away(true);
    model.commit(2, "after");
    assert_eq!(shipper.stop().unwrap_err().kind(), ErrorKind::Io);
    store.set_away(false);
    ship_all(&store, &model, Options::default());
    assert_eq!(restored(&store, Goal::Newest).unwrap().1, model.history());
}

#[test]
fn a_faulty_bucket_changes_nothing() {
    for seed in 0..4 {
        let (store, model) = (Faulty::new(seed), Model::new(1));
        store.set_faults(15);
        let shipper = start(&store, &model, sync());
        for time in 0..30 {
            shipper.wait(model.commit(time, format!("commit of {time}"))).unwrap();
        }
        shipper.stop().unwrap();
        store.set_faults(0);
        store.deliver_all();
        assert_eq!(restored(&store, Goal::Newest).unwrap().1, model.history(), "seed {seed}");
    }
}

#[test]
fn a_writer_that_is_replaced_ends_as_fenced() {
    let (store, old) = (Faulty::new(1), Model::new(1));
    let shipper = start(&store, &old, sync());
    shipper.wait(old.commit(1, "first")).unwrap();
    let lineage = Lineage::expect(&store.bucket()).unwrap();
    let new = Model::restored(2, restored(&store, Goal::Newest).unwrap().1, lineage.id);
    let successor = start(&store, &new, sync());
    successor.wait(new.commit(2, "second")).unwrap();
    let error = shipper.wait(old.commit(2, "never acknowledged")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    assert_eq!(shipper.status().state, State::Fenced);
    let (report, reported) = std::sync::mpsc::channel();
    shipper.when_shipped(2, move |outcome| report.send(outcome).unwrap());
    assert_eq!(reported.recv().unwrap().unwrap_err().kind(), ErrorKind::Fenced);
    assert_eq!(shipper.stop().unwrap_err().kind(), ErrorKind::Fenced);
    successor.stop().unwrap();
    assert_eq!(restored(&store, Goal::Newest).unwrap().1, new.history());
    // It does not come back either.
    let error = start(&store, &old, sync()).stop().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
    assert!(error.to_string().contains("another copy"), "{error}");
}

#[test]
fn a_database_that_does_not_continue_the_lineage_is_refused_and_disturbs_nobody() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    for time in 0..5 {
        model.commit(time, "x");
    }
    let older = model.copy();
    let shipper = start(&store, &model, sync());
    shipper.wait(5).unwrap();
    shipper.wait(model.commit(6, "y")).unwrap();
    let refused = |other: &Model, said: &str| {
        let error = start(&store, other, sync()).stop().unwrap_err();
        assert!(error.kind() == ErrorKind::Mismatch && error.to_string().contains(said), "{error}");
    };
    refused(&older, "this database ends at 5");
    // The same copy, which went another way meanwhile.
    older.commit(6, "another");
    older.commit(7, "and another");
    refused(&older, "commit 6 of this database differs from commit 6 of the lineage");
    let stranger = Model::new(1);
    base::sync::lock(&stranger.0).identity.database = 5;
    refused(&stranger, "of another database");
    let lineage = Lineage::expect(&store.bucket()).unwrap();
    let late = Model::restored(3, model.history().prefix(5), lineage.id);
    late.commit(6, "late");
    refused(&late, "the lineage went on to 6");
    shipper.wait(model.commit(7, "z")).unwrap();
    shipper.stop().unwrap();
}

#[test]
fn a_base_is_made_when_the_log_has_outgrown_the_last_one() {
    outgrow_base(1 << 20, 40);
}

/// The log has only the names of their parts.
#[test]
fn long_changes_count_for_the_next_base_too() {
    outgrow_base(5 << 20, 8);
}

#[test]
fn many_small_segments_count_as_larger_ones() {
    outgrow_base(8, 1_100);
}

/// Commits changes of so many bytes, which do not compress, and waits for a base that was made after 16 MiB of log.
fn outgrow_base(bytes: usize, count: u64) {
    let (store, model) = (Faulty::new(1), Model::new(1));
    let options = Options { base_multiple: 0, segment_bytes: 2 << 20, ..sync() };
    let shipper = start(&store, &model, options);
    let mut random = base::env::Random::seeded(1);
    // The time of a database may be ahead of the wall clock (decision 31).
    let began_ms = Clock::default().now_ms() + 3_600_000;
    for time in 0..count {
        let bytes: Vec<u8> = (0..bytes / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect();
        shipper.wait(model.commit(began_ms + time, bytes)).unwrap();
    }
    let until = Instant::now() + Duration::from_secs(20);
    while shipper.status().bases < 2 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(shipper.status().bases >= 2, "{:?}", shipper.status());
    shipper.stop().unwrap();
    let (report, history) = restored(&store, Goal::Newest).unwrap();
    let counted = bytes.max(LEAST_COUNTED_BYTES as usize);
    assert!(report.base_commit >= (15 << 20) / counted as u64, "{report:?}");
    assert_eq!(history, model.history());
    // The state of any time before the base is that of an older base and the log after it.
    let before = report.base_commit - 1;
    let (report, history) = restored(&store, Goal::Time(began_ms + before - 1)).unwrap();
    assert!(report.commit == before && history == model.history().prefix(before), "{before}: {report:?}");
}

/// A commit that comes while the outcome of a release is unknown is shipped, and the release is said again after it.
#[test]
fn nothing_follows_a_release() {
    let mut shipped = 0;
    for seed in 0..8 {
        let (store, model) = (Faulty::new(seed), Model::new(1));
        let shipper = start(&store, &model, sync());
        shipper.wait(model.commit(1, "shipped")).unwrap();
        let (faulty, late) = (Arc::clone(&store), model.clone());
        store.before_put("log/", move || {
            late.commit(2, "late");
            faulty.set_faults(100);
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                faulty.set_faults(0);
            });
        });
        shipper.release().unwrap();
        store.set_faults(0);
        store.deliver_all();
        let tail = Lineage::expect(&store.bucket()).unwrap().tail().unwrap().unwrap().head;
        assert!(tail.is_release, "seed {seed}: {tail:?}");
        // If the first attempt succeeded, that was the end.
        shipped += tail.last_commit - 1;
        let expected = model.history().prefix(tail.last_commit);
        assert_eq!(restored(&store, Goal::Newest).unwrap().1, expected, "seed {seed}");
    }
    assert!((1..8).contains(&shipped), "the commit came in time {shipped} times of 8");
}
