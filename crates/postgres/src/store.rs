//! The store that `pando::remote` sees.

use crate::failure::Trouble;
use crate::migrate::migrate;
use crate::options::Options;
use crate::pool::Pool;
use crate::session::PostgresSession;
use crate::{sweep, tls, tokens};
use base::{Error, Result, TableId};
use pando::remote::{Limits, Mode, RemoteDatabase, Session, Store, Swept, Token};
use std::sync::Arc;
use tokio_postgres::Config;

/// The longest key. An entry of an index has at most 2704 bytes, as three must fit a page of 8 KiB; a header takes 8,
/// the table's id 8, and the length of the key 4.
const MAX_KEY_BYTES: usize = 2704 - 8 - 8 - 4;
/// The longest value. PostgreSQL itself takes 1 GiB for all values of a statement, but holds each several times.
const MAX_VALUE_BYTES: usize = 16 << 20;
/// The most that one transaction writes: the client and the server hold it several times.
const MAX_TRANSACTION_BYTES: usize = 256 << 20;

impl Options {
    /// Opens the database at `url`, or creates it there; see [`crate::open`].
    ///
    /// # Errors
    /// As for [`crate::open`], and `Invalid` if an option is out of its range.
    pub fn open(self, url: &str) -> Result<RemoteDatabase> {
        self.check()?;
        Ok(RemoteDatabase::over(Arc::new(PostgresStore::open(url, self)?)))
    }
}

#[derive(Debug)]
pub(crate) struct PostgresStore {
    pool: Arc<Pool>,
    id: u64,
}

impl PostgresStore {
    pub fn open(url: &str, options: Options) -> Result<Self> {
        let parsed = url.parse::<Config>();
        let mut config = parsed.map_err(|error| {
            // The URL itself may hold a password.
            Error::invalid("the URL of a PostgreSQL server cannot be understood").caused_by(error)
        })?;
        config.connect_timeout(options.connect_timeout);
        if config.get_application_name().is_none() {
            config.application_name("pando");
        }
        let tls = tls::choose(&mut config)?;
        let pool = Arc::new(Pool::new(config, tls, options));
        let mut connection = pool.open_bare().map_err(Error::from)?;
        let schema = &pool.options().schema;
        let id = migrate(&mut connection, schema)?;
        // Another program may be deleting them, too; then there is nothing left to do here.
        match tokens::delete_old(&mut connection, schema) {
            Ok(()) | Err(Trouble::Server(_)) => Ok(PostgresStore { pool, id }),
            Err(lost) => Err(Error::from(lost)),
        }
    }
}

impl Store for PostgresStore {
    fn name(&self) -> &'static str {
        "PostgreSQL"
    }

    fn id(&self) -> u64 {
        self.id
    }

    fn limits(&self) -> Limits {
        Limits::new(MAX_KEY_BYTES, MAX_VALUE_BYTES, MAX_TRANSACTION_BYTES)
    }

    fn session(&self, mode: Mode) -> Box<dyn Session> {
        Box::new(PostgresSession::new(&self.pool, mode))
    }

    fn delete_older(&self, table: TableId, oldest_ms: u64, start: &[u8], most: usize) -> Result<Swept> {
        sweep::delete_older(&self.pool, table, oldest_ms, start, most)
    }

    fn outcome(&self, token: Token) -> Result<bool> {
        tokens::outcome(&self.pool, token)
    }

    fn close(&self) {
        self.pool.close();
    }
}
