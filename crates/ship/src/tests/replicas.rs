//! A replica finds out that its next commit is gone.

use super::faulty::Faulty;
use super::model::Model;
use super::restores::{restored, ship_all};
use crate::follower::Follower;
use crate::lineage::Lineage;
use crate::options::Options;
use crate::restore::Goal;
use base::ErrorKind;

#[test]
fn a_leap_over_commits_that_a_replica_lacks_is_noticed() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    model.commit(1, "first");
    ship_all(&store, &model, Options::default());
    let lineage = Lineage::expect(&store.bucket()).unwrap();
    let (_, mut history) = restored(&store, Goal::Newest).unwrap();
    let mut follower = Follower::of(lineage.clone());
    while follower.advance_into(&mut history, 1).unwrap().has_moved {}
    for time in 2..5 {
        model.commit(time, "not in the log");
    }
    model.forget();
    ship_all(&store, &model, Options::default());
    let mut attempts = (0..10).map(|_| follower.advance_into(&mut history, 1));
    let error = attempts.find_map(|outcome| outcome.err()).expect("seed 1: it waits for ever");
    assert_eq!(error.kind(), ErrorKind::TooOld, "seed 1: {error}");
    // So does one that begins there.
    let error = Follower::of(lineage).advance_into(&mut history, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooOld, "seed 1: {error}");
    assert_eq!(history, model.history().prefix(1));
}
