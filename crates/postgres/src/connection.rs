//! A connection to the server, driven by the thread that waits for it.
//!
//! Each connection has a reactor of its own. A call polls the request and the connection's input and output in turn, in
//! the thread that called: no other thread has to be woken, which would cost more than the server needs for a get.
//! Requests that are begun together travel together (pipelining), so a transaction's begin takes no round trip of its
//! own.

use crate::failure::Trouble;
use crate::options::Options;
use crate::statements::{Prepared, settings};
use crate::tls::Tls;
use futures_util::future::join;
use pando::remote::Fault;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, Config, Error};

/// What a request to the server returns.
pub type Driven<T> = Result<T, Error>;

/// How much longer than the server itself a client waits for a response: a statement that takes too long is then ended
/// by the server, which says so, and no response at all means that it cannot be reached.
const GRACE: Duration = Duration::from_secs(2);

/// The isolation of a statement that is a transaction by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alone {
    Serializable,
    /// It sees one state, and the server does not remember what it has read.
    Snapshot,
}

impl Alone {
    pub fn setting(self) -> &'static str {
        match self {
            Alone::Serializable => "SET default_transaction_isolation = 'serializable'",
            Alone::Snapshot => "SET default_transaction_isolation = 'repeatable read'",
        }
    }
}

type Driver = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

pub(crate) struct Connection {
    /// Always some until the connection is dropped.
    runtime: Option<Runtime>,
    client: Client,
    /// The input and output of the connection; `None` after it ended.
    driver: Option<Driver>,
    prepared: Option<Prepared>,
    /// The isolation of statements by themselves now; `None` if that is not known.
    alone: Option<Alone>,
    request_timeout: Duration,
}

impl Connection {
    /// Opens a connection, without prepared statements: the schema may not exist yet.
    pub fn open(config: &Config, tls: &Tls, options: &Options) -> Result<Self, Trouble> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Trouble::Lost(base::Error::io("start a reactor", error)))?;
        let connecting = async { tokio::time::timeout(options.connect_timeout, connect(config, tls)).await };
        let connected = runtime.block_on(connecting).map_err(|_| {
            let message =
                format!("PostgreSQL did not accept a connection within {:?}", options.connect_timeout);
            let why = "the attempt was given up";
            Trouble::Lost(Fault::Unavailable.error(base::ErrorKind::Io, message, why))
        })?;
        let (client, driver) = connected.map_err(Trouble::unreachable)?;
        let mut connection = Connection {
            runtime: Some(runtime),
            client,
            driver: Some(driver),
            prepared: None,
            alone: Some(Alone::Serializable),
            request_timeout: options.request_timeout,
        };
        let settings = settings(options.request_timeout, options.idle_timeout);
        connection.run_bare(async |client| client.batch_execute(&settings).await)?;
        Ok(connection)
    }

    /// Prepares the statements for a database in this schema.
    pub fn prepare(&mut self, schema: &str) -> Result<(), Trouble> {
        let prepared = self.run_bare(async |client| Prepared::prepare(client, schema).await)?;
        self.prepared = Some(prepared);
        Ok(())
    }

    /// Returns whether the connection is known to have ended.
    pub fn has_ended(&self) -> bool {
        self.driver.is_none() || self.client.is_closed()
    }

    /// Runs requests that use the prepared statements.
    pub fn run<T>(
        &mut self,
        work: impl AsyncFnOnce(&Client, &Prepared) -> Result<T, Error>,
    ) -> Result<T, Trouble> {
        let prepared = self.prepared.take().expect("the pool prepares each connection");
        let done = self.run_bare(async |client| work(client, &prepared).await);
        self.prepared = Some(prepared);
        done
    }

    /// Returns the isolation of statements by themselves, if it is known.
    pub fn alone(&self) -> Option<Alone> {
        self.alone
    }

    /// Runs a read that is a transaction by itself.
    pub fn read_alone<T>(
        &mut self,
        alone: Alone,
        work: impl AsyncFnOnce(&Client, &Prepared) -> Driven<T>,
    ) -> Result<T, Trouble> {
        let (set, done) = self.run_alone(alone, work)?;
        Ok(set.and(done)?)
    }

    /// Runs a commit that is a transaction by itself, and fails by itself if it is not serializable
    /// ([`Prepared::commit`]): what it returns is certain, whether the server has changed the isolation or not.
    pub fn commit_alone<T>(
        &mut self,
        work: impl AsyncFnOnce(&Client, &Prepared) -> Driven<T>,
    ) -> Result<T, Trouble> {
        let (_, done) = self.run_alone(Alone::Serializable, work)?;
        Ok(done?)
    }

    /// Runs a statement, and with it, if necessary, the one that changes the isolation.
    fn run_alone<T>(
        &mut self,
        alone: Alone,
        work: impl AsyncFnOnce(&Client, &Prepared) -> Driven<T>,
    ) -> Result<(Driven<()>, Driven<T>), Trouble> {
        let is_set = self.alone.replace(alone) == Some(alone);
        let (set, done) = self.run(async |client, prepared| {
            if is_set {
                return Ok((Ok(()), work(client, prepared).await));
            }
            Ok(join(client.batch_execute(alone.setting()), work(client, prepared)).await)
        })?;
        if set.is_err() {
            self.alone = None;
        }
        Ok((set, done))
    }

    /// Runs requests, and waits for their responses, for at most the request timeout and [`GRACE`].
    pub fn run_bare<T>(&mut self, work: impl AsyncFnOnce(&Client) -> Result<T, Error>) -> Result<T, Trouble> {
        let Connection { runtime, client, driver, request_timeout, .. } = self;
        let runtime = runtime.as_ref().expect("the connection is not dropped");
        let done = runtime.block_on(async {
            let mut work = pin!(work(client));
            let both = poll_fn(|cx| {
                // The first poll makes the requests, the driver sends them or receives, the last takes responses.
                if let Poll::Ready(done) = work.as_mut().poll(cx) {
                    return Poll::Ready(done);
                }
                drive(driver, cx);
                work.as_mut().poll(cx)
            });
            tokio::time::timeout(*request_timeout + GRACE, both).await
        });
        match done {
            Ok(done) => done.map_err(Trouble::from),
            Err(_) => {
                // The response may still come; nobody can tell it from that of a later request.
                self.driver = None;
                Err(Trouble::timeout())
            }
        }
    }
}

/// Sends and receives what is possible now. An ended connection is dropped, so that requests that wait for it fail.
fn drive(driver: &mut Option<Driver>, cx: &mut Context<'_>) {
    if let Some(running) = driver
        && running.as_mut().poll(cx).is_ready()
    {
        *driver = None;
    }
}

async fn connect(config: &Config, tls: &Tls) -> Result<(Client, Driver), Error> {
    Ok(match tls {
        Tls::Off(tls) => {
            let (client, connection) = config.connect(*tls).await?;
            (client, Box::pin(connection))
        }
        Tls::On(tls) => {
            let (client, connection) = config.connect(tls.clone()).await?;
            (client, Box::pin(connection))
        }
    })
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver = None;
        if let Some(runtime) = self.runtime.take() {
            // Waiting for it is not allowed everywhere, and nothing is left to wait for.
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("has_ended", &self.has_ended()).finish_non_exhaustive()
    }
}
