//! The beginnings of large values in pages: they are those of the values, and a page that says something else is found.

use crate::common::{Bed, DATABASE, Model};
use base::PagePtr;
use base::env::Random;
use base::limits::beginning_bytes;
use page::{Page, PageMut, Value};
use pando_run::Run;

fn text(random: &mut Random, len: usize) -> Vec<u8> {
    (0..len).map(|_| b'a' + random.below(26) as u8).collect()
}

/// Random puts and removes, so that leaves are split and joined with beginnings in them. `Bed::verify` compares each
/// beginning with the value.
#[test]
fn each_page_has_the_beginning_of_each_value() {
    let mut random = Random::seeded(3);
    let mut bed = Bed::new(4096);
    let (mut run, mut model) = (Run::EMPTY, Model::new());
    for _ in 0..12 {
        let mut changes = Model::new();
        for _ in 0..150 {
            let len = [10, 929, 3000, 7679, 7680, 20_000][random.below(6) as usize];
            changes.insert(random.below(400).to_be_bytes().to_vec(), text(&mut random, len));
        }
        let removed: Vec<_> = model.keys().filter(|_| random.chance(1, 5)).cloned().collect();
        run = bed.edit(run, 64 << 10, |editor| {
            for (key, value) in &changes {
                editor.put(key, value).unwrap();
            }
            for key in &removed {
                editor.remove(key).unwrap();
            }
        });
        model.append(&mut changes);
        removed.iter().for_each(|key| drop(model.remove(key)));
        let report = bed.verify(&run, &model);
        bed.checkpoint(&[run]);
        assert!(report.large_values > 50);
    }
    assert!(bed.counters.splits > 10 && bed.counters.merges > 10, "{:?}", bed.counters);
}

#[test]
fn a_check_finds_a_beginning_of_another_value() {
    let mut bed = Bed::new(4096);
    let value = text(&mut Random::seeded(1), 9000);
    let run = bed.edit(Run::EMPTY, 64 << 10, |editor| assert!(!editor.put(b"k", &value).unwrap()));
    let root = run.root.expect("it has a record");
    let mut bytes = vec![0; 4096];
    bed.file.read_exact_at(&mut bytes, root.offset_bytes()).unwrap();
    let Value::Large(large) = Page::trusted(&bytes).value(0) else { panic!("it is in the page") };
    let beginning = large.beginning();
    assert_eq!(beginning, &value[..beginning_bytes(9000)]);
    let at = bytes.windows(beginning.len()).position(|window| window == beginning).unwrap();
    let refusal = |place: usize| {
        let mut forged = bytes.clone();
        forged[place] ^= 1;
        let checksum = PageMut::edit(&mut forged).seal(DATABASE, root.unit());
        bed.file.write_at(&forged, root.offset_bytes()).unwrap();
        let ptr = PagePtr::new(root.unit(), 1, checksum).with_flags(root.flags());
        let forged = Run { root: Some(ptr), ..run };
        forged.check(&bed.pool, &mut |_| Ok(())).expect_err("a byte is wrong").to_string()
    };
    let of_page = refusal(at + 3);
    assert!(of_page.contains("beginning of a large value"), "{of_page}");
    let of_value = refusal(at + 100);
    assert!(of_value.contains("its beginning differs from the one in its page"), "{of_value}");
}
