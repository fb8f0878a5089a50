//! Replicas that take over from a writer that goes on writing.

use super::faulty::Faulty;
use super::model::{History, Model};
use super::takeover::{Node, leap_if_needed, ship, take_over};
use crate::candidate::Candidate;
use crate::follower::Follower;
use crate::lineage::Lineage;
use crate::retention::Retention;
use crate::source::Source as _;
use crate::writer::Writer;
use base::ErrorKind;
use pando::Identity;
use std::sync::{Arc, Mutex};

/// Returns the first writer of the lineage, which has a base.
pub(super) fn node(store: &Arc<Faulty>, model: &Model) -> Node {
    let (writer, retention) = (take_over(store, model).unwrap(), Retention::default());
    let mut node = Node { model: model.clone(), writer, acknowledged: 0, fenced: false, retention };
    leap_if_needed(&mut node).unwrap();
    node
}

#[test]
fn a_replica_takes_over_while_the_writer_goes_on() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    let mut old = node(&store, &model);
    model.commit(1, "first");
    ship(&mut old).unwrap();
    let lineage = Lineage::expect(&store.bucket()).unwrap();
    let (mut follower, mut history) = (Follower::of(lineage.clone()), model.history());
    // The replica has looked; before it raises the epoch, the writer ships more.
    let of_old = model.clone();
    let shared = Arc::new(Mutex::new(old));
    let ships = Arc::clone(&shared);
    store.before_put("epochs/", move || {
        of_old.commit(2, "more");
        ship(&mut ships.lock().unwrap()).unwrap();
    });
    let identity = Identity { database: 77, fork: 2 };
    let taken = follower.take_over_into(&mut history, identity, 1);
    assert!(taken.is_ok(), "seed 0: {taken:?}");
    assert_eq!(history, model.history(), "seed 0: it took over without what was shipped last");
    model.commit(3, "too late");
    assert_eq!(ship(&mut shared.lock().unwrap()).unwrap_err().kind(), ErrorKind::Fenced, "seed 0");
    // Its own changes have other checksums than those of the writer before it.
    let copy = Model::restored(2, history, lineage.id);
    let checksum = |_| Ok(Some(7));
    let newest = copy.newest().unwrap();
    let candidate = Candidate { identity, origin: None, newest, follows: false, checksum: &checksum };
    let again = Writer::take_over(&store.bucket(), &candidate);
    assert!(again.is_ok(), "seed 0: {again:?}");
}

/// Lets `old` ship a commit before each of the next `times` puts of a segment by another writer.
fn ship_before_each_put(store: &Arc<Faulty>, old: &Arc<Mutex<Node>>, times: u64) {
    let (of_next, old) = (Arc::clone(store), Arc::clone(old));
    store.before_put("log/", move || {
        {
            let mut old = old.lock().unwrap();
            old.model.commit(times, "at full speed");
            ship(&mut old).unwrap();
        }
        if times > 1 {
            ship_before_each_put(&of_next, &old, times - 1);
        }
    });
}

#[test]
fn a_replica_takes_over_from_a_writer_at_full_speed() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    let old = node(&store, &model);
    let lineage = Lineage::expect(&store.bucket()).unwrap();
    let old = Arc::new(Mutex::new(old));
    ship_before_each_put(&store, &old, 60);
    let (mut follower, mut history) = (Follower::of(lineage.clone()), History::default());
    let identity = Identity { database: 77, fork: 2 };
    let epoch = follower.take_over_into(&mut history, identity, 0).unwrap();
    assert_eq!((history.0.len(), &history), (60, &model.history()), "seed 0: acknowledged commits are lost");
    model.commit(3, "too late");
    assert_eq!(ship(&mut old.lock().unwrap()).unwrap_err().kind(), ErrorKind::Fenced, "seed 0");
    let copy = Model::restored(2, history, lineage.id);
    assert_eq!(take_over(&store, &copy).unwrap().epoch(), epoch + 1);
}

#[test]
fn a_writer_that_is_always_faster_is_reported() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    let old = node(&store, &model);
    let lineage = Lineage::expect(&store.bucket()).unwrap();
    let old = Arc::new(Mutex::new(old));
    ship_before_each_put(&store, &old, u64::MAX);
    let (mut follower, mut history) = (Follower::of(lineage), History::default());
    let identity = Identity { database: 77, fork: 2 };
    let error = follower.take_over_into(&mut history, identity, 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "seed 0: {error}");
    assert!(error.to_string().contains("stop that writer"), "{error}");
}
