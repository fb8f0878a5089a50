//! Crashes at every kind of moment of random work on rows, schemas and indexes, on the simulated disk: what is found is
//! the state after some commit, at or behind the last one acknowledged, and each index agrees with its table.

use crate::support::{Model, for_seeds};
use base::env::Random;
use io::sim::{ImageKind, SimDisk};
use pando::Database;
use pando_rows::{DynamicTable, build_index, finish_index, unfinished_indexes};

fn open(disk: &SimDisk) -> Database {
    let builder = Database::builder().page_bytes(4096).memory_bytes(8 << 20).max_segment_bytes(16 << 10);
    builder.create_in(disk.dir()).unwrap()
}

/// What was true after each commit, and from which event of the disk on it was acknowledged.
struct History {
    states: Vec<(u64, Model)>,
    acknowledged: Vec<(usize, u64)>,
}

impl History {
    fn note(&mut self, disk: &SimDisk, db: &Database, model: &Model) {
        let commit = db.snapshot().unwrap().commit_number();
        self.states.push((commit, model.clone()));
        self.acknowledged.push((disk.mark("acknowledged"), commit));
    }

    /// The rows after commit number `commit`.
    fn after(&self, commit: u64) -> Option<&Model> {
        self.states.iter().rev().find(|(number, _)| *number <= commit).map(|(_, model)| model)
    }

    /// The last commit that was acknowledged when so many events had happened.
    fn promised(&self, events: usize) -> u64 {
        let before = self.acknowledged.iter().rev().find(|(event, _)| *event < events);
        before.map_or(0, |(_, commit)| *commit)
    }
}

fn work(disk: &SimDisk, random: &mut Random) -> History {
    let db = open(disk);
    let (mut table, mut model) = db.write(Model::create).unwrap();
    let mut history = History { states: Vec::new(), acknowledged: Vec::new() };
    history.note(disk, &db, &model);
    for _ in 0..12 {
        match random.below(6) {
            0 => {
                let mut tx = db.begin().unwrap();
                table = model.change_schema(&mut tx, table, random).unwrap();
                tx.commit().unwrap();
            }
            1 => {
                // The rows stay as they are; what an interrupted build leaves is looked at below.
                let name = format!("built{}", random.next_u64());
                let (index, definition) = model.index(name, random);
                if let Ok(built) = build_index(&db, &model.name, definition, |_| Ok(())) {
                    table = built;
                    model.indexes.push(index);
                } else {
                    table = DynamicTable::expect(&db.snapshot().unwrap(), &model.name).unwrap();
                }
            }
            2 => db.checkpoint().unwrap(),
            _ => {
                let mut tx = db.begin().unwrap();
                for _ in 0..random.below(12) {
                    model.change_row(&mut tx, &table, random).unwrap();
                }
                tx.commit().unwrap();
            }
        }
        history.note(disk, &db, &model);
    }
    db.close().unwrap();
    history
}

fn verify(disk: &SimDisk, history: &History, promised: u64) {
    let db = open(disk);
    let snapshot = db.snapshot().unwrap();
    let commit = snapshot.commit_number();
    assert!(commit >= promised, "commit {commit} is the last, and {promised} was acknowledged");
    let report = pando_rows::check(&snapshot, |_| {}).unwrap();
    assert_eq!(report.problems, [], "after commit {commit}");
    // Before the first note there may be no table yet.
    let Some(model) = history.after(commit) else { return };
    let table = DynamicTable::expect(&snapshot, &model.name);
    let exact = history.states.iter().any(|(number, _)| *number == commit);
    if exact {
        model.verify_all(&snapshot);
        assert!(unfinished_indexes(&snapshot).unwrap().is_empty());
    } else {
        // In the middle of a build: rows and ready indexes are as before it.
        model.verify(&snapshot, &table.unwrap());
    }
    for (table, index) in unfinished_indexes(&snapshot).unwrap() {
        // It may turn out not to be unique.
        let _ = finish_index(&db, &table, &index, |_| Ok(()));
    }
    let snapshot = db.snapshot().unwrap();
    assert!(unfinished_indexes(&snapshot).unwrap().is_empty());
    assert_eq!(pando_rows::check(&snapshot, |_| {}).unwrap().problems, []);
}

#[test]
fn an_index_never_disagrees_with_its_table() {
    let kinds = [
        ImageKind::Nothing,
        ImageKind::Everything,
        ImageKind::Prefix(1),
        ImageKind::DropOne(1),
        ImageKind::Torn512(1),
        ImageKind::RandomSubset(2),
    ];
    for_seeds(0..16, |random| {
        let disk = SimDisk::new();
        let history = work(&disk, random);
        let mut seen = std::collections::HashSet::new();
        let events = disk.event_count();
        for _ in 0..60 {
            let at = random.below(events as u64 + 1) as usize;
            for image in disk.images(at, &kinds, random) {
                if seen.insert(image.fingerprint()) {
                    verify(&image.restore(), &history, history.promised(at));
                }
            }
        }
    });
}
