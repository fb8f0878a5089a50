//! Databases in a store that speaks PostgreSQL's protocol: their addresses, one of them for a command, and all of them
//! for `serve --store`, each in a schema of its own.

#[cfg(not(feature = "postgres"))]
use crate::failure::Failure;
use crate::failure::Outcome;
use clap::Args;
#[cfg(feature = "sql")]
use pando::remote::RemoteDatabase;
use server::Config;
use std::path::Path;
#[cfg(feature = "postgres")]
use std::time::Duration;

/// The schema of the database in a store that no option names.
pub const SCHEMA: &str = "pando";

/// Returns whether a place is the address of a store.
pub fn is_of_store(place: &Path) -> bool {
    let scheme = place.to_str().and_then(|text| text.split_once("://"));
    matches!(scheme, Some(("postgres" | "postgresql", _)))
}

/// Opens the database in a schema of a store.
#[cfg(all(feature = "sql", feature = "postgres"))]
pub fn open(url: &str, schema: &str, create: bool) -> Outcome<RemoteDatabase> {
    Ok(postgres::Options::default().schema(schema).max_connections(4).create(create).open(url)?)
}

/// Returns the error of a build without a client of PostgreSQL.
#[cfg(all(feature = "sql", not(feature = "postgres")))]
pub fn open(_: &str, _: &str, _: bool) -> Outcome<RemoteDatabase> {
    Err(without_postgres())
}

/// Returns the error of a build without a client of PostgreSQL.
#[cfg(not(feature = "postgres"))]
pub fn without_postgres() -> Failure {
    let message = "this `pando` was built without PostgreSQL; build it with the feature `postgres`: cargo \
                   install --features postgres";
    Failure::Usage(message.to_owned())
}

/// The longest time that a request waits for a connection.
#[cfg(feature = "postgres")]
const MOST_CONNECT_SECONDS: u32 = 10;

/// Returns how long the store lets a transaction pause. The server ends its own before that, and a range whose client
/// pauses has a minute in any case.
#[cfg(feature = "postgres")]
fn store_idle_of(transaction_idle: Duration) -> Duration {
    (transaction_idle + Duration::from_secs(10)).max(Duration::from_secs(60))
}

/// The store that keeps the databases.
#[derive(Args, Debug)]
pub struct StoreArgs {
    /// Keep the databases in this store (postgres://USER@HOST/NAME), and only the tokens in the directory. Several
    /// servers can use one store. This option needs a build with the feature `postgres`. Pass a password in PGPASSWORD.
    /// --memory then limits the memory for the writes of open transactions and imports
    #[arg(long, value_name = "URL", env = "PANDO_STORE", hide_env_values = true)]
    store: Option<String>,
    /// The schema that holds the database `default`. The schemas of all other databases have names that begin with NAME
    #[arg(long, value_name = "NAME", default_value = SCHEMA, env = "PANDO_STORE_SCHEMA")]
    store_schema: String,
    /// Open at most N connections to the store for each database. A request that waits for one longer than 10 seconds
    /// (or --store-timeout, if that is shorter) fails. These keep a connection: interactive transactions, ranges that
    /// are being sent, requests whose SQL runs, and some streams of Hrana. The server allows at most (N - 2) / 4 of
    /// each kind at a time
    #[arg(long, value_name = "N", default_value_t = 24, env = "PANDO_STORE_CONNECTIONS",
          value_parser = clap::value_parser!(u32).range(6..=10_000))]
    store_connections: u32,
    /// Fail a request to the store that takes longer than SECONDS. If the connection is lost during a commit, the
    /// server tries for twice this time to find out whether the commit happened. Raise it to delete large ranges
    #[arg(long, value_name = "SECONDS", default_value_t = 30, env = "PANDO_STORE_TIMEOUT",
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    store_timeout: u32,
    /// Close a connection to the store that no request has used for SECONDS; it is opened again when it is needed
    #[arg(long, value_name = "SECONDS", default_value_t = 300, env = "PANDO_STORE_IDLE",
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    store_idle: u32,
}

impl StoreArgs {
    /// Returns whether there is a store.
    pub fn is_given(&self) -> bool {
        self.store.is_some()
    }

    /// Adds the store to the configuration of a server.
    ///
    /// # Errors
    /// If this build has no client of PostgreSQL.
    pub fn add_to(&self, config: &mut Config) -> Outcome {
        match &self.store {
            None => Ok(()),
            Some(url) => self.add(url, config),
        }
    }

    #[cfg(feature = "postgres")]
    fn add(&self, url: &str, config: &mut Config) -> Outcome {
        let connections = self.store_connections as usize;
        let options = postgres::Options::default()
            .max_connections(connections)
            .connect_timeout(Duration::from_secs(self.store_timeout.min(MOST_CONNECT_SECONDS).into()))
            .request_timeout(Duration::from_secs(self.store_timeout.into()))
            .idle_timeout(store_idle_of(config.limits.transaction_idle));
        let idle = Duration::from_secs(self.store_idle.into());
        config.stores = Some(schemas::of(url, &self.store_schema, options, (connections, idle))?);
        Ok(())
    }

    #[cfg(not(feature = "postgres"))]
    fn add(&self, _: &str, _: &mut Config) -> Outcome {
        let _ = (&self.store_schema, self.store_connections, self.store_timeout, self.store_idle);
        Err(without_postgres())
    }
}

#[cfg(feature = "postgres")]
mod schemas {
    use crate::failure::{Failure, Outcome};
    use pando::remote::RemoteDatabase;
    use pando::{ErrorKind, Result};
    use postgres::Options;
    use server::DEFAULT_DATABASE;
    use server::stores::Stores;
    use std::fmt;
    use std::fmt::Write as _;
    use std::sync::Arc;
    use std::time::Duration;

    /// The databases of a server of PostgreSQL.
    struct Schemas {
        url: String,
        /// The schema of the default database.
        first: String,
        options: Options,
        connections: usize,
        idle: Duration,
    }

    /// Returns the databases at `url`.
    pub fn of(
        url: &str,
        first: &str,
        options: Options,
        (connections, idle): (usize, Duration),
    ) -> Outcome<Arc<dyn Stores>> {
        if !matches!(url.split_once("://"), Some(("postgres" | "postgresql", _))) {
            let message = "`--store` takes an address that begins with postgres://";
            return Err(Failure::Usage(message.to_owned()));
        }
        let (url, first) = (url.to_owned(), first.to_owned());
        Ok(Arc::new(Schemas { url, first, options, connections, idle }))
    }

    /// Returns the schema of the database `name`.
    fn schema_of(first: &str, name: &str) -> String {
        if name == DEFAULT_DATABASE {
            return first.to_owned();
        }
        let mut schema = format!("{first}_");
        for letter in name.bytes() {
            match letter {
                b'a'..=b'z' | b'0'..=b'9' => schema.push(letter as char),
                // A schema has no such letter, or the letter begins its number.
                other => drop(write!(schema, "_{other:02x}")),
            }
        }
        schema
    }

    /// Returns the name of the database in a schema; `None` if it belongs to none of this server.
    fn name_of(first: &str, schema: &str) -> Option<String> {
        if schema == first {
            return Some(DEFAULT_DATABASE.to_owned());
        }
        let mut rest = schema.strip_prefix(first)?.strip_prefix('_')?;
        let mut name = String::new();
        while let Some(letter) = rest.chars().next() {
            rest = &rest[letter.len_utf8()..];
            match letter {
                '_' => {
                    let number = u8::from_str_radix(rest.get(..2)?, 16).ok()?;
                    name.push(number.is_ascii().then_some(number as char)?);
                    rest = &rest[2..];
                }
                letter => name.push(letter),
            }
        }
        // Each database has one schema: another program may have made one that only looks like it.
        (schema_of(first, &name) == schema).then_some(name)
    }

    impl Schemas {
        fn open_with(&self, name: &str, create: bool) -> Result<RemoteDatabase> {
            self.options.clone().schema(&schema_of(&self.first, name)).create(create).open(&self.url)
        }
    }

    impl Stores for Schemas {
        fn open(&self, name: &str) -> Result<Option<RemoteDatabase>> {
            match self.open_with(name, false) {
                Ok(db) => Ok(Some(db)),
                Err(error) if error.kind() == ErrorKind::Missing => Ok(None),
                Err(error) => Err(error),
            }
        }

        fn create(&self, name: &str) -> Result<(RemoteDatabase, bool)> {
            match self.open(name)? {
                Some(db) => Ok((db, false)),
                None => self.open_with(name, true).map(|db| (db, true)),
            }
        }

        fn names(&self) -> Result<Vec<String>> {
            let schemas = self.options.clone().schemas(&self.url)?;
            Ok(schemas.iter().filter_map(|schema| name_of(&self.first, schema)).collect())
        }

        fn connections(&self) -> usize {
            self.connections
        }

        fn idle(&self) -> Duration {
            self.idle
        }
    }

    impl fmt::Debug for Schemas {
        /// Leaves out the address, which may have a password.
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Schemas").field("first", &self.first).finish_non_exhaustive()
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_server_ends_a_transaction_before_the_store_does() {
            for seconds in [1, 30, 50, 51, 3600].map(Duration::from_secs) {
                let store = crate::store::store_idle_of(seconds);
                assert!(store >= Duration::from_secs(60) && store > seconds, "{seconds:?}: {store:?}");
            }
        }

        #[test]
        fn each_name_has_a_schema_of_its_own() {
            for (name, schema) in [
                ("default", "pando"),
                ("shop", "pando_shop"),
                ("Shop-2", "pando__53hop_2d2"),
                ("a_b", "pando_a_5fb"),
                ("_5f", "pando__5f5f"),
            ] {
                assert_eq!(schema_of("pando", name), schema);
                assert_eq!(name_of("pando", schema).as_deref(), Some(name));
            }
            for other in
                ["public", "pandora", "pando_default", "pando__5", "pando__zz", "pando_A", "pando__61"]
            {
                assert_eq!(name_of("pando", other), None, "{other}");
            }
        }
    }
}
