//! Databases that are dropped, and others that get their names.

use super::faulty::Faulty;
use super::model::{History, Model};
use super::race::node;
use super::restores::{restored, ship_all};
use super::takeover::{ship, take_over};
use crate::bucket::Bucket;
use crate::database::write_marker;
use crate::follower::Follower;
use crate::handle::Shipper;
use crate::lineage::Lineage;
use crate::name;
use crate::options::Options;
use crate::restore::{self, Goal};
use crate::segment::{self, Head};
use crate::source::{Origin, Source as _};
use crate::status::State;
use base::ErrorKind;
use base::sync::lock;
use pando::Identity;
use std::sync::Arc;
use std::time::Duration;

fn start(store: &Arc<Faulty>, model: &Model) -> Shipper {
    let options = Options { sync: true, stop_within: Duration::from_millis(300), ..Options::default() };
    Shipper::over(Arc::new(model.clone()), store.bucket(), options).unwrap()
}

/// A database of another id.
fn another() -> Model {
    with_id(78)
}

fn with_id(database: u64) -> Model {
    let model = Model::new(1);
    lock(&model.0).identity.database = database;
    model
}

/// Ships a commit, and drops the database.
fn dropped(store: &Arc<Faulty>, model: &Model) {
    let shipper = start(store, model);
    shipper.wait(model.commit(1, "kept")).unwrap();
    shipper.drop_database().unwrap();
    assert_eq!(shipper.status().state, State::Stopped);
}

fn history_of(bucket: &Bucket) -> History {
    let mut history = History::default();
    let lineage = Lineage::expect(bucket).unwrap();
    restore::run(&lineage, Goal::Newest, &mut history, &mut |_| {}).unwrap();
    history
}

fn number(store: &Arc<Faulty>) -> u64 {
    store.bucket().newest_incarnation().unwrap()
}

#[test]
fn a_database_of_a_dropped_name_has_a_lineage_of_its_own() {
    let (store, first, second) = (Faulty::new(1), Model::new(1), another());
    let bucket = store.bucket();
    assert_eq!(bucket.dropped_ms().unwrap(), None, "there is none");
    let shipper = start(&store, &first);
    shipper.wait(first.commit(1, "shipped")).unwrap();
    assert_eq!(bucket.dropped_ms().unwrap(), None);
    // What was committed and not shipped is shipped first.
    first.commit(2, "the last");
    shipper.drop_database().unwrap();
    assert!(bucket.dropped_ms().unwrap().is_some() && !bucket.is_held().unwrap());
    let listing = bucket.listing().unwrap();
    assert_eq!((listing.newest_commit, listing.dropped_ms), (2, bucket.dropped_ms().unwrap()));
    assert_eq!(restored(&store, Goal::Newest).unwrap().1, first.history(), "it can be restored");

    let shipper = start(&store, &second);
    shipper.wait(second.commit(1, "of another")).unwrap();
    assert_eq!((number(&store), bucket.dropped_ms().unwrap()), (2, None));
    assert_eq!(restored(&store, Goal::Newest).unwrap().1, second.history());
    assert_eq!(history_of(&bucket.incarnation(1).unwrap()), first.history(), "that of before is there, too");
    shipper.release().unwrap();
    // It is the writer when it comes back, and its name can be used a third time.
    let shipper = start(&store, &second);
    shipper.wait(second.commit(2, "again")).unwrap();
    shipper.drop_database().unwrap();
    let third = with_id(79);
    ship_all(&store, &third, Options::default());
    assert_eq!((number(&store), restored(&store, Goal::Newest).unwrap().1), (3, third.history()));
    assert_eq!(history_of(&bucket.incarnation(2).unwrap()), second.history());
}

#[test]
fn a_writer_that_was_replaced_cannot_drop_the_database() {
    let (store, old) = (Faulty::new(1), Model::new(1));
    let shipper = start(&store, &old);
    shipper.wait(old.commit(1, "first")).unwrap();
    let lineage = Lineage::expect(&store.bucket()).unwrap();
    let new = Model::restored(2, restored(&store, Goal::Newest).unwrap().1, lineage.id);
    let successor = start(&store, &new);
    successor.wait(new.commit(2, "second")).unwrap();
    assert_eq!(shipper.drop_database().unwrap_err().kind(), ErrorKind::Fenced);
    successor.wait(new.commit(3, "third")).unwrap();
    successor.stop().unwrap();
    assert_eq!(store.bucket().dropped_ms().unwrap(), None);
    // Nor can it when it comes back.
    assert_eq!(start(&store, &old).drop_database().unwrap_err().kind(), ErrorKind::Mismatch);
    assert_eq!((number(&store), restored(&store, Goal::Newest).unwrap().1), (1, new.history()));
}

/// A drop that was acknowledged is final for every copy that is older.
#[test]
fn an_older_copy_of_a_dropped_database_does_not_return() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    ship_all(&store, &model, Options::default());
    let lineage = Lineage::expect(&store.bucket()).unwrap();
    // It has everything that the lineage has, and was restored from it before the drop.
    let copy = Model::restored(2, model.history(), lineage.id);
    start(&store, &model).drop_database().unwrap();
    let refused = |copy: &Model| {
        let error = start(&store, copy).stop().unwrap_err();
        assert!(
            error.kind() == ErrorKind::Mismatch && error.to_string().contains("was dropped at"),
            "{error}"
        );
        assert_eq!(number(&store), 1, "no lineage was begun");
    };
    refused(&copy);
    // A replica is not promoted to it either.
    let identity = Identity { database: 77, fork: 3 };
    let taken = Follower::of(lineage.clone()).take_over_into(&mut History::default(), identity, 0);
    assert!(matches!(taken.unwrap_err().kind(), ErrorKind::Mismatch | ErrorKind::Missing));
    // One that was restored after the drop does.
    lock(&copy.0).origin.as_mut().unwrap().after_drop = true;
    ship_all(&store, &copy, Options::default());
    assert_eq!((number(&store), store.bucket().dropped_ms().unwrap()), (2, None));
    // Only one of them.
    let late = Model::restored(4, model.history(), lineage.id);
    lock(&late.0).origin.as_mut().unwrap().after_drop = true;
    let error = start(&store, &late).stop().unwrap_err();
    assert!(error.to_string().contains("another copy of this database"), "{error}");
}

/// The drop of a database stays final when others of its name are dropped.
#[test]
fn an_older_copy_does_not_return_after_others_of_its_name() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    ship_all(&store, &model, Options::default());
    let lineage = Lineage::expect(&store.bucket()).unwrap();
    let copy = Model::restored(2, model.history(), lineage.id);
    start(&store, &model).drop_database().unwrap();
    dropped(&store, &another());
    let error = start(&store, &copy).stop().unwrap_err();
    assert!(error.kind() == ErrorKind::Mismatch && error.to_string().contains("was dropped at"), "{error}");
    // Nor does one that lacks commits, of the fork that dropped it.
    let older = Model::new(1);
    dropped(&store, &model);
    dropped(&store, &with_id(79));
    let error = start(&store, &older).stop().unwrap_err();
    assert!(error.to_string().contains("the lineage has commit 1"), "{error}");
    assert_eq!(number(&store), 4, "no lineage was begun");
    // Its last lineage decides.
    lock(&copy.0).origin.as_mut().unwrap().after_drop = true;
    assert_eq!(start(&store, &copy).stop().unwrap_err().kind(), ErrorKind::Mismatch);
    let third = Lineage::expect(&store.bucket().incarnation(3).unwrap()).unwrap();
    lock(&copy.0).origin.as_mut().unwrap().lineage = third.id;
    lock(&copy.0).history = model.history();
    lock(&copy.0).origin.as_mut().unwrap().commit = 1;
    lock(&copy.0).forgotten = 1;
    ship_all(&store, &copy, Options::default());
    assert_eq!((number(&store), store.bucket().dropped_ms().unwrap()), (5, None));
}

/// Docs say how to free the space of a dropped database.
#[test]
fn a_replica_whose_lineage_was_deleted_is_restored_again() {
    let (store, model, dir) = (Faulty::new(1), Model::new(1), tempfile::tempdir().unwrap());
    ship_all(&store, &model, Options::default());
    let lineage = Lineage::expect(&store.bucket()).unwrap();
    let refused = || Follower::open(&store.bucket(), dir.path()).unwrap_err().kind();
    assert_eq!(refused(), ErrorKind::Mismatch, "it has no marker");
    write_marker(dir.path(), Origin { lineage: 1, commit: 1, after_drop: false }).unwrap();
    assert_eq!(refused(), ErrorKind::Mismatch, "it was restored elsewhere");
    write_marker(dir.path(), Origin { lineage: lineage.id, commit: 1, after_drop: false }).unwrap();
    Follower::open(&store.bucket(), dir.path()).unwrap();
    start(&store, &model).drop_database().unwrap();
    ship_all(&store, &another(), Options::default());
    assert_eq!(refused(), ErrorKind::TooOld);
    store.remove_first_incarnation();
    assert_eq!(refused(), ErrorKind::TooOld);
    assert!(store.bucket().is_shipped().unwrap());
    assert_eq!(store.bucket().listings().unwrap().len(), 1);
}

/// The process ends between the drop in the bucket and the removal of the directory.
#[test]
fn a_database_that_is_still_there_after_its_drop_goes_on() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    dropped(&store, &model);
    let shipper = start(&store, &model);
    shipper.wait(model.commit(2, "goes on")).unwrap();
    shipper.stop().unwrap();
    assert_eq!((number(&store), restored(&store, Goal::Newest).unwrap().1), (2, model.history()));
}

/// Whether or not the drop is in the bucket, what is acknowledged afterwards is.
#[test]
fn nothing_is_lost_after_a_drop_whose_outcome_is_unknown() {
    let (mut with_drop, mut without) = (0, 0);
    for seed in 0..24 {
        let (store, model) = (Faulty::new(seed), Model::new(1));
        let shipper = start(&store, &model);
        shipper.wait(model.commit(1, "before")).unwrap();
        store.set_faults(100);
        let (away, goes_away) = (Arc::clone(&store), seed % 3 > 0);
        store.before_put("log/", move || away.set_away(goes_away));
        let outcome = shipper.drop_database();
        drop(shipper);
        store.set_away(false);
        store.set_faults(if seed % 2 == 0 { 0 } else { 20 });
        // The server keeps the database, and opens it again.
        let options = Options { sync: true, ..Options::default() };
        let shipper = Shipper::over(Arc::new(model.clone()), store.bucket(), options).unwrap();
        shipper.wait(model.commit(2, "after")).unwrap();
        store.deliver_all();
        shipper.wait(model.commit(3, "and more")).unwrap();
        store.set_faults(0);
        shipper.stop().unwrap();
        store.deliver_all();
        assert_eq!(restored(&store, Goal::Newest).unwrap().1, model.history(), "seed {seed}: {outcome:?}");
        match number(&store) {
            1 => without += 1,
            _ => with_drop += 1,
        }
    }
    assert!(with_drop > 0 && without > 0, "{with_drop} with a drop, {without} without");
}

/// A put that was sent before arrives between the last look at the log and the fence.
#[test]
fn a_drop_that_arrives_before_the_fence_is_not_passed_over() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    let mut old = node(&store, &model);
    model.commit(1, "first");
    ship(&mut old).unwrap();
    store.before_put("log/", move || {
        old.writer.prepare_drop(7);
        old.writer.settle().unwrap();
    });
    let writer = take_over(&store, &model).unwrap();
    assert_eq!(writer.lineage.bucket.newest_incarnation().unwrap(), 2);
    assert_eq!(store.bucket().incarnation(1).unwrap().dropped_ms().unwrap(), Some(7));
}

#[test]
fn a_replica_says_that_its_database_was_dropped() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    ship_all(&store, &model, Options::default());
    let lineage = Lineage::expect(&store.bucket()).unwrap();
    let (mut follower, mut history) = (Follower::of(lineage.clone()), History::default());
    assert!(!follower.advance_into(&mut history, 0).unwrap().has_moved);
    dropped(&store, &model);
    let mut said = |follower: &mut Follower| {
        loop {
            let commit = history.0.len() as u64;
            match follower.advance_into(&mut history, commit) {
                Ok(advance) => assert!(advance.has_moved || commit < 1, "it waits for ever"),
                Err(error) => break error,
            }
        }
    };
    for follower in [&mut follower, &mut Follower::of(lineage)] {
        // Each time.
        for _ in 0..2 {
            let error = said(follower);
            assert!(
                error.kind() == ErrorKind::Missing && error.to_string().contains("was dropped at"),
                "{error}"
            );
        }
    }
    assert_eq!(history, model.history());
}

/// A number that no name reaches is looked at once, and the numbers below it are not counted through.
#[test]
fn a_forged_incarnation_is_an_error() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    dropped(&store, &model);
    let (last, number) = (base::limits::NUMBER_LIMIT - 1, base::limits::NUMBER_LIMIT);
    for number in [0, last, number, u64::MAX] {
        let path = format!("prefix/{}/{}", name::numbered(name::INCARNATIONS, number), name::LINEAGE);
        store.write(&object_store::path::Path::from(path), b"forged, and long enough to be an object");
    }
    assert_eq!(store.bucket().incarnations().unwrap(), [1, last]);
    let found = store.bucket().listings().unwrap();
    assert!(found[0].listing.is_ok() && found.len() == 2, "{found:?}");
    assert_eq!(found[1].listing.as_ref().unwrap_err().kind(), ErrorKind::Foreign);
    assert_eq!(start(&store, &model).stop().unwrap_err().kind(), ErrorKind::Foreign);
    assert!(store.bucket().incarnation(0).is_err() && store.bucket().incarnation(number).is_err());
}

/// A folder of a higher number is not the newest one as long as no writer has begun a lineage there.
#[test]
fn an_incarnation_without_a_lineage_does_not_count_or_is_an_error() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    ship_all(&store, &model, Options::default());
    let path = |name: &str| {
        let folder = name::numbered(name::INCARNATIONS, 2);
        object_store::path::Path::from(format!("prefix/{folder}/{name}"))
    };
    store.write(&path("notes"), b"of a stranger");
    assert_eq!(number(&store), 1);
    model.commit(1, "goes on where it was");
    ship_all(&store, &model, Options::default());
    assert_eq!(restored(&store, Goal::Newest).unwrap().1, model.history());
    dropped(&store, &model);
    ship_all(&store, &another(), Options::default());
    assert_eq!(number(&store), 2);
    store.remove(&path("lineage"));
    for error in [store.bucket().newest_incarnation().unwrap_err(), store.bucket().dropped_ms().unwrap_err()]
    {
        assert!(
            error.kind() == ErrorKind::Corruption && error.to_string().contains("lineage is missing"),
            "{error}"
        );
    }
}

#[test]
fn a_damaged_drop_is_named_and_nothing_is_read_after_one() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    dropped(&store, &model);
    let lineage = Lineage::expect(&store.bucket()).unwrap();
    let tail = lineage.tail().unwrap().unwrap();
    let name = name::numbered(name::LOG, tail.head.number);
    let path = object_store::path::Path::from(format!("prefix/{name}"));
    let bytes = store.read(&path);
    for bit in [70, 8 * 8, 184 * 8, (64 + 120) * 8, bytes.len() * 8 - 1] {
        let mut damaged = bytes.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        store.write(&path, &damaged);
        for error in [
            store.bucket().dropped_ms().unwrap_err(),
            start(&store, &another()).stop().unwrap_err(),
            restored(&store, Goal::Newest).unwrap_err(),
        ] {
            assert!(error.kind() == ErrorKind::Corruption && error.to_string().contains(&name), "{error}");
        }
        assert_eq!(number(&store), 1);
    }
    store.write(&path, &bytes);
    // A forged segment after it, with the right hashes.
    let head = Head { number: tail.head.number + 1, dropped_ms: None, previous: tail.hash, ..tail.head };
    let next = format!("prefix/{}", name::numbered(name::LOG, head.number));
    store.write(&object_store::path::Path::from(next), &segment::encode(&tail.author, &head, Vec::new()));
    let error = restored(&store, Goal::Newest).unwrap_err();
    assert!(error.kind() == ErrorKind::Corruption && error.to_string().contains("forged"), "{error}");
    assert_eq!(model.newest().unwrap(), 1);
}
