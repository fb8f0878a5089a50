//! A door: the listener, the connections, and their end.

use crate::commands::COMMANDS;
use crate::commands::call::Around;
use crate::commit::Committer;
use crate::cursors::Cursors;
use crate::figures::{Figures, write_plain};
use crate::host::{Host, Options};
use crate::layout;
use crate::notify::Notifier;
use crate::pubsub::Hub;
use crate::room::Room;
use crate::session::Session;
use crate::shared::Shared;
use crate::tables::{DATABASES, Slot};
use pando::{Error, Result};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl};
use std::collections::HashMap;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long the connection of a client that does not read stays open.
const WRITE_PATIENCE: Duration = Duration::from_secs(60);
/// How long a connection is quiet before the system asks the other machine whether it is still there.
const QUIET: Duration = Duration::from_secs(60);
/// The stack of the thread of a connection.
const STACK_BYTES: usize = 512 << 10;
/// The time between two sweeps of expired keys.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

type Streams = Mutex<HashMap<u64, Arc<TcpStream>>>;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves clients of Redis at an address, from [`Door::open`] until [`Door::close`].
///
/// ```
/// use pando_resp::{Door, Host, Options, Permission};
/// use std::io::{Read, Write};
/// use std::sync::Arc;
///
/// #[derive(Debug)]
/// struct Open(pando::Database);
///
/// impl Host for Open {
///     fn database(&self) -> &pando::Database {
///         &self.0
///     }
///     fn needs_token(&self) -> bool {
///         false
///     }
///     fn permission(&self, _token: &[u8]) -> Permission {
///         Permission::Nothing
///     }
/// }
///
/// # fn main() -> pando::Result<()> {
/// let host = Arc::new(Open(pando::Database::builder().in_memory()?));
/// let options = Options { listen: ([127, 0, 0, 1], 0).into(), ..Options::default() };
/// let door = Door::open(host, options)?;
/// let mut client = std::net::TcpStream::connect(door.address()).unwrap();
/// client.write_all(b"SET fruit apple\r\nGET fruit\r\nQUIT\r\n").unwrap();
/// let mut replies = String::new();
/// client.read_to_string(&mut replies).unwrap();
/// assert_eq!(replies, "+OK\r\n$5\r\napple\r\n+OK\r\n");
/// door.close(std::time::Duration::from_secs(1));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Door {
    shared: Arc<Shared>,
    address: SocketAddr,
    streams: Arc<Streams>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Door {
    /// Binds the address, and begins to serve clients.
    ///
    /// # Errors
    /// `Io` if the address cannot be bound, and those of reading the database's tables.
    pub fn open(host: Arc<dyn Host>, options: Options) -> Result<Self> {
        let committer = Committer::new(Arc::clone(&host), options.durability)?;
        let listen = options.listen;
        let failed = |error| Error::io(format!("listen on {listen} for clients of Redis"), error);
        let listener = TcpListener::bind(listen).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let around = Around {
            cursors: Cursors::default(),
            hub: Hub::default(),
            figures: Figures::new(COMMANDS.iter().map(|spec| spec.name).collect()),
            most_bytes: options.command_bytes,
            replying: Room::new(options.replying_bytes),
        };
        let shared = Arc::new(Shared {
            host,
            around: Arc::new(around),
            committer,
            notifier: Notifier::default(),
            is_ending: AtomicBool::new(false),
            receiving: Room::new(options.receiving_bytes),
            warned_of_http: Mutex::default(),
            options,
        });
        let streams = Arc::new(Streams::default());
        let door = Door { shared, address, streams, threads: Mutex::default() };
        door.start("pando-redis", {
            let (shared, streams) = (Arc::clone(&door.shared), Arc::clone(&door.streams));
            move || accept(&listener, &shared, &streams)
        })?;
        door.start("pando-redis-expire", {
            let shared = Arc::clone(&door.shared);
            move || sweep(&shared)
        })?;
        Ok(door)
    }

    fn start(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
        locked(&self.threads).push(thread.map_err(|error| Error::io("start a thread", error))?);
        Ok(())
    }

    /// Returns the address on which clients connect, with the actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the counters in the text format of Prometheus.
    pub fn prometheus(&self) -> String {
        let mut text = String::new();
        let Shared { around, receiving, .. } = &*self.shared;
        around.figures.prometheus(&mut text);
        let help = "Memory for long commands that are being received.";
        write_plain(&mut text, "receiving_bytes", "gauge", help, receiving.used_bytes() as u64);
        let help = "Memory for long replies that are not sent yet.";
        write_plain(&mut text, "replying_bytes", "gauge", help, around.replying.used_bytes() as u64);
        text
    }

    /// Accepts no further client, lets each finish its current commands, and closes the connections that remain after
    /// `patience`.
    pub fn close(&self, patience: Duration) {
        self.shared.is_ending.store(true, Ordering::SeqCst);
        // This connection wakes the thread that accepts.
        let ip = match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        drop(TcpStream::connect_timeout(&(ip, self.address.port()).into(), Duration::from_secs(1)));
        self.shut_down(Shutdown::Read);
        let begun = Instant::now();
        let is_open = || !locked(&self.streams).is_empty();
        while is_open() && begun.elapsed() < patience {
            thread::sleep(Duration::from_millis(5));
        }
        self.shut_down(Shutdown::Both);
        while is_open() && begun.elapsed() < patience + Duration::from_secs(1) {
            thread::sleep(Duration::from_millis(5));
        }
        for thread in std::mem::take(&mut *locked(&self.threads)) {
            let _ = thread.join();
        }
        self.shared.notifier.stop();
    }

    fn shut_down(&self, how: Shutdown) {
        for stream in locked(&self.streams).values() {
            let _ = stream.shutdown(how);
        }
    }
}

/// Accepts clients, and starts a thread for each.
fn accept(listener: &TcpListener, shared: &Arc<Shared>, streams: &Arc<Streams>) {
    let figures = &shared.around.figures;
    for id in 1.. {
        let accepted = listener.accept();
        if shared.is_ending.load(Ordering::SeqCst) {
            return;
        }
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a client of Redis could not be accepted");
                thread::sleep(Duration::from_millis(50));
                continue;
            }
        };
        if let Err(error) = welcome(stream, id, shared, streams) {
            // Relaxed: this is a counter.
            figures.refused.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%error, "a client of Redis was refused");
        }
    }
}

fn welcome(
    mut stream: TcpStream,
    id: u64,
    shared: &Arc<Shared>,
    streams: &Arc<Streams>,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(WRITE_PATIENCE))?;
    // An idle connection wakes up to look whether it may still be there.
    stream.set_read_timeout(Some((shared.options.authentication / 4).max(Duration::from_millis(1))))?;
    keep_alive(&stream)?;
    let figures = &shared.around.figures;
    if figures.connections.load(Ordering::SeqCst) >= shared.options.connections as u64 {
        figures.refused.fetch_add(1, Ordering::Relaxed); // Relaxed: this is a counter.
        return stream.write_all(b"-ERR max number of clients reached\r\n");
    }
    let place = Place { shared: Arc::clone(shared), streams: Arc::clone(streams), id };
    figures.connections.fetch_add(1, Ordering::SeqCst);
    figures.accepted.fetch_add(1, Ordering::Relaxed); // Relaxed: this is a counter.
    let stream = Arc::new(stream);
    locked(streams).insert(id, Arc::clone(&stream));
    let session = Session::new(Arc::clone(shared), stream, id);
    let thread = thread::Builder::new().name("pando-redis-client".to_owned()).stack_size(STACK_BYTES);
    thread.spawn(move || {
        session.run();
        drop(place);
    })?;
    Ok(())
}

/// Makes the system find out that the other machine is gone, although it has closed nothing.
fn keep_alive(stream: &TcpStream) -> std::io::Result<()> {
    set_socket_keepalive(stream, true)?;
    set_tcp_keepidle(stream, QUIET)?;
    set_tcp_keepintvl(stream, QUIET / 6)?;
    Ok(set_tcp_keepcnt(stream, 3)?)
}

/// The place of a connection, which is free when this is dropped.
struct Place {
    shared: Arc<Shared>,
    streams: Arc<Streams>,
    id: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.around.figures.connections.fetch_sub(1, Ordering::SeqCst);
        locked(&self.streams).remove(&self.id);
    }
}

/// Removes expired keys, until the door closes.
fn sweep(shared: &Shared) {
    while !shared.is_ending.load(Ordering::SeqCst) {
        for database in 0..DATABASES {
            let mut has_more = is_due(shared, database);
            while has_more && !shared.is_ending.load(Ordering::SeqCst) {
                let swept = shared.committer.sweep(database, &shared.around);
                has_more = swept.unwrap_or_else(|error| {
                    tracing::warn!(%error, "expired keys of Redis could not be removed");
                    false
                });
            }
        }
        let until = Instant::now() + SWEEP_EVERY;
        while Instant::now() < until && !shared.is_ending.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Returns whether a database has keys that have expired.
fn is_due(shared: &Shared, database: usize) -> bool {
    let tables = shared.committer.tables();
    let Slot::Keys(table) = &tables[database] else { return false };
    let Ok(snapshot) = shared.host.database().snapshot() else { return false };
    let due = layout::expired(shared.committer.versions.now_ms());
    snapshot.range(table, due).is_ok_and(|mut due| due.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sockopt::{socket_keepalive, tcp_keepidle};

    #[test]
    fn a_machine_that_is_gone_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(!socket_keepalive(&stream).unwrap());
        keep_alive(&stream).unwrap();
        assert!(socket_keepalive(&stream).unwrap());
        assert_eq!(tcp_keepidle(&stream).unwrap(), QUIET);
    }
}
