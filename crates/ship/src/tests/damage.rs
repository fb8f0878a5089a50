//! One object flipped or missing, each in turn: it is named, and nothing wrong is ever restored.

use super::faulty::Faulty;
use super::model::Model;
use super::restores::{grown, restored, ship_all};
use crate::name;
use crate::options::Options;
use crate::restore::Goal;
use base::ErrorKind;
use base::env::Random;

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
                Err(error) if name == name::LINEAGE => {
                    assert_eq!(error.kind(), ErrorKind::Missing, "{error}")
                }
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
