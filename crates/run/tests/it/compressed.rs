//! Compressed leaves: what they gain, that they are read, edited, copied and checked like any others, and what
//! becomes of those that have rotted.

use crate::common::{Bed, DATABASE, Model};
use base::env::Random;
use base::{ErrorKind, PagePtr};
use page::{Compressor, Page, PageMut, Value};
use pando_run::walk::{Shown, Source, Walk};
use pando_run::{Builder, Run};

const PAGE_BYTES: usize = 16 << 10;
const PAGE_UNITS: u64 = 4;

const WORDS: [&str; 16] = [
    "active",
    "amount",
    "berlin",
    "closed",
    "customer",
    "delivery",
    "invoice",
    "order",
    "paris",
    "pending",
    "person",
    "refund",
    "status",
    "street",
    "total",
    "warehouse",
];

/// A row as applications have them: names of fields that repeat, words, and numbers that do not.
fn row(random: &mut Random) -> Vec<u8> {
    let word = |random: &mut Random| WORDS[random.below(16) as usize];
    let (id, cents) = (random.next_u64() >> 20, random.below(1_000_000));
    let (one, two, three) = (word(random), word(random), word(random));
    let place = format!("\"status\":\"{one}\",\"city\":\"{two}\"");
    format!("{{\"id\":\"{id:011x}\",{place},\"cents\":{cents},\"note\":\"{three} {one}\"}}").into_bytes()
}

fn rows(count: u64, random: &mut Random) -> Model {
    (0..count).map(|n| ((n * 1000 + random.below(1000)).to_be_bytes().to_vec(), row(random))).collect()
}

fn build(bed: &mut Bed, model: &Model, compresses: bool) -> Run {
    bed.birth.0 += 1;
    let builder = Builder::new(&bed.pool, &bed.space, bed.birth, 256 << 10);
    let mut builder = if compresses { builder.compressing_leaves() } else { builder };
    for (key, value) in model {
        builder.add(key, Value::Inline(value)).unwrap();
    }
    builder.finish().unwrap()
}

/// Bytes over compressed bytes of full leaves, were there no units: thousandths.
fn pure_ratio(bed: &Bed, run: &Run) -> u64 {
    let source = Source { file: &*bed.file, database: DATABASE, page_bytes: PAGE_BYTES };
    let mut walk = Walk::new(run, None).unwrap();
    let (mut whole, mut compressed) = (0, 0);
    while walk.advance(source).unwrap() {
        let Shown::Page(_, bytes) = walk.shown() else { panic!("there are no large values") };
        let mut bytes = bytes.to_vec();
        if Page::trusted(&bytes).level() == 0 {
            whole += bytes.len();
            compressed += Compressor::default()
                .compress(&mut PageMut::edit(&mut bytes), &mut Vec::new())
                .compressed_bytes;
        }
    }
    (whole * 1000 / compressed) as u64
}

/// What is gained, in thousandths, and what could be gained at most.
fn gain(model: &Model) -> (u64, u64) {
    let mut bed = Bed::new(PAGE_BYTES);
    let plain = build(&mut bed, model, false);
    let compressed = build(&mut bed, model, true);
    bed.checkpoint(&[plain, compressed]);
    bed.cool();
    bed.verify(&compressed, model);
    let units = |run: &Run| run.leaves * PAGE_UNITS - run.saved_units;
    let (gain, pure) = (units(&plain) * 1000 / units(&compressed), pure_ratio(&bed, &plain));
    println!("{gain} of {pure} thousandths, {} leaves for {}", compressed.leaves, plain.leaves);
    (gain, pure.min(PAGE_UNITS * 1000))
}

#[test]
fn units_are_full_whatever_the_ratio() {
    let mut random = Random::seeded(1);
    for noise in [0, 1, 2, 3, 4, 5] {
        let mut model = Model::new();
        for n in 0..20_000u64 {
            let word = |at: u64| if at % 8 < noise { random.next_u64() } else { 7 };
            let value: Vec<_> = (0..15).map(word).map(u64::to_be_bytes).collect();
            model.insert(n.to_be_bytes().to_vec(), value.concat());
        }
        let (gain, pure) = gain(&model);
        assert!(gain * 100 >= pure * 87, "{noise} eighths of noise: {gain} of {pure} thousandths");
    }
}

#[test]
fn rows_as_applications_have_them_take_little_more_than_half_the_room() {
    let (gain, pure) = gain(&rows(30_000, &mut Random::seeded(2)));
    assert!(gain > 1800 && gain * 100 >= pure * 92, "{gain} of {pure} thousandths");
}

#[test]
fn noise_is_stored_as_it_is() {
    let mut random = Random::seeded(3);
    let mut bed = Bed::new(PAGE_BYTES);
    let value =
        |random: &mut Random| (0..20).map(|_| random.next_u64().to_be_bytes()).collect::<Vec<_>>().concat();
    let model: Model = (0..4000u64).map(|n| (n.to_be_bytes().to_vec(), value(&mut random))).collect();
    let plain = build(&mut bed, &model, false);
    let compressed = build(&mut bed, &model, true);
    bed.checkpoint(&[plain, compressed]);
    assert_eq!(compressed.leaves, plain.leaves);
    assert!(compressed.saved_units < PAGE_UNITS, "the last leaf is not full");
    bed.cool();
    bed.verify(&compressed, &model);
}

#[test]
fn edits_of_compressed_leaves_are_those_of_a_model() {
    for seed in 0..6 {
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        let mut bed = Bed::with_pool(PAGE_BYTES, 1 << 20);
        let mut model = rows(2000 + random.below(6000), &mut random);
        let mut run = build(&mut bed, &model, true);
        for _ in 0..12 {
            // Some sessions write leaves as they are.
            bed.compresses = random.chance(2, 3);
            let keys: Vec<_> = model.keys().cloned().collect();
            let from = keys[random.below(keys.len() as u64) as usize].clone();
            let to = keys[random.below(keys.len() as u64) as usize].clone();
            let is_range = random.chance(1, 3);
            let changes: Vec<(Vec<u8>, Option<Vec<u8>>)> = (0..random.below(600))
                .map(|_| {
                    let mut key = keys[random.below(keys.len() as u64) as usize].clone();
                    key[7] ^= random.below(2) as u8;
                    (key, random.chance(2, 3).then(|| row(&mut random)))
                })
                .collect();
            run = bed.edit(run, 0, |editor| {
                if is_range {
                    editor.remove_range(&from, Some(&to)).unwrap();
                }
                for (key, value) in &changes {
                    match value {
                        Some(value) => drop(editor.put(key, value).unwrap()),
                        None => drop(editor.remove(key).unwrap()),
                    }
                }
            });
            if is_range {
                model.retain(|key, _| *key < from || *key >= to);
            }
            for (key, value) in changes {
                match value {
                    Some(value) => drop(model.insert(key, value)),
                    None => drop(model.remove(&key)),
                }
            }
            bed.checkpoint(&[run]);
            bed.verify(&run, &model);
            if model.is_empty() {
                assert_eq!(run, Run::EMPTY);
                break;
            }
        }
    }
}

/// A copy has the bytes that lie there; put elsewhere into an empty file, they are the same run.
#[test]
fn a_walk_shows_what_is_stored() {
    let mut random = Random::seeded(5);
    let mut bed = Bed::new(PAGE_BYTES);
    let model = rows(5000, &mut random);
    let run = build(&mut bed, &model, true);
    bed.checkpoint(&[run]);
    let mut copy = Bed::new(PAGE_BYTES);
    let source = Source { file: &*bed.file, database: DATABASE, page_bytes: PAGE_BYTES };
    let mut walk = Walk::new(&run, None).unwrap();
    let (mut pages, mut compressed) = (0, 0);
    while walk.advance(source).unwrap() {
        let Shown::Page(ptr, bytes) = walk.shown() else { panic!("there are no large values") };
        assert_eq!(bytes.len(), ptr.len_bytes());
        copy.file.write_at(bytes, ptr.offset_bytes()).unwrap();
        pages += 1;
        compressed += u64::from(ptr.units() < PAGE_UNITS);
    }
    assert!(compressed > 20 && compressed == run.leaves && compressed < pages, "{compressed} of {pages}");
    copy.cool();
    copy.verify(&run, &model);
}

#[test]
fn what_has_rotted_or_was_forged_is_named() {
    let seed = 6;
    println!("seed {seed}");
    let mut random = Random::seeded(seed);
    let mut bed = Bed::new(PAGE_BYTES);
    let model = rows(3000, &mut random);
    let run = build(&mut bed, &model, true);
    bed.checkpoint(&[run]);
    let mut leaves = Vec::new();
    let mut visit = |ptr: PagePtr| {
        leaves.extend((ptr.units() < PAGE_UNITS).then_some(ptr));
        Ok(())
    };
    run.check(&bed.pool, &mut visit).unwrap();
    let leaf = leaves[leaves.len() / 2];
    let mut byte = [0];
    for at in [0, 9, 42, 70, leaf.len_bytes() - 1] {
        let place = leaf.offset_bytes() + at as u64;
        bed.file.read_exact_at(&mut byte, place).unwrap();
        bed.file.write_at(&[byte[0] ^ 4], place).unwrap();
        bed.cool();
        let error = run.check(&bed.pool, &mut |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.message().contains(&format!("unit {}", leaf.unit())), "byte {at}: {error}");
        let read = bed.read(|pool, reader| pool.pin(reader, leaf).map(drop));
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Corruption, "byte {at}");
        bed.file.write_at(&byte, place).unwrap();
    }
    // A pointer of another length leads to the same bytes, and to nothing that is believed.
    for units in [0, leaf.units() + 1, PAGE_UNITS, PAGE_UNITS + 1, 1000] {
        let forged = PagePtr::new(leaf.unit(), units, leaf.checksum());
        let read = bed.read(|pool, reader| pool.pin(reader, forged).map(drop));
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Corruption, "{units} units");
    }
    bed.cool();
    bed.verify(&run, &model);
}
