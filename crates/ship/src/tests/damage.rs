//! One object flipped or missing, each in turn: it is named, and nothing wrong is ever restored.

use super::faulty::Faulty;
use super::model::Model;
use super::race::node;
use super::restores::{grown, restored, ship_all};
use super::takeover::{draft, ship};
use crate::bucket::Bucket;
use crate::handle::Shipper;
use crate::name;
use crate::options::Options;
use crate::restore::Goal;
use crate::source::Source as _;
use base::ErrorKind;
use base::env::Random;
use std::sync::Arc;

#[test]
fn a_flipped_object_is_named() {
    let store = Faulty::new(1);
    let model = grown(&store, 1, 80);
    let mut random = Random::seeded(9);
    let (mut named, mut unused) = (0, 0);
    for (path, bytes) in store.objects() {
        let mut damaged = bytes.to_vec();
        let bit = random.below(damaged.len() as u64 * 8) as usize;
        damaged[bit / 8] ^= 1 << (bit % 8);
        store.write(&path, &damaged);
        match restored(&store, Goal::Newest) {
            Err(error) => {
                let name = path.as_ref().strip_prefix("prefix/").unwrap();
                assert!(error.to_string().contains(name), "{name}: {error}");
                assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                named += 1;
            }
            // An older base, or an epoch: the newest state does not need it.
            Ok((_, history)) => {
                assert_eq!(history, model.history(), "{path}");
                unused += 1;
            }
        }
        store.write(&path, &bytes);
    }
    assert!(named > 5 && unused > 0, "{named} named, {unused} unused");
}

#[test]
fn a_missing_object_is_named() {
    for seed in 0..2 {
        let (store, model) = (Faulty::new(seed), Model::new(1));
        for round in 1..=6 {
            for time in 0..3 {
                model.commit(round * 10 + time, vec![7; if round == 5 { 9 << 20 } else { 3000 }]);
            }
            if round == 2 + seed {
                // A base leaps over these.
                model.forget();
            }
            ship_all(&store, &model, Options { segment_bytes: 5_000, ..Options::default() });
        }
        let last = store.bucket().list(name::LOG, None).unwrap().pop().unwrap();
        let (mut named, mut unused) = (0, 0);
        for (path, bytes) in store.objects() {
            let name = path.as_ref().strip_prefix("prefix/").unwrap();
            store.remove(&path);
            match restored(&store, Goal::Newest) {
                Err(error) => {
                    assert!(error.to_string().contains(name), "seed {seed}: {name}: {error}");
                    assert_eq!(error.kind(), ErrorKind::Corruption, "seed {seed}: {name}: {error}");
                    named += 1;
                }
                // Nothing tells that the last segment was ever there, except that a commit is asked for that it has.
                Ok((report, history)) if name == last => {
                    assert_eq!(history, model.history().prefix(report.commit));
                    let error = restored(&store, Goal::Commit(18)).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Missing, "{error}");
                }
                // Epochs, an older base, and the log that only that one needs.
                Ok((_, history)) => {
                    assert!(history == model.history(), "seed {seed}: {name} is missing, and nobody notices");
                    unused += 1;
                }
            }
            store.write(&path, &bytes);
        }
        assert!(named > 8 && unused > 5, "seed {seed}: {named} named, {unused} unused");
    }
}

#[test]
fn a_lineage_that_is_missing_is_not_replaced() {
    let store = Faulty::new(1);
    let model = grown(&store, 1, 20);
    let path = object_store::path::Path::from("prefix/lineage");
    let bytes = store.read(&path);
    store.remove(&path);
    let before = store.objects().len();
    let options = Options { sync: true, ..Options::default() };
    let shipper = Shipper::over(Arc::new(model.clone()), store.bucket(), options.clone()).unwrap();
    let error = shipper.wait(model.commit(99, "not shipped")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.to_string().contains("lineage is missing, although epochs/"), "{error}");
    assert_eq!(store.objects().len(), before, "nothing was created");
    let above = Bucket::over(Arc::clone(&store) as _, "", "mem://").unwrap();
    let error = above.databases().unwrap_err();
    assert!(error.to_string().contains("lineage is missing, although epochs/"), "{error}");
    // What the message advises works.
    store.write(&path, &bytes);
    let shipper = Shipper::over(Arc::new(model.clone()), store.bucket(), options).unwrap();
    shipper.wait(model.newest().unwrap()).unwrap();
    shipper.stop().unwrap();
    assert_eq!(restored(&store, Goal::Newest).unwrap().1, model.history());
}

/// A writer would otherwise take itself for another one.
#[test]
fn an_epoch_that_is_missing_is_not_raised_again() {
    let store = Faulty::new(1);
    let model = grown(&store, 1, 20);
    let lineage = crate::lineage::Lineage::expect(&store.bucket()).unwrap();
    let last = lineage.newest(name::EPOCHS).unwrap();
    store.remove(&object_store::path::Path::from(format!("prefix/{}", name::numbered(name::EPOCHS, last))));
    let options = Options { sync: true, ..Options::default() };
    let shipper = Shipper::over(Arc::new(model.clone()), store.bucket(), options).unwrap();
    shipper.wait(model.commit(99, "shipped")).unwrap();
    assert_eq!(shipper.status().epoch, last + 1);
    shipper.stop().unwrap();
    assert_eq!(restored(&store, Goal::Newest).unwrap().1, model.history());
}

/// A base is a shortcut: the log from the one before it has the same commits.
#[test]
fn a_damaged_manifest_of_the_newest_base_is_passed_over() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    let mut node = node(&store, &model);
    for time in 1..5 {
        model.commit(time, "shipped");
        ship(&mut node).unwrap();
    }
    let (draft, tail) = (draft(&node).unwrap(), *node.writer.tail());
    node.writer.publish(&draft.manifest(tail.number, tail.hash, None)).unwrap();
    model.commit(5, "after the base");
    ship(&mut node).unwrap();
    let bases = store.bucket().list(name::BASES, None).unwrap();
    assert_eq!(bases.len(), 2, "{bases:?}");
    let path = object_store::path::Path::from(format!("prefix/{}", bases.last().unwrap()));
    let mut bytes = store.read(&path).to_vec();
    bytes[70] ^= 1;
    for damaged in [bytes, Vec::new()] {
        store.write(&path, &damaged);
        for goal in [Goal::Newest, Goal::Commit(model.newest().unwrap())] {
            let (report, history) = restored(&store, goal).unwrap();
            assert_eq!(history, model.history());
            assert_eq!((report.base_commit, report.commit), (0, 5));
        }
    }
}

/// No writer gets so far, so these objects belong to nobody.
#[test]
fn objects_with_impossible_numbers_are_ignored() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    model.commit(1, "first");
    ship_all(&store, &model, Options::default());
    for folder in [name::FLOORS, name::EPOCHS, name::LOG] {
        for number in [u64::MAX, base::limits::NUMBER_LIMIT] {
            let path = format!("prefix/{}", name::numbered(folder, number));
            store.write(&object_store::path::Path::from(path), b"forged");
        }
    }
    assert_eq!(restored(&store, Goal::Newest).unwrap().1, model.history());
    model.commit(2, "second");
    ship_all(&store, &model, Options::default());
    assert_eq!(restored(&store, Goal::Newest).unwrap().1, model.history());
}
