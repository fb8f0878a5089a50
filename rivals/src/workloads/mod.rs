//! What is measured; one file each. A workload checks every answer, and at its end that everything is there.

mod batch;
mod bulk;
mod churn;
mod larger;
mod leaf;
mod people;
mod reads;
mod single;
mod sql_bulk;
mod sql_read;
mod sql_write;
mod ycsb;

use crate::engine::{Config, Durability, Engine, Outcome, Session, ensure};
use crate::engines;
use crate::measure::Row;
use crate::records::Records;
use crate::tables::Base;

/// What a workload is run with.
pub struct Job<'a> {
    pub engine: &'a dyn Engine,
    pub config: &'a Config,
    /// 1.0 is the documented size; smaller for a smoke run.
    pub scale: f64,
}

impl Job<'_> {
    /// `n` at this run's scale, at least `least`.
    fn scaled(&self, n: u64, least: u64) -> u64 {
        ((n as f64 * self.scale) as u64).max(least)
    }
}

/// What a workload of tables is run with.
pub struct TableJob<'a> {
    pub config: &'a Config,
    /// As a [`Job`]'s.
    pub scale: f64,
}

impl TableJob<'_> {
    /// As [`Job::scaled`].
    fn scaled(&self, n: u64, least: u64) -> u64 {
        ((n as f64 * self.scale) as u64).max(least)
    }
}

/// What a workload asks for.
#[derive(Clone, Copy)]
pub enum Work {
    /// A table of bytes.
    Bytes(fn(&Job<'_>) -> Outcome<Vec<Row>>),
    /// A database of tables.
    Tables(fn(&TableJob<'_>, &dyn Base) -> Outcome<Vec<Row>>),
}

/// A workload by name.
pub struct Workload {
    pub name: &'static str,
    /// In a line, with its sizes at scale 1.
    pub about: &'static str,
    /// The levels at which it is run.
    pub durabilities: &'static [Durability],
    /// Bytes of cache at scale 1, where this is not the run's to say.
    pub cache_bytes: Option<usize>,
    /// Bytes at scale 1 that a repetition has beside its cache, page cache included, where the kernel limits them.
    pub beside_bytes: Option<usize>,
    pub run: Work,
}

/// The least cache, and the least memory beside it, that every engine can work with.
const LEAST_CACHE_BYTES: usize = 8 << 20;
const LEAST_BESIDE_BYTES: usize = 64 << 20;

impl Workload {
    /// Returns the bytes of cache at `scale`, or `None` if the command chooses them.
    pub fn cache_bytes(&self, scale: f64) -> Option<usize> {
        self.cache_bytes.map(|bytes| ((bytes as f64 * scale) as usize).max(LEAST_CACHE_BYTES))
    }

    /// Returns the limit of a repetition's cgroup at `scale`, or `None` if it needs none.
    pub fn limit_bytes(&self, scale: f64) -> Option<u64> {
        let beside = ((self.beside_bytes? as f64 * scale) as usize).max(LEAST_BESIDE_BYTES);
        Some((self.cache_bytes(scale)? + beside) as u64)
    }

    /// Whether an engine has what it asks for.
    pub fn is_for(&self, engine: &str) -> bool {
        engines::named(engine).is_none_or(|entry| match self.run {
            Work::Bytes(_) => entry.open.is_some(),
            Work::Tables(_) => entry.open_tables.is_some(),
        })
    }
}

const BOTH: &[Durability] = &[Durability::Sync, Durability::Buffered];
const SYNC: &[Durability] = &[Durability::Sync];
const BUFFERED: &[Durability] = &[Durability::Buffered];

/// Every workload, in the order of the table.
pub const ALL: &[Workload] = &[
    Workload {
        name: "bulk",
        about: "1M random 8-byte keys and values, one transaction, inserts reject duplicates; gets; a scan",
        durabilities: SYNC,
        cache_bytes: None,
        beside_bytes: None,
        run: Work::Bytes(bulk::run),
    },
    Workload {
        name: "single",
        about: "a transaction an insert, 16-byte keys, 100-byte values: 200,000 buffered, 2,000 synced",
        durabilities: BOTH,
        cache_bytes: None,
        beside_bytes: None,
        run: Work::Bytes(single::run),
    },
    Workload {
        name: "batch100",
        about: "transactions of 100 ascending inserts, 1, 2, 4 and 8 writers with 1,000 each",
        durabilities: BOTH,
        cache_bytes: None,
        beside_bytes: None,
        run: Work::Bytes(batch::run),
    },
    Workload {
        name: "leaf-edit",
        about: "10,000 8-byte keys in one transaction, ascending and shuffled, in a new database",
        durabilities: SYNC,
        cache_bytes: None,
        beside_bytes: None,
        run: Work::Bytes(leaf::run),
    },
    Workload {
        name: "reads",
        about: "1M records of 16 + 1,008 bytes: load, begin + end, get, miss, full scan, ranges of 100",
        durabilities: SYNC,
        cache_bytes: None,
        beside_bytes: None,
        run: Work::Bytes(|job| reads::run(job, Records { key_bytes: 16, value_bytes: 1008 }, "reads")),
    },
    Workload {
        name: "reads-small",
        about: "the same with records of 24 + 150 bytes",
        durabilities: SYNC,
        cache_bytes: None,
        beside_bytes: None,
        run: Work::Bytes(|job| reads::run(job, Records { key_bytes: 24, value_bytes: 150 }, "reads-small")),
    },
    Workload {
        name: "ycsb",
        about: "YCSB A-F, 500,000 records of 1 KiB, zipfian 0.99, 2 threads, 200,000 operations each",
        durabilities: BUFFERED,
        cache_bytes: None,
        beside_bytes: None,
        run: Work::Bytes(ycsb::run),
    },
    Workload {
        name: "delete-churn",
        about: "200,000 records of 16 + 100 bytes; 20 rounds that delete and insert 20% in batches of 100",
        durabilities: BUFFERED,
        cache_bytes: None,
        beside_bytes: None,
        run: Work::Bytes(churn::run),
    },
    Workload {
        name: "larger",
        about: "4M records of 16 + 320 bytes, random keys, caches of 64 MiB, a twentieth: load, get, miss",
        durabilities: BUFFERED,
        cache_bytes: Some(larger::CACHE_BYTES),
        beside_bytes: None,
        run: Work::Bytes(|job| larger::run(job, "larger")),
    },
    Workload {
        name: "larger-cgroup",
        about: "what `larger` does, in a memory cgroup of 64 + 192 MiB, page cache included (Linux, as root)",
        durabilities: BUFFERED,
        cache_bytes: Some(larger::CACHE_BYTES),
        beside_bytes: Some(larger::BESIDE_BYTES),
        run: Work::Bytes(|job| larger::run(job, "larger-cgroup")),
    },
    Workload {
        name: "sql-write",
        about: "1M random ids in one transaction, and each in its own; 1,000 transactions of 100 rows \
                by each of 1, 2, 4 and 8 writers, over a connection a thread, and a new one for each",
        durabilities: BOTH,
        cache_bytes: None,
        beside_bytes: None,
        run: Work::Tables(sql_write::run),
    },
    Workload {
        name: "sql-read",
        about: "1M people with two indexes and 10,000 towns, a transaction a query",
        durabilities: SYNC,
        cache_bytes: None,
        beside_bytes: None,
        run: Work::Tables(sql_read::run),
    },
    Workload {
        name: "sql-bulk",
        about: "statements over 200,000 people with two indexes: scans, joins, changes of many rows",
        durabilities: SYNC,
        cache_bytes: None,
        beside_bytes: None,
        run: Work::Tables(sql_bulk::run),
    },
];

/// The workload of this name.
pub fn named(name: &str) -> Option<&'static Workload> {
    ALL.iter().find(|workload| workload.name == name)
}

/// Everything that is there is what `expect` says, in ascending order, `n` records of it.
fn verify(session: &mut dyn Session, n: u64, expect: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Outcome<()> {
    let (mut last, mut wrong, mut seen) = (Vec::new(), None, 0u64);
    session.read(&mut |reader| {
        seen = reader.scan(&[], usize::MAX, &mut |key, value| {
            if wrong.is_none() && (!(last.is_empty() || last[..] < *key) || !expect(key, value)) {
                wrong = Some(key.to_vec());
            }
            last.clear();
            last.extend_from_slice(key);
        })? as u64;
        Ok(())
    })?;
    ensure(wrong.is_none(), || format!("key {wrong:02x?} is out of order or has a wrong value"))?;
    ensure(seen == n, || format!("{seen} records instead of {n}"))
}

/// [`verify`] for records `0..n` of `records` in their first version.
fn verify_records(session: &mut dyn Session, records: Records, n: u64) -> Outcome<()> {
    let (mut wanted_key, mut wanted_value) = (Vec::new(), Vec::new());
    verify(session, n, &mut |key, value| {
        let number = value.first_chunk().map_or(u64::MAX, |bytes| u64::from_be_bytes(*bytes));
        records.key(number, &mut wanted_key);
        records.value(number, 0, &mut wanted_value);
        number < n && key == wanted_key && value == wanted_value
    })
}

/// Loads records `0..n`, whose keys come at random, in transactions of 1,000.
fn load(session: &mut dyn Session, records: Records, n: u64) -> Outcome<()> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let mut next = 0;
    while next < n {
        let end = (next + 1000).min(n);
        session.write(&mut |tx| {
            for i in next..end {
                records.key(i, &mut key);
                records.value(i, 0, &mut value);
                tx.put(&key, &value)?;
            }
            Ok(())
        })?;
        next = end;
    }
    Ok(())
}
