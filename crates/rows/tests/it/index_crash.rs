//! The crash explorer over indexed tables: rows change while an index of their table is built, a few rows a
//! transaction, on the simulated disk, and the machine dies at moments all over it, with what it had not synced kept,
//! lost or torn. Whatever is found then:
//!
//! 1. the rows are those after some commit, at or behind the last one acknowledged;
//! 2. every index agrees with its table, as far as it is built;
//! 3. a build that was interrupted can be finished, beside a writer, and the index agrees then, too.

use crate::support::{Model, for_seeds};
use base::env::Random;
use io::sim::{ImageKind, SimDisk};
use pando::Database;
use pando_rows::{DynamicTable, IndexDefinition, build_index_in_chunks, finish_index, unfinished_indexes};
use std::collections::HashSet;

/// Moments of a run at which it is crashed.
const MOMENTS: usize = 120;
/// Different images that come of them, at least.
const LEAST_IMAGES: usize = 60;

fn open(disk: &SimDisk) -> Database {
    let builder = Database::builder().page_bytes(4096).memory_bytes(8 << 20).max_segment_bytes(16 << 10);
    builder.create_in(disk.dir()).unwrap()
}

/// The rows after each commit, and from which event of the disk on it was acknowledged.
#[derive(Default)]
struct History(Vec<(u64, usize, Model)>);

impl History {
    fn note(&mut self, disk: &SimDisk, db: &Database, model: &Model) {
        let commit = db.snapshot().unwrap().commit_number();
        self.0.push((commit, disk.mark("acknowledged"), model.clone()));
    }
}

fn write(db: &Database, model: &mut Model, random: &mut Random) {
    let table = DynamicTable::expect(&db.snapshot().unwrap(), &model.name).unwrap();
    let mut tx = db.begin().unwrap();
    for _ in 0..1 + random.below(6) {
        model.change_row(&mut tx, &table, random).unwrap();
    }
    tx.commit().unwrap();
}

fn work(disk: &SimDisk, random: &mut Random) -> History {
    let db = open(disk);
    let (mut table, mut model) = db.write(Model::create).unwrap();
    let mut history = History::default();
    for _ in 0..4 {
        table = db.write(|tx| model.change_schema(tx, table.clone(), random)).unwrap();
    }
    for _ in 0..6 {
        write(&db, &mut model, random);
    }
    history.note(disk, &db, &model);
    for round in 0..3 {
        let (mut index, _) = model.index(format!("built{round}"), random);
        // A writer may be refused by one that is unique, and this model would not know.
        index.unique = false;
        let definition = IndexDefinition::new(index.name.clone(), index.parts.clone());
        let chunk_rows = 1 + random.below(5) as usize;
        let name = model.name.clone();
        build_index_in_chunks(&db, &name, definition, chunk_rows, |_| {
            match random.below(6) {
                0 => db.checkpoint().unwrap(),
                1 | 2 => {}
                _ => write(&db, &mut model, random),
            }
            history.note(disk, &db, &model);
            Ok(())
        })
        .unwrap();
        model.indexes.push(index);
        history.note(disk, &db, &model);
        write(&db, &mut model, random);
        history.note(disk, &db, &model);
        model.verify_all(&db.snapshot().unwrap());
    }
    db.close().unwrap();
    history
}

fn check(db: &Database) {
    let report = pando_rows::check(&db.snapshot().unwrap(), |_| {}).unwrap();
    assert_eq!(report.problems, []);
}

fn verify(disk: &SimDisk, history: &History, events: usize, random: &mut Random) {
    let db = open(disk);
    check(&db);
    let snapshot = db.snapshot().unwrap();
    let commit = snapshot.commit_number();
    let promised = history.0.iter().rev().find(|(_, event, _)| *event < events);
    assert!(promised.is_none_or(|(promised, ..)| *promised <= commit), "an acknowledged commit is lost");
    // Between two notes nothing but indexes changes.
    let Some((_, _, model)) = history.0.iter().rev().find(|(number, ..)| *number <= commit) else { return };
    let next_rows = history.0.iter().find(|(number, ..)| *number > commit).map(|(.., model)| &model.rows);
    let table = DynamicTable::expect(&snapshot, &model.name).unwrap();
    let found: Vec<_> =
        table.scan(&snapshot, &pando_rows::KeyRange::all()).unwrap().collect::<pando::Result<_>>().unwrap();
    let is_of = |rows: &std::collections::BTreeMap<crate::support::Key, _>| rows.values().eq(found.iter());
    assert!(is_of(&model.rows) || next_rows.is_some_and(is_of), "rows that never were");
    drop(snapshot);
    for (table, index) in unfinished_indexes(&db.snapshot().unwrap()).unwrap() {
        let mut model = model.clone();
        if is_of(&model.rows) {
            write(&db, &mut model, random);
        }
        finish_index(&db, &table, &index, |_| Ok(())).unwrap();
    }
    assert!(unfinished_indexes(&db.snapshot().unwrap()).unwrap().is_empty());
    check(&db);
}

#[test]
fn an_index_agrees_with_its_table_whenever_the_machine_dies() {
    let kinds = [
        ImageKind::Nothing,
        ImageKind::Everything,
        ImageKind::Prefix(1),
        ImageKind::DropOne(1),
        ImageKind::Torn512(1),
        ImageKind::RandomSubset(2),
    ];
    for_seeds(0..8, |random| {
        let disk = SimDisk::new();
        let history = work(&disk, random);
        let events = disk.event_count();
        let (mut seen, step) = (HashSet::new(), events.div_ceil(MOMENTS).max(1));
        for at in (0..=events).step_by(step) {
            for image in disk.images(at, &kinds, random) {
                if seen.insert(image.fingerprint()) {
                    verify(&image.restore(), &history, at, random);
                }
            }
        }
        assert!(seen.len() > LEAST_IMAGES, "few images: {}", seen.len());
    });
}
