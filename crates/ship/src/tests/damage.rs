//! One object flipped or missing, each in turn: it is named, and nothing wrong is ever restored.

use super::faulty::Faulty;
use super::model::Model;
use super::restores::{grown, restored, ship_all};
use crate::name;
use crate::options::Options;
use crate::restore::Goal;
use base::ErrorKind;
use base::seams::Random;

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
    assert!(named > 10 && unused > 0, "{named} named, {unused} unused");
}

#[test]
fn a_missing_object_is_named() {
    let store = Faulty::new(2);
    let model = Model::new(1);
    for round in 1..=6 {
        for time in 0..3 {
            model.commit(round * 10 + time, vec![7; if round == 4 { 9 << 20 } else { 3000 }]);
        }
        ship_all(&store, &model, Options { segment_bytes: 5_000, ..Options::default() });
    }
    let last = store.bucket().list("log", None).unwrap().pop().unwrap();
    let mut named = 0;
    for (path, bytes) in store.objects() {
        let name = path.as_ref().strip_prefix("prefix/").unwrap();
        store.remove(&path);
        match restored(&store, Goal::Newest) {
            Err(error) if name == "lineage" || name.starts_with("base/") => {
                assert_eq!(error.kind(), ErrorKind::Missing, "{name}: {error}");
                named += 1;
            }
            Err(error) => {
                assert!(error.to_string().contains(name), "{name}: {error}");
                assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                named += 1;
            }
            // Nothing tells that the last segment was ever there, except that a commit is asked for that it has.
            Ok((report, history)) if name == last => {
                assert_eq!(history, model.history().prefix(report.commit));
                let error = restored(&store, Goal::Commit(18)).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Missing, "{error}");
            }
            Ok((_, history)) => {
                // Epochs are for writers, and the base stands on segment 2.
                let unused = name.starts_with("epochs/") || name == name::numbered(name::LOG, 1);
                assert!(unused, "{name} is missing, and nobody notices");
                assert_eq!(history, model.history());
            }
        }
        store.write(&path, &bytes);
    }
    assert!(named > 10, "{named}");
}
