//! A consumer in the shape of Debezium's: each change of a table becomes an event with `before` and `after`, in
//! batches, and the place moves after a batch was delivered. Here the events go to a list; a program would send them
//! elsewhere.
//!
//! Run it with `cargo run --example consume_changes`.

use pando::{Change, Consumer, Database, Operation, Result};
use std::collections::HashMap;
use std::time::Duration;

/// What is delivered for each record that changed.
#[derive(Debug, PartialEq, Eq)]
struct Event {
    commit: u64,
    table: String,
    key: Vec<u8>,
    before: Option<Vec<u8>>,
    after: Option<Vec<u8>>,
}

/// The newest values that were seen, by table and key: an event has the value before as well.
type Seen = HashMap<(String, Vec<u8>), Vec<u8>>;

fn events(change: &Change<'_>, seen: &mut Seen, batch: &mut Vec<Event>) -> Result<()> {
    let commit = change.commit_number();
    let mut operations = change.operations()?;
    while let Some(operation) = operations.next()? {
        let (table, key, after) = match operation {
            Operation::Put { table, key, value } => {
                (table.name().to_owned(), key.to_vec(), Some(value.to_vec()?))
            }
            Operation::Delete { table, key } => (table.name().to_owned(), key.to_vec(), None),
            // Tables as wholes, and ranges of keys, are not this consumer's business.
            _ => continue,
        };
        let place = (table.clone(), key.clone());
        let before = match &after {
            Some(value) => seen.insert(place, value.clone()),
            None => seen.remove(&place),
        };
        batch.push(Event { commit, table, key, before, after });
    }
    Ok(())
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

/// Changes some records, consumes the changes, and goes on after a restart.
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
    let values: Vec<_> = delivered.iter().map(|event| (shown(&event.before), shown(&event.after))).collect();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(values, [(None, text("7")), (text("7"), text("5")), (text("5"), None)]);
    println!("{delivered:#?}");
    drop((consumer, db));
    std::fs::remove_dir_all(&dir)
        .map_err(|cause| pando::Error::io("remove the example's directory", cause))?;
    Ok(())
}
