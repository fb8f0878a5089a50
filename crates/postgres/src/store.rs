//! The store that `pando::remote` sees.

use crate::connection::Connection;
use crate::failure::Trouble;
use crate::migrate::{migrate, schemas};
use crate::options::Options;
use crate::pool::Pool;
use crate::session::PostgresSession;
use crate::{sweep, tls, tokens};
use base::{Error, Result, TableId};
use pando::remote::{Limits, Mode, RemoteDatabase, Session, Store, Swept, Token};
use std::env;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;
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
    /// As for [`crate::open`]; `Invalid` if an option is out of its range; `Missing` if there is no database and
    /// [`Options::create`] is off.
    pub fn open(self, url: &str) -> Result<RemoteDatabase> {
        self.check()?;
        Ok(RemoteDatabase::over(Arc::new(PostgresStore::open(url, self)?)))
    }

    /// Returns the names of the schemas at `url` that hold a database, in order. Only the options of connections apply.
    ///
    /// ```no_run
    /// # fn main() -> pando::Result<()> {
    /// for schema in pando_postgres::Options::default().schemas("postgres://app@db.example/main")? {
    ///     println!("{schema}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`crate::open`], except for `Foreign`; `Invalid` if an option is out of its range.
    pub fn schemas(self, url: &str) -> Result<Vec<String>> {
        self.check()?;
        let (_, mut connection) = connect(url, self)?;
        Ok(connection.run_bare(async |client| schemas(client).await)?)
    }
}

/// Connects to the server of `url`. Returns the pool, and a connection without prepared statements.
fn connect(url: &str, options: Options) -> Result<(Arc<Pool>, Connection)> {
    let parsed = url.parse::<Config>();
    let mut config = parsed.map_err(|error| {
        // The URL itself may hold a password.
        Error::invalid("the URL of a PostgreSQL server cannot be understood").caused_by(error)
    })?;
    add_password(&mut config, env::var_os("PGPASSWORD"));
    config.connect_timeout(options.connect_timeout);
    if config.get_application_name().is_none() {
        config.application_name("pando");
    }
    let tls = tls::choose(&mut config)?;
    let pool = Arc::new(Pool::new(config, tls, options));
    let connection = pool.open_bare().map_err(Error::from)?;
    Ok((pool, connection))
}

#[derive(Debug)]
pub(crate) struct PostgresStore {
    pool: Arc<Pool>,
    id: u64,
}

impl PostgresStore {
    pub fn open(url: &str, options: Options) -> Result<Self> {
        let (pool, mut connection) = connect(url, options)?;
        let schema = &pool.options().schema;
        let id = migrate(&mut connection, schema, pool.options().create)?;
        // Another program may be deleting them, too; then there is nothing left to do here.
        match tokens::delete_old(&mut connection, schema) {
            Ok(()) | Err(Trouble::Server(_)) => Ok(PostgresStore { pool, id }),
            Err(lost) => Err(Error::from(lost)),
        }
    }
}

/// Returns the largest sizes of keys, values and transactions, which are the same for every server.
#[must_use]
pub fn limits() -> Limits {
    Limits::new(MAX_KEY_BYTES, MAX_VALUE_BYTES, MAX_TRANSACTION_BYTES)
}

/// Sets the password of the environment if the URL has none.
fn add_password(config: &mut Config, password: Option<OsString>) {
    if config.get_password().is_none()
        && let Some(password) = password
    {
        config.password(password.as_encoded_bytes());
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
        limits()
    }

    fn connections(&self) -> usize {
        self.pool.open()
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

    fn close_idle(&self, unused_for: Duration) {
        self.pool.close_idle(unused_for);
    }

    fn close(&self) {
        self.pool.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_of_the_url_comes_before_that_of_the_environment() {
        let password = |url: &str, of_environment: Option<&str>| {
            let mut config: Config = url.parse().unwrap();
            add_password(&mut config, of_environment.map(OsString::from));
            config.get_password().map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
        };
        let (with, without) = ("postgres://app:of%20url@db/shop", "postgres://app@db/shop");
        assert_eq!(password(with, Some("of environment")).as_deref(), Some("of url"));
        assert_eq!(password(without, Some("of environment")).as_deref(), Some("of environment"));
        assert_eq!(password(without, None), None);
    }
}
