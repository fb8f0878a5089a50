//! Keyspace notifications, from the change feed of the database.
//!
//! A thread follows the feed while anybody listens. For each key that a commit has changed there is one event,
//! whichever program made the commit: the name is that of the last command, which the header of the key has; `del` or
//! `expired` if the key was removed.

use crate::commands::call::Around;
use crate::layout::{self, EVENTS, HEADERS, Header};
use crate::tables::{DATABASES, table_name};
use pando::{Change, Changes, ChangesOptions, Database, Operation, Result};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often the thread looks whether it is still needed.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long the thread stays after the last listener has left.
const LINGER: Duration = Duration::from_secs(2);

/// The thread that follows the feed.
#[derive(Debug, Default)]
pub struct Notifier {
    running: Mutex<Option<JoinHandle<()>>>,
    is_ending: Arc<AtomicBool>,
}

impl Notifier {
    /// Makes sure that the feed is followed from now on.
    ///
    /// # Errors
    /// If the feed cannot be opened.
    pub fn start(&self, db: &Database, around: &Arc<Around>) -> Result<()> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Ok(());
        }
        let mut options = ChangesOptions::default().after(db.snapshot()?.commit_number());
        for database in 0..DATABASES {
            options = options.table(&table_name(database));
        }
        let changes = db.changes_with(options)?;
        let (around, is_ending) = (Arc::clone(around), Arc::clone(&self.is_ending));
        let work = move || {
            if let Err(error) = follow(changes, &around, &is_ending) {
                tracing::error!(%error, "keyspace notifications ended; a new subscription starts them again");
            }
        };
        let thread = thread::Builder::new().name("pando-redis-notify".to_owned()).spawn(work);
        *running = Some(thread.map_err(|error| pando::Error::io("start a thread", error))?);
        Ok(())
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = running {
            let _ = thread.join();
        }
    }
}

fn follow(mut changes: Changes, around: &Around, is_ending: &AtomicBool) -> Result<()> {
    let mut needed_at = Instant::now();
    while !is_ending.load(Ordering::SeqCst) {
        if around.hub.wants_changes() {
            needed_at = Instant::now();
        } else if needed_at.elapsed() > LINGER {
            break;
        }
        if let Some(change) = changes.wait(PATIENCE)? {
            for event in events(&change)? {
                event.publish(around);
            }
        }
    }
    Ok(())
}

struct Event {
    database: usize,
    name: &'static str,
    key: Vec<u8>,
}

impl Event {
    fn publish(&self, around: &Around) {
        let Event { database, name, key } = self;
        let about_key = [format!("__keyspace@{database}__:").as_bytes(), key].concat();
        let about_event = format!("__keyevent@{database}__:{name}");
        let (_, lost) = around.hub.publish(&about_key, name.as_bytes());
        let (_, lost_too) = around.hub.publish(about_event.as_bytes(), key);
        // Relaxed: this is a counter.
        around.figures.overflowed.fetch_add(lost + lost_too, Ordering::Relaxed);
    }
}

fn database_of(table: &str) -> Option<usize> {
    table.strip_prefix("redis-")?.parse().ok().filter(|&database| database < DATABASES)
}

fn events(change: &Change<'_>) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    let mut expired: HashSet<(usize, Vec<u8>)> = HashSet::new();
    let now_ms = change.time_ms();
    let mut operations = change.operations()?;
    while let Some(operation) = operations.next()? {
        match operation {
            Operation::Put { table, key, value } if key.first() == Some(&HEADERS) => {
                let Some(database) = database_of(table.name()) else { continue };
                let Ok(header) = Header::decode(&value.to_vec()?) else { continue };
                let name = EVENTS.get(usize::from(header.event)).copied().unwrap_or("set");
                events.push(Event { database, name, key: key[1..].to_vec() });
            }
            Operation::Delete { table, key } => {
                let Some(database) = database_of(table.name()) else { continue };
                if key.first() == Some(&HEADERS) {
                    events.push(Event { database, name: "del", key: key[1..].to_vec() });
                } else if let Some((moment, key)) = layout::parse_expiry_key(key)
                    && moment <= now_ms
                {
                    expired.insert((database, key.to_vec()));
                }
            }
            _ => {}
        }
    }
    for event in &mut events {
        if event.name == "del" && expired.contains(&(event.database, event.key.clone())) {
            event.name = "expired";
        }
    }
    Ok(events)
}
