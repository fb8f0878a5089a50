//! Keyspace notifications, from the change feed of the database.
//!
//! A thread follows the feed while anybody listens. It decides under a lock that it ends, and not while a subscription
//! is being made, so that no subscription is left without it. For each key that a commit has changed there is one
//! event, whichever program made the commit: the name is that of the last command, which the header of the key has;
//! `del` or `expired` if the key was removed.

use crate::commands::call::Around;
use crate::layout::{self, EVENTS, HEADERS, Header};
use crate::tables::{DATABASES, table_name};
use pando::{Change, Changes, ChangesOptions, Database, Operation, Result};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often the thread looks whether it is still needed.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long the thread stays after the last listener has left.
const LINGER: Duration = Duration::from_secs(2);

/// The thread that follows the feed.
#[derive(Debug)]
pub struct Notifier {
    state: Arc<Mutex<State>>,
    is_ending: Arc<AtomicBool>,
    linger: Duration,
}

#[derive(Debug, Default)]
struct State {
    thread: Option<JoinHandle<()>>,
    /// Whether the thread has not decided to end.
    is_following: bool,
    /// The number of [`Following`]s.
    needed: usize,
}

/// Keeps the thread from ending, until this is dropped: a subscription is being made.
#[derive(Debug)]
pub struct Following<'n>(&'n Notifier);

impl Drop for Following<'_> {
    fn drop(&mut self) {
        locked(&self.0.state).needed -= 1;
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for Notifier {
    fn default() -> Self {
        Notifier { state: Arc::default(), is_ending: Arc::default(), linger: LINGER }
    }
}

impl Notifier {
    /// Makes sure that the feed is followed from now on. After the result was dropped, the thread ends when there is no
    /// listener.
    ///
    /// # Errors
    /// If the feed cannot be opened.
    pub fn start(&self, db: &Database, around: &Arc<Around>) -> Result<Following<'_>> {
        let mut state = locked(&self.state);
        // A thread that has panicked has decided nothing.
        if !state.is_following || state.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            state.thread = Some(self.follow(db, around)?);
            state.is_following = true;
        }
        state.needed += 1;
        Ok(Following(self))
    }

    /// Starts the thread.
    fn follow(&self, db: &Database, around: &Arc<Around>) -> Result<JoinHandle<()>> {
        let mut options = ChangesOptions::default().after(db.snapshot()?.commit_number());
        for database in 0..DATABASES {
            options = options.table(&table_name(database));
        }
        let changes = db.changes_with(options)?;
        let around = Arc::clone(around);
        let (state, is_ending, linger) = (Arc::clone(&self.state), Arc::clone(&self.is_ending), self.linger);
        let work = move || {
            let decides = |around: &Around| {
                let mut state = locked(&state);
                state.is_following = state.needed > 0 || around.hub.wants_changes();
                !state.is_following
            };
            if let Err(error) = follow(changes, &around, &is_ending, linger, decides) {
                locked(&state).is_following = false;
                tracing::error!(%error, "keyspace notifications ended; a new subscription starts them again");
            }
        };
        let thread = thread::Builder::new().name("pando-redis-notify".to_owned()).spawn(work);
        thread.map_err(|error| pando::Error::io("start a thread", error))
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
        let thread = locked(&self.state).thread.take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

/// Publishes changes until the door closes, or until there was no listener for `linger` and `decides` says that the
/// thread ends.
fn follow(
    mut changes: Changes,
    around: &Around,
    is_ending: &AtomicBool,
    linger: Duration,
    decides: impl Fn(&Around) -> bool,
) -> Result<()> {
    let mut needed_at = Instant::now();
    while !is_ending.load(Ordering::SeqCst) {
        if around.hub.wants_changes() {
            needed_at = Instant::now();
        } else if needed_at.elapsed() > linger && decides(around) {
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
    let committed_ms = change.time_ms();
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
                    && committed_ms.is_some_and(|committed_ms| moment <= committed_ms)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursors::Cursors;
    use crate::figures::Figures;
    use crate::layout::{Kind, header_key};
    use crate::pubsub::{Hub, Mailbox, Taken};
    use crate::room::Room;
    use crate::wire::reply::{Out, Protocol};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_thread_does_not_end_while_a_subscription_is_made() {
        let db = Database::builder().in_memory().unwrap();
        let around = Arc::new(Around {
            cursors: Cursors::default(),
            hub: Hub::default(),
            figures: Figures::new(Vec::new()),
            most_bytes: 1 << 20,
            replying: Room::new(1 << 20),
        });
        let notifier = Notifier { linger: Duration::ZERO, ..Notifier::default() };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mailbox = Arc::new(Mailbox::new(Arc::new(stream), Protocol::Resp2, &around.replying));
        let table = db.ensure_table(&table_name(0)).unwrap();
        for round in 1..=2 {
            let following = notifier.start(&db, &around).unwrap();
            // Time enough for the thread to end, if it could.
            thread::sleep(PATIENCE * 4);
            around.hub.subscribe(true, b"__keyspace@*", 1, &mailbox, Out::new(Protocol::Resp2));
            drop(following);
            let header = Header { version: round, ..Header::new(Kind::String, 0) };
            db.put(&table, header_key(b"k"), header.encode(b"v")).unwrap();
            let took: Vec<bool> =
                (0..2).map(|_| matches!(mailbox.take(Duration::from_secs(20)), Taken::Piece(_))).collect();
            assert_eq!(took, [true, true], "the confirmation and the message of round {round}");
            // Without a subscriber it ends, and the next round starts it again.
            around.hub.unsubscribe(true, b"__keyspace@*", 1);
            let until = Instant::now() + Duration::from_secs(20);
            while locked(&notifier.state).is_following {
                assert!(Instant::now() < until, "the thread does not end");
                thread::sleep(Duration::from_millis(5));
            }
        }
        notifier.stop();
    }
}
