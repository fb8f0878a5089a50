//! The options with which a database in PostgreSQL is opened.

use base::{Error, Result};
use std::time::Duration;

/// Opens a database in PostgreSQL with options.
///
/// ```no_run
/// # fn main() -> pando::Result<()> {
/// let options = pando_postgres::Options::default().schema("shop").max_connections(32);
/// let db = options.open("postgres://app@db.example/main")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Options {
    pub(crate) schema: String,
    pub(crate) max_connections: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) create: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            schema: "pando".to_owned(),
            max_connections: 16,
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(60),
            create: true,
        }
    }
}

impl Options {
    /// Sets the server's schema that holds the database. Several databases can share one of the server's, each in a
    /// schema of its own.
    ///
    /// Default: `pando`. It takes lower-case letters, digits and `_`, does not begin with a digit, and has at most 63
    /// bytes.
    pub fn schema(mut self, name: &str) -> Self {
        name.clone_into(&mut self.schema);
        self
    }

    /// Sets how many connections are open at most. Each snapshot and each transaction that has read holds one; a thread
    /// that needs another one waits for it, as long as [`Options::connect_timeout`], and then fails with `Full`. One
    /// more is open while the database is opened, and one more for each commit in doubt while the client asks what
    /// became of it. A connection that has sent a commit of more than 1 MiB is closed.
    ///
    /// Default: 16. A server takes about 100 in all (its `max_connections`), so divide those among the processes.
    pub fn max_connections(mut self, count: usize) -> Self {
        self.max_connections = count;
        self
    }

    /// Sets how long a connection may take to open.
    ///
    /// Default: 10 seconds. Range: 1 ms to 24 days.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how long one request to the server may take. If the connection is lost during a commit, the client asks
    /// what happened, and makes no further attempt after twice this time. Raise it if the program deletes large ranges
    /// or drops large tables.
    ///
    /// Default: 30 seconds. Range: 1 ms to 24 days.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// Sets how long a snapshot or transaction may be idle between two calls. The server then ends it, so that it no
    /// longer keeps old versions, and its next call fails.
    ///
    /// Default: 60 seconds. Range: 1 ms to 24 days.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Sets whether a database that does not exist is created. If not, the opening writes nothing, except that a
    /// database of an older version is brought to the newest one, and that old tokens are deleted.
    ///
    /// Default: yes.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Rejects options that are out of their ranges.
    pub(crate) fn check(&self) -> Result<()> {
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        let name = self.schema.as_bytes();
        let is_name = name.first().is_some_and(|&first| is_letter(first))
            && name.iter().all(|&byte| is_letter(byte) || byte.is_ascii_digit())
            && name.len() <= 63;
        if !is_name {
            let message = "a schema has lower-case letters, digits and _, does not begin with a digit, and \
                           has at most 63 bytes";
            return Err(Error::invalid(format!("{message}: not {:?}", self.schema)));
        }
        if self.max_connections == 0 {
            return Err(Error::invalid("max_connections must be at least 1"));
        }
        for (name, timeout) in [
            ("connect_timeout", self.connect_timeout),
            ("request_timeout", self.request_timeout),
            ("idle_timeout", self.idle_timeout),
        ] {
            if timeout.as_millis() == 0 || i32::try_from(timeout.as_millis()).is_err() {
                return Err(Error::invalid(format!(
                    "{name} must be between 1 ms and 24 days: not {timeout:?}"
                )));
            }
        }
        Ok(())
    }
}
