//! Directories damaged at random: nothing wrong comes out, and all that is readable does.
//!
//! `PANDO_SEEDS` says how many databases are damaged, each in four ways (8), `PANDO_FIRST_SEED` where to begin (0).
//! Each seed makes a database with a history, damages its files, and holds what is salvaged against the history:
//!
//! 1. what is certain is the state as of the commit that the report names, less what it lists as lost;
//! 2. what is uncertain was committed once;
//! 3. of every leaf that is as it was, every record comes out that the log did not change. (Where a run that a commit
//!    attached is damaged, the log is not followed beyond that commit: histories with such runs are held against the
//!    first two alone.)

use base::env::Random;
use base::{DatabaseId, ErrorKind, PagePtr, Result, TableId};
use io::{Dir, MemDir};
use page::{Kind, Page, Value};
use pando_store::salvage::{Report, Sink, StoredOptions, Trust, salvage};
use pando_store::superblock::Superblock;
use pando_store::tables::{Row, table_of_key};
use pando_store::{Compression, Options, RequestedLayout, Span, Store, Transaction, TransactionOptions};
use run::{Delta, Pieces};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const UNIT: usize = 4096;

pub type Files = BTreeMap<String, Vec<u8>>;
pub type Records = BTreeMap<Vec<u8>, Vec<u8>>;
type Record = (Vec<u8>, Vec<u8>);
/// By table.
pub type State = BTreeMap<String, Records>;

/// A database that was alive.
struct History {
    /// The state after each commit.
    states: Vec<State>,
    /// All that was ever committed, by the names that salvage may give the table.
    committed: BTreeMap<String, BTreeSet<Record>>,
    names: BTreeMap<TableId, String>,
    /// The files at its end, and at its checkpoints.
    files: Files,
    older: Vec<Files>,
    /// Whether transactions spill, so that runs are attached.
    spills: bool,
    /// Whether table `b` is a compressed one.
    compresses: bool,
}

impl History {
    fn make(random: &mut Random, spills: bool) -> Result<History> {
        let dir = MemDir::new();
        let page_bytes = if random.chance(1, 2) { 8192 << random.below(2) } else { UNIT };
        let options = Options {
            page_bytes: Some(page_bytes),
            memory_bytes: 4 << 20,
            max_segment_bytes: 16 << 10,
            // Large enough that nothing is spilled but where it is asked for.
            write_set_bytes: Some(8 << 20),
            ..Options::default()
        };
        let store = pando_store::open_or_create(Arc::new(dir.clone()), &options)?;
        let mut history = History {
            states: vec![State::new()],
            committed: BTreeMap::new(),
            names: BTreeMap::new(),
            files: Files::new(),
            older: Vec::new(),
            spills,
            compresses: page_bytes > UNIT,
        };
        for _ in 0..3 + random.below(4) {
            for _ in 0..3 + random.below(8) {
                history.commit(&store, random)?;
            }
            store.checkpoint()?;
            history.older.push(dir.files());
        }
        for _ in 0..random.below(8) {
            history.commit(&store, random)?;
        }
        if random.chance(1, 2) {
            store.close()?;
        }
        history.files = dir.files();
        Ok(history)
    }

    fn commit(&mut self, store: &Arc<Store>, random: &mut Random) -> Result<()> {
        let mut state = self.states.last().unwrap().clone();
        let mut tx = Transaction::begin(store, TransactionOptions::default())?;
        let name = ["a", "b", "c"][random.below(3) as usize];
        let table = match tx.table(name)? {
            Some(table) if name == "c" && random.chance(1, 4) => {
                tx.drop_table(&table)?;
                state.remove(name);
                None
            }
            Some(table) => Some(table),
            None if name == "b" && self.compresses => {
                Some(tx.create_table_with(name, RequestedLayout::Lsm, None, Compression::Lz4)?)
            }
            None => Some(tx.create_table(name, RequestedLayout::BTree)?),
        };
        if let Some(table) = &table {
            self.names.insert(table.id(), name.to_owned());
            let records = state.entry(name.to_owned()).or_default();
            if random.chance(1, 8) {
                let low = random.below(3000) as u32;
                let (low, high) = (low.to_be_bytes(), (low + 150).to_be_bytes());
                tx.delete_range(table, &Span::from(&low[..]..&high[..]))?;
                records.retain(|key, _| key[..] < low[..] || key[..] >= high[..]);
            }
            let first = random.below(3000) as u32;
            for n in 0..random.below(400) as u32 {
                let key = (first + n * (1 + random.below(3) as u32)).to_be_bytes().to_vec();
                if random.chance(1, 6) {
                    tx.delete(table, &key)?;
                    records.remove(&key);
                    continue;
                }
                if self.spills && random.chance(1, 150) {
                    tx.spill()?;
                }
                let len = match random.below(3000) {
                    0 => (1 << 20) + random.below(1 << 19),
                    1..50 => 5000 + random.below(9000),
                    _ => random.below(60),
                };
                let value = vec![random.below(256) as u8; len as usize];
                tx.put(table, &key, &value)?;
                for alias in [name.to_owned(), format!("table-{}", table.id().0)] {
                    self.committed.entry(alias).or_default().insert((key.clone(), value.clone()));
                }
                records.insert(key, value);
            }
        }
        let applied = tx.apply()?;
        let ts = store.acknowledge(applied)?;
        if ts.0 as usize == self.states.len() {
            self.states.push(state);
        }
        Ok(())
    }
}

/// What salvage exports.
#[derive(Default)]
pub struct Taken {
    pub certain: State,
    pub uncertain: State,
}

impl Sink for Taken {
    fn begin(&mut self, _page_bytes: Option<usize>) -> Result<()> {
        Ok(())
    }

    fn table(&mut self, table: &str, _options: &StoredOptions) -> Result<()> {
        self.certain.entry(table.to_owned()).or_default();
        Ok(())
    }

    fn record(&mut self, trust: Trust, table: &str, key: &[u8], value: &[u8]) -> Result<()> {
        let state = if trust == Trust::Certain { &mut self.certain } else { &mut self.uncertain };
        let records = state.entry(table.to_owned()).or_default();
        assert!(records.last_key_value().is_none_or(|(last, _)| last[..] < *key), "keys ascend");
        records.insert(key.to_vec(), value.to_vec());
        Ok(())
    }
}

/// A record of the newest trees, and the units that hold it.
struct Placed {
    table: TableId,
    key: Vec<u8>,
    value: Vec<u8>,
    units: Vec<PagePtr>,
}

/// Every record that the trees of whole files hold.
fn placed(data: &[u8], superblock: &Superblock) -> Vec<Placed> {
    fn below(
        data: &[u8],
        (database, page_bytes): (DatabaseId, usize),
        ptr: PagePtr,
        table: TableId,
        out: &mut Vec<(TableId, Record, Vec<PagePtr>)>,
    ) {
        let at = |ptr: PagePtr, len: usize| &data[ptr.offset_bytes() as usize..][..len];
        let mut whole = vec![0; page_bytes];
        let stored = at(ptr, ptr.len_bytes());
        let page = match stored.len() < page_bytes {
            true => Page::decompress(stored, ptr, database, &mut whole).unwrap(),
            false => Page::verify(stored, ptr, database).unwrap(),
        };
        assert_eq!(page.table(), Some(table), "every page of a tree names its table");
        let mut key = Vec::new();
        for i in 0..page.count() {
            if page.kind() == Kind::Inner {
                below(data, (database, page_bytes), page.child(i), table, out);
                continue;
            }
            page.copy_key(i, &mut key);
            match page.value(i) {
                Value::Inline(value) => out.push((table, (key.clone(), value.to_vec()), vec![ptr])),
                Value::Large(large) => {
                    let file =
                        MemDir::from(Files::from([("data".to_owned(), data.to_vec())])).open("data").unwrap();
                    let pieces = Pieces::find(&*file, database, large.reference()).unwrap();
                    let skipped = pieces.extents().count() - pieces.count();
                    let parts = pieces.parts().skip(skipped);
                    let value = parts.flat_map(|(ptr, len)| at(ptr, len as usize).to_vec()).collect();
                    let units = [ptr].into_iter().chain(pieces.extents()).collect();
                    out.push((table, (key.clone(), value), units));
                }
                Value::Deleted => {}
            }
        }
    }
    let of = (superblock.database, superblock.page_bytes);
    let (mut rows, mut found) = (Vec::new(), Vec::new());
    if let Some(root) = superblock.physical.root {
        below(data, of, root, TableId::PHYSICAL, &mut rows);
    }
    for (_, (key, value), _) in rows {
        let table = table_of_key(&key).unwrap();
        let before = key.get(4).map_or(0, |&at| usize::from(at));
        let run = match Row::decode(&key, &value, before).unwrap() {
            (_, Row::BTree(run)) => run,
            (_, Row::Stacked(_, delta)) => Delta::runs(&delta).unwrap()[0],
        };
        if let Some(root) = run.root {
            below(data, of, root, table, &mut found);
        }
    }
    found.into_iter().map(|(table, (key, value), units)| Placed { table, key, value, units }).collect()
}

/// Damages the files in one way; says how.
fn damage(files: &mut Files, history: &History, random: &mut Random) -> String {
    let names: Vec<String> = files.keys().cloned().collect();
    let name = match random.chance(2, 3) {
        true => "data".to_owned(),
        false => names[random.below(names.len() as u64) as usize].clone(),
    };
    let Some(bytes) = files.get_mut(&name).filter(|bytes| !bytes.is_empty()) else { return "nothing".into() };
    let units = bytes.len().div_ceil(UNIT) as u64;
    let unit = |n: u64, len: usize| (n as usize * UNIT)..len.min((n as usize + 1) * UNIT);
    let (at, other) = (random.below(units), random.below(units));
    let len = bytes.len();
    match random.below(9) {
        0 | 1 => {
            let bit = random.below(len as u64 * 8);
            bytes[bit as usize / 8] ^= 1 << (bit % 8);
            format!("bit {bit} of {name} flipped")
        }
        2 => {
            bytes[unit(at, len)].fill(0);
            format!("unit {at} of {name} zeroed")
        }
        3 => {
            let (one, two) = (bytes[unit(at, len)].to_vec(), bytes[unit(other, len)].to_vec());
            if one.len() == two.len() {
                bytes[unit(at, len)].copy_from_slice(&two);
                bytes[unit(other, len)].copy_from_slice(&one);
            }
            format!("units {at} and {other} of {name} swapped")
        }
        4 => {
            let cut = random.below(len as u64);
            bytes.truncate(cut as usize);
            format!("{name} cut to {cut} bytes")
        }
        5 if random.chance(1, 2) => {
            files.remove(&name);
            format!("{name} removed")
        }
        5 | 6 => {
            let slots = 1 + random.below(3);
            let Some(data) = files.get_mut("data") else { return "nothing".into() };
            for slot in (0..2).filter(|slot| slots >> slot & 1 == 1) {
                let range = unit(slot, data.len());
                if range.start < range.end {
                    data[range].iter_mut().for_each(|byte| *byte = random.below(256) as u8);
                }
            }
            format!("superblocks overwritten: {slots:02b}")
        }
        7 => {
            let (from, len) = (random.below(len as u64) as usize, 1 + random.below(300) as usize);
            bytes.iter_mut().skip(from).take(len).for_each(|byte| *byte = random.below(256) as u8);
            format!("{len} bytes from {from} of {name} overwritten")
        }
        _ => {
            // What a lost write leaves.
            let older = &history.older[random.below(history.older.len() as u64) as usize];
            if let Some(old) = older.get(&name).and_then(|old| old.get(unit(at, old.len()))) {
                let end = (at as usize * UNIT + old.len()).min(len);
                bytes[at as usize * UNIT..end].copy_from_slice(&old[..end - at as usize * UNIT]);
            }
            format!("unit {at} of {name} set back")
        }
    }
}

/// Rule 1.
fn check_certain(history: &History, taken: &Taken, report: &Report) {
    let Some(commit) = report.commit else {
        return assert!(taken.certain.values().all(BTreeMap::is_empty), "nothing can be certain");
    };
    let state = &history.states[commit as usize];
    for (table, records) in &taken.certain {
        let real = state.get(table).unwrap_or_else(|| panic!("{table} was no table as of commit {commit}"));
        for (key, value) in records {
            assert!(real.get(key) == Some(value), "{table}: {key:?} was not that as of commit {commit}");
        }
    }
    for (table, real) in state {
        let Some(found) =
            report.tables.iter().find(|found| found.name == *table && taken.certain.contains_key(table))
        else {
            assert!(!report.damage.is_empty(), "{table} is missing without a word");
            continue;
        };
        for key in real.keys().filter(|key| !taken.certain[table].contains_key(*key)) {
            assert!(
                found.lost.iter().any(|lost| lost.covers(key)),
                "{table}: {key:?} is missing without a word"
            );
        }
    }
}

/// Rule 2.
fn check_uncertain(history: &History, taken: &Taken) {
    for (table, records) in &taken.uncertain {
        let committed = history.committed.get(table).unwrap_or_else(|| panic!("{table} never was a table"));
        for (key, value) in records {
            let known = committed.contains(&(key.clone(), value.clone()));
            assert!(known, "{table}: {key:?} never had this value of {} bytes", value.len());
        }
    }
}

/// Rule 3.
fn check_complete(history: &History, taken: &Taken, files: &Files, placed: &[Placed]) {
    let (clean, Some(now)) = (&history.files["data"], files.get("data")) else { return };
    let last = history.states.last().unwrap();
    let same = |ptr: &PagePtr| {
        let range = ptr.offset_bytes() as usize..ptr.offset_bytes() as usize + ptr.len_bytes();
        now.get(range.clone()).is_some_and(|now| *now == clean[range])
    };
    for Placed { table, key, value, units } in placed {
        if *table < TableId::FIRST_USER || !units.iter().all(same) {
            continue;
        }
        let name = &history.names[table];
        if last.get(name).and_then(|records| records.get(key)) != Some(value) {
            continue; // The log changed it, or dropped the table.
        }
        let alias = format!("table-{}", table.0);
        let states = [&taken.certain, &taken.uncertain];
        let found = states.iter().flat_map(|state| [state.get(name), state.get(&alias)]).flatten();
        assert!(found.into_iter().any(|records| records.contains_key(key)), "{name}: {key:?} was readable");
    }
}

fn one_way(seed: u64) {
    let mut random = Random::seeded(seed);
    let history = History::make(&mut random, seed % 3 == 2).unwrap();
    let data = MemDir::from(history.files.clone()).open("data").unwrap();
    let superblock = Superblock::read(&*data).unwrap();
    let placed = placed(&history.files["data"], &superblock);
    for _ in 0..4 {
        let mut files = history.files.clone();
        let how: Vec<String> =
            (0..1 + random.below(4)).map(|_| damage(&mut files, &history, &mut random)).collect();
        println!("  {}", how.join("; "));
        let dir = MemDir::from(files.clone());
        let mut taken = Taken::default();
        let result = salvage(Arc::new(dir.clone()), &mut taken);
        assert!(dir.files() == files, "salvage wrote to the directory");
        match result {
            Ok(report) => {
                check_certain(&history, &taken, &report);
                check_uncertain(&history, &taken);
                if !history.spills {
                    check_complete(&history, &taken, &files, &placed);
                }
            }
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::Foreign | ErrorKind::Missing), "{error}");
                let whole = |name: &str, len: usize| {
                    let (now, clean) = (files.get(name), &history.files[name]);
                    now.is_some_and(|now| now.get(..len) == clean.get(..len))
                };
                let headers = history.files.keys().filter(|name| name.starts_with("log-"));
                assert!(
                    !whole("data", 2 * UNIT) && !headers.into_iter().any(|name| whole(name, 96)),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn damaged_in_many_ways() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (first, count) = (number("PANDO_FIRST_SEED", 0), number("PANDO_SEEDS", 8));
    for seed in first..first + count {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| one_way(seed))) {
            println!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// One loss lies among the keys of another here; what was readable behind the inner one came out nowhere.
#[test]
fn losses_that_overlap() {
    one_way(115);
}

#[test]
fn whole_directories_come_out_whole() {
    for seed in 0..10 {
        let history = History::make(&mut Random::seeded(seed), seed % 2 == 1).unwrap();
        let mut taken = Taken::default();
        let report = salvage(Arc::new(MemDir::from(history.files.clone())), &mut taken).unwrap();
        assert!(report.is_complete(), "seed {seed}: {report:?}");
        assert!(
            taken.certain == *history.states.last().unwrap() && taken.uncertain.is_empty(),
            "seed {seed}"
        );
        assert_eq!(report.scanned_leaves, None, "nothing was missing");
    }
}
