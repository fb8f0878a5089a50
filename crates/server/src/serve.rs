//! A server from its start to its end.
//!
//! 1. [`Server::start`]: the directory is locked, the default database opened, the address bound. What fails, fails
//!    before anybody is told that there is a server.
//! 2. [`Server::run`]: connections are accepted, as many at a time as there may be, and each is served until its client
//!    leaves, or takes too long for a request's head.
//! 3. At SIGTERM or SIGINT: nothing more is accepted; every connection ends after the request it is in; after
//!    the drain's time those that are left are cut off. Then every database is synced and closed.

use crate::app::{App, Service};
use crate::config::Config;
use crate::lock::DirLock;
use crate::open::Open;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use pando::{Database, Error, Result};
use socket2::SockRef;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

/// The database of `/v0`.
pub const DEFAULT_DATABASE: &str = "default";

/// A server that is ready to run.
#[derive(Debug)]
pub struct Server {
    runtime: Runtime,
    listener: TcpListener,
    address: SocketAddr,
    app: Arc<App>,
    signals: [Signal; 2],
    _lock: DirLock,
}

impl Server {
    /// Locks the directory, made if it is missing; opens the default database, made likewise; binds the address.
    ///
    /// # Errors
    /// `Locked` if another server has the directory; those of opening a database; `Io` if the address cannot be had.
    pub fn start(config: Config) -> Result<Self> {
        let dir = config.dir.display();
        std::fs::create_dir_all(&config.dir).map_err(|error| Error::io(format!("make {dir}"), error))?;
        let lock = DirLock::take(&config.dir)?;
        let mut builder = Database::builder().durability(config.durability);
        if let Some(bytes) = config.memory_bytes {
            builder = builder.memory_bytes(bytes);
        }
        let default = Arc::new(Open::new(builder.create(config.dir.join(DEFAULT_DATABASE))?));
        let started = |error| Error::io("start the server's threads", error);
        let runtime = Builder::new_multi_thread().enable_all().thread_name("pando-serve").build();
        let runtime = runtime.map_err(started)?;
        let _inside = runtime.enter();
        let bound = |error| Error::io(format!("listen on {}", config.listen), error);
        let listener = runtime.block_on(TcpListener::bind(config.listen)).map_err(bound)?;
        let address = listener.local_addr().map_err(bound)?;
        let signals = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
        let [term, int] = signals;
        let signals = [term.map_err(started)?, int.map_err(started)?];
        let app = App::new(config, default)?;
        drop(_inside);
        Ok(Server { runtime, listener, address, app, signals, _lock: lock })
    }

    /// Where it listens; with port 0 asked for, this tells which it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the process is told to end.
    ///
    /// # Errors
    /// Those of the last sync.
    pub fn run(self) -> Result<()> {
        let Server { runtime, listener, app, signals: [mut term, mut int], .. } = self;
        runtime.block_on(async {
            let told = async {
                tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
            };
            accept(listener, &app, told).await;
        });
        // What clients wait for no more may still be at work: it ends before the databases are closed.
        runtime.shutdown_timeout(app.config.limits.drain);
        app.default.db.close()
    }
}

/// Steps 2 and 3.
async fn accept(listener: TcpListener, app: &Arc<App>, told: impl Future<Output = ()>) {
    let limits = &app.config.limits;
    let places = Arc::new(Semaphore::new(limits.connections));
    let all_places = limits.connections as u32;
    let (ending, _) = watch::channel(false);
    let service = Service::new(Arc::clone(app));
    let mut told = pin!(told);
    loop {
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await.expect("it is never closed");
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            () = &mut told => break,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let (service, ending) = (service.clone(), ending.subscribe());
                let connection = serve(stream, service, ending, app.config.clone());
                tokio::spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            Err(error) => {
                // Too many open files, most likely: connections that end make room.
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    let _ = ending.send(true);
    if timeout(limits.drain, places.acquire_many(all_places)).await.is_err() {
        tracing::warn!("connections were cut off that did not end in time");
    }
}

/// One connection, to its end.
async fn serve(stream: TcpStream, service: Service, mut ending: watch::Receiver<bool>, config: Config) {
    let limits = &config.limits;
    let _ = stream.set_nodelay(true);
    // A client that takes nothing of what is sent is given up after the same time as one that sends nothing.
    let _ = SockRef::from(&stream).set_tcp_user_timeout(Some(limits.body_timeout * 2));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head_timeout).max_buf_size(limits.head_bytes);
    let answer = service_fn(move |request| service.answer(request));
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), answer));
    // The outcome is dropped inside: it borrows a lock.
    let ending = async move { ending.wait_for(|ending| *ending).await.is_ok() };
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        _ = ending => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection ended early");
    }
}
