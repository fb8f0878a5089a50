//! A server from its start to its end.
//!
//! 1. [`Server::start`] locks the directory, opens the default database, and binds the address or takes the sockets
//!    that were opened for it. Errors occur before the server reports that it is ready.
//! 2. [`Server::run`]: one thread accepts connections up to the limit and distributes them to the workers in turn.
//!    There is a worker thread for each core, with an event loop of its own. The thread that reads a request also sends
//!    its response, and wakes no other thread.
//! 3. At SIGTERM, SIGINT or SIGXCPU `/readyz` says so. After the drain delay no further connection is accepted, and
//!    every connection ends after its current request. A feed of changes, which never ends by itself, ends at once.
//!    Near the end of the drain time the remaining connections are closed, which cancels statements that run for them.
//!    At its end, every database is synced and closed.
//! 4. At SIGHUP the configuration and the certificate are read again ([`Door`]). SIGUSR1 and SIGUSR2 are ignored. No
//!    other file must be opened or read again, because the log is standard error, and tokens are read again when they
//!    change.

use crate::config::Config;
use crate::serving::app::App;
use crate::serving::connection;
use crate::serving::door::Door;
#[cfg(feature = "tls")]
use crate::serving::encryption::Encryption;
use crate::serving::listen::{Incoming, Listeners};
use crate::serving::lock::DirLock;
use crate::serving::patience::Timers;
use crate::serving::service::Service;
use io::ShortTimeSlice;
#[cfg(feature = "remote")]
use pando::Durability;
use pando::{Error, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio::time::{interval, sleep, timeout};

/// The number of threads that may wait, for each worker. They start when they are needed, and end when they are idle.
const WAITING_THREADS: usize = 256;
/// The number of open files in addition to connections.
const OTHER_FILES: u64 = 2048;

/// The part of the drain time that is left for work whose connection was closed: a tenth, and at most this.
const LAST_WORK: Duration = Duration::from_secs(1);

/// When the drain time ends; empty until it begins.
type Deadline = Arc<OnceLock<Instant>>;

/// A server that is ready to run.
#[derive(Debug)]
pub struct Server {
    runtime: Runtime,
    listeners: Listeners,
    #[cfg(feature = "tls")]
    encryption: Option<Arc<Encryption>>,
    app: Arc<App>,
    service: Service,
    signals: Signals,
    workers: Vec<Worker>,
    /// The lock of the directory; `None` over a remote store, where the directory has only the tokens.
    _lock: Option<DirLock>,
}

/// The signals that the server handles.
#[derive(Debug)]
struct Signals {
    /// The signals that end the server in order. The last one arrives when the process has used up its CPU time
    /// (`ulimit -t`).
    ending: [Signal; 3],
    /// The signal to read files again, and the signals that would end the process by default and are ignored.
    others: [Signal; 3],
}

impl Signals {
    /// Begins to listen for the signals. It must be called within a runtime.
    fn hear() -> std::io::Result<Self> {
        let [hup, usr1, usr2] =
            [SignalKind::hangup(), SignalKind::user_defined1(), SignalKind::user_defined2()];
        Ok(Signals {
            ending: [
                signal(SignalKind::terminate())?,
                signal(SignalKind::interrupt())?,
                signal(SignalKind::from_raw(rustix::process::Signal::XCPU.as_raw()))?,
            ],
            others: [signal(hup)?, signal(usr1)?, signal(usr2)?],
        })
    }

    /// Returns when a signal arrives that ends the server. Makes `door` read its files again at SIGHUP.
    async fn end(&mut self, door: &Door) {
        let ([term, int, xcpu], [hup, usr1, usr2]) = (&mut self.ending, &mut self.others);
        loop {
            let ignored = tokio::select! {
                _ = term.recv() => return,
                _ = int.recv() => return,
                _ = xcpu.recv() => {
                    tracing::warn!("SIGXCPU: the limit of CPU time is reached; the server shuts down");
                    return;
                }
                _ = hup.recv() => {
                    // It reads files, and this thread accepts connections.
                    let door = door.clone();
                    let _ = spawn_blocking(move || door.reload()).await;
                    continue;
                }
                _ = usr1.recv() => "SIGUSR1",
                _ = usr2.recv() => "SIGUSR2",
            };
            tracing::info!("{ignored} was received and ignored");
        }
    }
}

/// A thread with its own event loop, and the channel to it.
#[derive(Debug)]
struct Worker {
    connections: UnboundedSender<Accepted>,
    thread: JoinHandle<()>,
}

/// A connection, and its permit.
type Accepted = (Incoming, OwnedSemaphorePermit);

/// Creates an event loop, and threads that may wait. Their work is short and clients wait for it, so they ask for short
/// time slices. They then do not wait long for a checkpoint or for one another.
fn runtime() -> Result<Runtime> {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().thread_name("pando-waits").max_blocking_threads(WAITING_THREADS);
    builder.on_thread_start(|| ShortTimeSlice::begin().keep());
    builder.build().map_err(|error| Error::io("start the server's threads", error))
}

impl Server {
    /// Locks the directory, opens the default database (both are created if they do not exist), and binds the
    /// address.
    ///
    /// # Errors
    /// `Locked` if another server uses the directory; those of opening a database; `Io` if the address cannot be
    /// bound; `Invalid` if other machines could reach it and there are no tokens.
    pub fn start(mut config: Config) -> Result<Self> {
        make_directory(&config.dir)?;
        let lock = lock(&config)?;
        config.limits.connections = connections_allowed(config.limits.connections);
        let app = Arc::new(App::new(config)?);
        let config = &app.config;
        let is_open = !app.keeper.is_on_guard() && !config.allow_anyone;
        let reached = config.addresses().into_iter().find(|address| !address.ip().is_loopback());
        if let Some(listen) = reached.filter(|_| is_open) {
            return Err(Error::invalid(format!(
                "{listen} can be reached from other machines, but there are no tokens: create one with \
                 `pando token create`, or start the server with --allow-anyone"
            )));
        }
        let service = Service::new(app.parts.clone(), config)?;
        let runtime = runtime()?;
        let inside = runtime.enter();
        let listeners = Listeners::new(&config.sockets, config.listen, config.unix_socket.as_deref())?;
        #[cfg(feature = "tls")]
        let encryption = match &config.tls {
            Some(source) => {
                Some(Arc::new(Encryption::new(source.clone(), listeners.address().unwrap_or(config.listen))?))
            }
            None => None,
        };
        #[cfg(feature = "redis")]
        if let Some(parts) = app.parts.native() {
            crate::redis::open(parts, config)?;
        }
        let heard = |error| Error::io("listen to signals", error);
        let signals = Signals::hear().map_err(heard)?;
        drop(inside);
        Ok(Server {
            runtime,
            listeners,
            #[cfg(feature = "tls")]
            encryption,
            app,
            service,
            signals,
            workers: Vec::new(),
            _lock: lock,
        })
    }

    /// Returns the address on which it listens, with the actual port if port 0 was requested; `None` if it has only
    /// unix sockets.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listeners.address()
    }

    /// Returns whether connections to the address are encrypted.
    pub fn is_encrypted(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.encryption.is_some();
        #[cfg(not(feature = "tls"))]
        return false;
    }

    /// Returns the address on which clients of Redis connect, if they can.
    #[cfg(feature = "redis")]
    pub fn redis_address(&self) -> Option<SocketAddr> {
        self.app.parts.native()?.redis.get().map(resp::Door::address)
    }

    /// Serves requests until the process gets SIGTERM or SIGINT.
    ///
    /// # Errors
    /// Those of the last sync.
    pub fn run(mut self) -> Result<()> {
        let (ending, ended) = watch::channel(false);
        let door = Door::new(
            self.service.clone(),
            self.app.config.reload.clone(),
            Timers::new(self.runtime.handle().clone()),
            #[cfg(feature = "tls")]
            self.encryption.clone(),
        );
        let (drain, deadline) = (self.app.config.limits.drain, Deadline::default());
        let cores = thread::available_parallelism().map_or(1, usize::from);
        for number in 0..cores {
            self.workers.push(Worker::start(number, door.clone(), Arc::clone(&deadline), ended.clone())?);
        }
        self.app.begin()?;
        let Server { runtime, listeners, app, mut signals, workers, .. } = self;
        runtime.block_on(async {
            let looking_after = tokio::spawn(look_after(Arc::clone(&app), door.clone()));
            let end = async {
                signals.end(&door).await;
                app.connections.end();
                // The delay may have been renewed.
                let delay = door.service().limits().drain_delay;
                // Load balancers see that the server is not ready, while it still serves what they send. A second
                // signal is in a hurry.
                let _ = timeout(delay, signals.end(&door)).await;
            };
            accept(&listeners, &app.connections.places, &workers, end).await;
            drop(listeners);
            let _ = deadline.set(Instant::now() + drain);
            app.connections.close();
            let _ = ending.send(true);
            let patience = drain - (drain / 10).min(LAST_WORK);
            #[cfg(feature = "redis")]
            let redis = {
                let app = Arc::clone(&app);
                spawn_blocking(move || {
                    if let Some(parts) = app.parts.native() {
                        crate::redis::close(parts, patience);
                    }
                })
            };
            let all = app.connections.places.acquire_many(app.config.limits.connections as u32);
            if timeout(patience, all).await.is_err() {
                tracing::warn!("connections that did not end in time were closed");
            }
            #[cfg(feature = "redis")]
            let _ = redis.await;
            looking_after.abort();
        });
        // All of them end at once: the timers of their connections stand still since the accepting thread has left its
        // runtime.
        let threads: Vec<_> = workers.into_iter().map(|worker| worker.thread).collect();
        for thread in threads {
            let _ = thread.join();
        }
        app.end()
    }
}

impl Worker {
    fn start(number: usize, door: Door, deadline: Deadline, ending: watch::Receiver<bool>) -> Result<Self> {
        let runtime = runtime()?;
        let (connections, coming) = mpsc::unbounded_channel();
        let work = move || {
            let _slice = ShortTimeSlice::begin();
            runtime.block_on(work(coming, door, ending));
            // Work whose clients have disconnected may still run. It ends before the databases are closed.
            let left = deadline.get().map(|deadline| deadline.saturating_duration_since(Instant::now()));
            runtime.shutdown_timeout(left.unwrap_or_default());
        };
        let thread = thread::Builder::new().name(format!("pando-http-{number}")).spawn(work);
        let thread = thread.map_err(|error| Error::io("start the server's threads", error))?;
        Ok(Worker { connections, thread })
    }
}

/// Locks the directory of the databases. A server over a remote store has none, and several can use one store.
fn lock(config: &Config) -> Result<Option<DirLock>> {
    #[cfg(feature = "remote")]
    if config.stores.is_some() {
        return check_over_store(config).map(|()| None);
    }
    DirLock::take(&config.dir).map(Some)
}

/// Rejects what a server over a remote store does not have.
#[cfg(feature = "remote")]
fn check_over_store(config: &Config) -> Result<()> {
    #[cfg(feature = "redis")]
    let speaks_redis = config.redis.is_some();
    #[cfg(not(feature = "redis"))]
    let speaks_redis = false;
    let has_not = [
        ("shipping to a bucket", config.shipping.is_some()),
        ("following another server", config.source.is_some()),
        ("scheduled backups", config.backups.is_some()),
        ("the protocol of Redis", speaks_redis),
        ("a durability other than `sync`", config.durability != Durability::Sync),
    ];
    match has_not.iter().find(|(_, is_asked)| *is_asked) {
        Some((what, _)) => Err(Error::invalid(format!("a server over a remote store does not have {what}"))),
        None => Ok(()),
    }
}

/// Creates the directory if it is missing.
fn make_directory(dir: &Path) -> Result<()> {
    let shown = dir.display();
    if dir.exists() && !dir.is_dir() {
        return Err(Error::invalid(format!(
            "{shown} is not a directory: name the directory that holds the databases"
        )));
    }
    // The data would not be found in `default` below it.
    if dir.join("data").is_file() {
        return Err(Error::invalid(format!(
            "{shown} is itself a database: name the directory above it, whose subdirectories are the \
             databases"
        )));
    }
    std::fs::create_dir_all(dir).map_err(|error| Error::io(format!("make {shown}"), error))
}

/// Raises the limit of open files to what the connections need. If the system does not allow that, returns the number
/// of connections that it does allow, and logs a warning with advice.
fn connections_allowed(wanted: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let files = (wanted as u64).saturating_add(OTHER_FILES);
    let most = maximum.map_or(files, |maximum| files.min(maximum));
    let raised = current.is_some_and(|current| current < most)
        && setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum }).is_ok();
    let Some(files_allowed) = (if raised { Some(most) } else { current }) else { return wanted };
    if files_allowed >= files {
        return wanted;
    }
    let others = OTHER_FILES.min(files_allowed / 2);
    let allowed = (files_allowed - others).max(1) as usize;
    tracing::warn!(
        "{wanted} connections need a limit of {files} open files, but the system allows {files_allowed}: \
         the server accepts {allowed} at a time; raise the limit (`ulimit -Hn`, `LimitNOFILE=`), or lower \
         --max-connections"
    );
    allowed
}

/// Runs a worker's loop: receives connections until their sender is dropped at the end.
async fn work(mut coming: UnboundedReceiver<Accepted>, door: Door, ending: watch::Receiver<bool>) {
    while let Some((incoming, place)) = coming.recv().await {
        let (door, ending) = (door.clone(), ending.clone());
        let mut ended = ending.clone();
        tokio::spawn(async move {
            // The end of the server does not wait for a client that makes no handshake.
            let opened = tokio::select! {
                opened = door.open(incoming) => opened,
                _ = ended.wait_for(|ended| *ended) => None,
            };
            if let Some(stream) = opened {
                connection::serve(stream, door.service(), door.timers(), ending).await;
            }
            drop(place);
        });
    }
}

/// Runs the periodic maintenance while the server runs.
async fn look_after(app: Arc<App>, door: Door) {
    let mut every_second = interval(Duration::from_secs(1));
    loop {
        every_second.tick().await;
        let (app, door) = (Arc::clone(&app), door.clone());
        let look = move || {
            app.look_after();
            door.refresh();
        };
        let _ = spawn_blocking(look).await;
    }
}

/// Accepts connections until `ended` resolves, each as soon as a permit is free.
async fn accept(
    listeners: &Listeners,
    places: &Arc<Semaphore>,
    workers: &[Worker],
    ended: impl Future<Output = ()>,
) {
    let mut ended = pin!(ended);
    let mut turn = 0;
    loop {
        let accepted = async {
            let place = Arc::clone(places).acquire_owned().await.expect("it is never closed");
            Ok::<Accepted, std::io::Error>((listeners.accept().await?, place))
        };
        let accepted = tokio::select! {
            () = &mut ended => return,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok(accepted) => {
                turn = (turn + 1) % workers.len();
                let _ = workers[turn].connections.send(accepted);
            }
            Err(error) => {
                // The most likely cause is too many open files. Connections that end free some.
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::path::PathBuf;

    /// Returns the time slice of a thread of this process, if the kernel shows it.
    fn slice_ns(thread: &Path) -> Option<u64> {
        let text = std::fs::read_to_string(thread.join("sched")).ok()?;
        let line = text.lines().find(|line| line.starts_with("se.slice"))?;
        line.rsplit(':').next()?.trim().parse().ok()
    }

    fn own_slice_ns() -> Option<u64> {
        slice_ns(Path::new("/proc/thread-self"))
    }

    #[test]
    fn threads_that_clients_wait_for_have_short_time_slices() {
        let _slice = ShortTimeSlice::begin();
        let short_ns = own_slice_ns();
        let waits = runtime().unwrap();
        assert_eq!(waits.block_on(waits.spawn_blocking(own_slice_ns)).unwrap(), short_ns);

        let dir = tempfile::tempdir().unwrap();
        let app = Arc::new(App::new(Config::new(dir.path())).unwrap());
        let (_ending, ended) = watch::channel(false);
        let service = Service::new(app.parts.clone(), &app.config).unwrap();
        let door = Door::new(
            service,
            None,
            Timers::new(waits.handle().clone()),
            #[cfg(feature = "tls")]
            None,
        );
        let worker = Worker::start(7, door, Deadline::default(), ended).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let place = Arc::clone(&app.connections.places).try_acquire_owned().unwrap();
        worker.connections.send((Incoming::Tcp(stream), place)).unwrap();
        // Once the worker has responded, its request for time slices has been made.
        client.write_all(b"GET /healthz HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
        client.read_exact(&mut [0; 12]).unwrap();
        let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap().path());
        let is_worker = |thread: &PathBuf| {
            std::fs::read_to_string(thread.join("comm")).is_ok_and(|name| name == "pando-http-7\n")
        };
        let thread = threads.into_iter().find(is_worker).unwrap();
        assert_eq!(slice_ns(&thread), short_ns);
    }
}
