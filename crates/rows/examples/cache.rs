//! A cache: values that were dear to compute, each with a time at which it is stale, and no more bytes than allowed.
//!
//! * The index `by_expiry` has the entries in the order in which they go stale: cleaning up reads those alone.
//! * The index `by_use` has them from the least to the most recently used: making room takes from its beginning.
//! * Commits are lazy: a cache may lose the last moments, so nobody waits for the disk.

use pando::{Database, Durability, Result, Transaction};
use pando_rows::{Row, Table, Timestamp};

#[derive(Row, Clone, Debug, PartialEq)]
#[row(table = "cache", index(by_expiry = "expires"), index(by_use = "used"))]
struct Entry {
    #[row(key)]
    key: String,
    value: Vec<u8>,
    expires: Timestamp,
    used: Timestamp,
}

struct Cache {
    db: Database,
    entries: Table<Entry>,
    most: usize,
}

impl Cache {
    fn get(&self, key: &str, now: Timestamp) -> Result<Option<Vec<u8>>> {
        self.db.write(|tx| {
            let Some(entry) = self.entries.get(tx, key)?.filter(|entry| entry.expires > now) else {
                return Ok(None);
            };
            let entry = Entry { used: now, ..entry };
            self.entries.update(tx, &entry)?;
            Ok(Some(entry.value))
        })
    }

    fn put(&self, key: &str, value: &[u8], now: Timestamp, lives_micros: i64) -> Result<()> {
        let expires = Timestamp { micros: now.micros + lives_micros };
        let entry = Entry { key: key.into(), value: value.into(), expires, used: now };
        self.db.write(|tx| {
            self.entries.upsert(tx, &entry)?;
            self.clean(tx, now)
        })
    }

    /// Removes what is stale, then what was not used for longest.
    fn clean(&self, tx: &mut Transaction, now: Timestamp) -> Result<()> {
        loop {
            let first = self.entries.by_index(tx, "by_expiry", ())?.next().transpose()?;
            let Some(stale) = first.filter(|entry| entry.expires <= now) else { break };
            self.entries.delete(tx, &stale.key)?;
        }
        let count = self.entries.range(tx, ..)?.count();
        for _ in self.most..count {
            let unused = self.entries.by_index(tx, "by_use", ())?.next().transpose()?;
            self.entries.delete(tx, &unused.expect("there are more than allowed").key)?;
        }
        Ok(())
    }
}

/// Runs the recipe, and asserts what it shows.
pub fn main() -> Result<()> {
    let db = Database::builder().durability(Durability::Lazy).in_memory()?;
    let entries = Table::ensure(&db)?;
    let cache = Cache { db, entries, most: 3 };
    let at = |micros: i64| Timestamp { micros };
    cache.put("a", b"1", at(0), 100)?;
    cache.put("b", b"2", at(1), 1000)?;
    cache.put("c", b"3", at(2), 1000)?;
    assert_eq!(cache.get("a", at(50))?, Some(b"1".to_vec()));
    cache.put("d", b"4", at(60), 1000)?;
    assert_eq!(cache.get("b", at(61))?, None, "it was not used for longest");
    assert_eq!(cache.get("a", at(100))?, None, "it is stale");
    cache.put("e", b"5", at(101), 1000)?;
    let left: Vec<String> = {
        let snapshot = cache.db.snapshot()?;
        cache.entries.range(&snapshot, ..)?.map(|entry| Ok(entry?.key)).collect::<Result<_>>()?
    };
    assert_eq!(left, ["c", "d", "e"]);
    println!("{left:?} are left");
    Ok(())
}
