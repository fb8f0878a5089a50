//! A cache of results that take long to compute. An entry expires a minute after it was stored, and the engine frees
//! its space by itself: nothing has to be cleaned up.
//!
//! Run it with `cargo run -p pando-db --example ttl_cache`.

use pando::{Clock, Database, Durability, Result, Table, TableOptions};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

struct Cache {
    db: Database,
    pages: Table,
    computed: u32,
}

impl Cache {
    /// Opens the cache in a database, and makes its table if it is missing.
    fn open(db: Database) -> Result<Self> {
        let options = TableOptions::default().ttl(Duration::from_secs(60));
        let pages = db.ensure_table_with("pages", &options)?;
        Ok(Cache { db, pages, computed: 0 })
    }

    /// Returns the page at `path` from the cache, or renders and stores it.
    fn page(&mut self, path: &str) -> Result<String> {
        if let Some(page) = self.db.get(&self.pages, path.as_bytes())? {
            return Ok(String::from_utf8_lossy(&page).into_owned());
        }
        self.computed += 1;
        let page = format!("<h1>{path}</h1>, rendered as number {}", self.computed);
        self.db.put(&self.pages, path.as_bytes(), page.as_bytes())?;
        Ok(page)
    }
}

/// Runs the example, and asserts what it shows.
pub fn main() -> Result<()> {
    // A program leaves out this clock, and entries expire by the system's. Here no minute has to pass.
    let (clock, hand) = Clock::set_by_hand(1_700_000_000_000);
    // Commits are lazy, as a cache may lose its last entries in a crash: no call waits for the disk.
    let db = Database::builder().durability(Durability::Lazy).clock(clock).in_memory()?;
    let mut cache = Cache::open(db.clone())?;

    println!("first:            {}", cache.page("/trees")?);
    println!("again:            {}", cache.page("/trees")?);
    assert_eq!(cache.computed, 1, "the second page came from the cache");

    hand.fetch_add(59_999, SeqCst);
    println!("a minute later, almost: {}", cache.page("/trees")?);
    assert_eq!(cache.computed, 1);

    hand.fetch_add(1, SeqCst);
    println!("a minute later:   {}", cache.page("/trees")?);
    assert_eq!(cache.computed, 2, "it had expired");

    // A longer time applies to the entries that are there, too.
    db.set_ttl("pages", Some(Duration::from_secs(3600)))?;
    cache.pages = db.ensure_table("pages")?;
    hand.fetch_add(60_000, SeqCst);
    println!("with an hour:     {}", cache.page("/trees")?);
    assert_eq!(cache.computed, 2);
    Ok(())
}
