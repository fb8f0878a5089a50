//! A consumer in the shape of Debezium's: each change of a record becomes an event with `op`, `before`, `after`,
//! `ts_ms` and `source`. Events are delivered in batches, and the consumer's position moves after a batch was
//! delivered, so that a batch can come a second time after a crash, and none is lost. Here the events go to a list; a
//! program would send them elsewhere.
//!
//! Run it with `cargo run --example consume_changes`.

use pando::{Change, Consumer, Database, Operation, Result};
use std::collections::HashMap;
use std::time::{Duration, SystemTime};

/// What is delivered for each record that changed, with the names of Debezium's fields.
#[derive(Debug, PartialEq, Eq)]
struct Event {
    /// `c`: created, `u`: updated, `d`: deleted.
    op: char,
    /// The value before, if this consumer has seen it: as with Debezium, it does not come from the log.
    before: Option<Vec<u8>>,
    after: Option<Vec<u8>>,
    /// When the event was made, in milliseconds since 1970.
    ts_ms: u64,
    source: Source,
}

/// Where a change comes from. Events of one database are in the order of `commit` and `number`, which name each once.
#[derive(Debug, PartialEq, Eq)]
struct Source {
    connector: &'static str,
    table: String,
    key: Vec<u8>,
    commit: u64,
    /// The number of the operation within its commit.
    number: u64,
    /// When the transaction was committed, in milliseconds since 1970, if that is known.
    ts_ms: Option<u64>,
}

/// The newest values that were seen, by table and key.
type Seen = HashMap<(String, Vec<u8>), Vec<u8>>;

fn events(change: &Change<'_>, seen: &mut Seen, batch: &mut Vec<Event>) -> Result<()> {
    let (mut operations, mut number) = (change.operations()?, 0);
    while let Some(operation) = operations.next()? {
        number += 1;
        let (table, key, after) = match operation {
            Operation::Put { table, key, value } => (table, key.to_vec(), Some(value.to_vec()?)),
            Operation::Delete { table, key } => (table, key.to_vec(), None),
            // Tables as wholes, and ranges of keys, are not this consumer's business.
            _ => continue,
        };
        let place = (table.name().to_owned(), key.clone());
        let before = match &after {
            Some(value) => seen.insert(place, value.clone()),
            None => seen.remove(&place),
        };
        let op = match (&before, &after) {
            (_, None) => 'd',
            (None, _) => 'c',
            (Some(_), _) => 'u',
        };
        let source = Source {
            connector: "pando",
            table: table.name().to_owned(),
            key,
            commit: change.commit_number(),
            number,
            ts_ms: change.time_ms(),
        };
        batch.push(Event { op, before, after, ts_ms: now_ms(), source });
    }
    Ok(())
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}

/// Delivers what there is, and acknowledges it at once.
fn consume(consumer: &mut Consumer, seen: &mut Seen, deliver: &mut Vec<Event>) -> Result<()> {
    let mut changes = consumer.changes()?;
    let (mut batch, mut last) = (Vec::new(), None);
    while let Some(change) = changes.wait(Duration::from_millis(1))? {
        events(&change, seen, &mut batch)?;
        last = Some(change.commit_number());
    }
    deliver.append(&mut batch);
    last.map_or(Ok(()), |last| consumer.acknowledge(last))
}

/// Changes some records, consumes the changes, and continues after a restart.
pub fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("pando-consume-{}", std::process::id()));
    let (mut seen, mut delivered) = (Seen::new(), Vec::new());
    {
        let db = Database::create(&dir)?;
        let stock = db.ensure_table("stock")?;
        let mut consumer = db.consumer("warehouse")?;
        db.put(&stock, b"apples", b"7")?;
        db.put(&stock, b"apples", b"5")?;
        consume(&mut consumer, &mut seen, &mut delivered)?;
        // Not consumed before the program ends.
        db.delete(&stock, b"apples")?;
    }
    let db = Database::open(&dir)?;
    let mut consumer = db.consumer("warehouse")?;
    consume(&mut consumer, &mut seen, &mut delivered)?;
    let shown =
        |value: &Option<Vec<u8>>| value.as_deref().map(|value| String::from_utf8_lossy(value).into_owned());
    let values: Vec<_> =
        delivered.iter().map(|event| (event.op, shown(&event.before), shown(&event.after))).collect();
    let text = |text: &str| Some(text.to_owned());
    let expected = [('c', None, text("7")), ('u', text("7"), text("5")), ('d', text("5"), None)];
    assert_eq!(values, expected);
    // The database's time never goes back, and the machine's may.
    let is_after = |event: &Event| event.source.ts_ms.is_some_and(|ts_ms| ts_ms <= event.ts_ms + 60_000);
    assert!(delivered.iter().all(|event| event.source.table == "stock" && is_after(event)));
    assert!(delivered.is_sorted_by_key(|event| (event.source.commit, event.source.number)));
    println!("{delivered:#?}");
    drop((consumer, db));
    std::fs::remove_dir_all(&dir)
        .map_err(|cause| pando::Error::io("remove the example's directory", cause))?;
    Ok(())
}
