//! The two ends of a copy: a directory, or a store that speaks PostgreSQL's protocol.
//!
//! Everything else of the command is generic over the traits here, so that each pair of ends has the same code.

use super::digest::reading_failed;
use crate::failure::{Failure, Outcome};
use crate::store::is_of_store;
#[cfg(not(feature = "postgres"))]
use crate::store::without_postgres;
use pando::remote::{Limits, RemoteDatabase, RemoteSnapshot, RemoteTransaction};
use pando::{
    Budget, Builder, Compression, Database, Durability, ErrorKind, Layout, ReadSnapshot, Result, Snapshot,
    Table, TableOptions, Transaction, ValueReader, WriteTables, limits,
};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the command needs of the database that it writes.
pub trait Target {
    type Snapshot: ReadSnapshot;
    type Tx: WriteTables;

    fn snapshot(&self) -> Result<Self::Snapshot>;
    /// Runs `work` in a transaction and commits it. `work` can run several times.
    fn write(&self, work: impl FnMut(&mut Self::Tx) -> Result<()>) -> Result<()>;
    /// Returns the table of this name, and creates it if it does not exist.
    fn ensure_table(&self, name: &str, options: &TableOptions) -> Result<Table>;
    /// Sets a key to a long value, in a transaction of its own, which begins with `check`.
    fn put_long(
        &self,
        table: &Table,
        key: &[u8],
        value: ValueReader,
        check: impl Fn(&Self::Tx) -> Result<()>,
    ) -> Outcome;
    /// Returns when everything that was written survives a loss of power.
    fn sync(&self) -> Result<()>;
}

impl Target for Database {
    type Snapshot = Snapshot;
    type Tx = Transaction;

    fn snapshot(&self) -> Result<Snapshot> {
        Database::snapshot(self)
    }

    fn write(&self, work: impl FnMut(&mut Transaction) -> Result<()>) -> Result<()> {
        Database::write(self, work)
    }

    fn ensure_table(&self, name: &str, options: &TableOptions) -> Result<Table> {
        self.write(|tx| match (tx.table(name)?, options.layout) {
            // A B+tree table that was an LSM table still has its compression, which no new B+tree table can get.
            (None, Layout::BTree) if options.compression != Compression::None => {
                let mut lsm = *options;
                lsm.layout = Layout::Lsm;
                let table = tx.create_table(name, &lsm)?;
                tx.set_layout(&table, Layout::BTree)?;
                tx.ensure_table_with(name, options)
            }
            _ => tx.ensure_table_with(name, options),
        })
    }

    fn put_long(
        &self,
        table: &Table,
        key: &[u8],
        value: ValueReader,
        check: impl Fn(&Transaction) -> Result<()>,
    ) -> Outcome {
        // The value can be read only once, so a conflict ends the copy. Only another copy causes one.
        let mut tx = self.begin()?;
        check(&tx)?;
        tx.put_reader(table, key, value)?;
        Ok(tx.commit().map(drop)?)
    }

    fn sync(&self) -> Result<()> {
        Database::sync(self)
    }
}

impl Target for RemoteDatabase {
    type Snapshot = RemoteSnapshot;
    type Tx = RemoteTransaction;

    fn snapshot(&self) -> Result<RemoteSnapshot> {
        Ok(RemoteDatabase::snapshot(self))
    }

    fn write(&self, work: impl FnMut(&mut RemoteTransaction) -> Result<()>) -> Result<()> {
        RemoteDatabase::write(self, work)
    }

    fn ensure_table(&self, name: &str, options: &TableOptions) -> Result<Table> {
        RemoteDatabase::write(self, |tx| tx.ensure_table_with(name, options))
    }

    fn put_long(
        &self,
        table: &Table,
        key: &[u8],
        value: ValueReader,
        check: impl Fn(&RemoteTransaction) -> Result<()>,
    ) -> Outcome {
        let mut bytes = Vec::new();
        // One byte over the limit is enough for the store to refuse the value by its name.
        let most = self.limits().max_value_bytes as u64 + 1;
        value.take(most).read_to_end(&mut bytes).map_err(reading_failed)?;
        Ok(RemoteDatabase::write(self, |tx| {
            check(tx)?;
            tx.put(table, key, &bytes)
        })?)
    }

    /// The server's `synchronous_commit` decides about each commit.
    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

/// An open database.
#[derive(Debug)]
pub enum Store {
    Directory(Database),
    Remote(RemoteDatabase),
}

impl Store {
    /// Opens the source of a copy.
    pub fn open_source(place: &Path, schema: &str, budget: &Arc<Budget>) -> Outcome<Store> {
        match url(place)? {
            Some(url) => Ok(Store::Remote(open_remote(url, schema, false)?)),
            None => Ok(Store::Directory(Database::builder().budget(budget).read_only(true).open(place)?)),
        }
    }

    /// Returns the largest sizes that the store takes.
    pub fn limits(&self) -> Outcome<Limits> {
        match self {
            Store::Directory(db) => Ok(limits_of_pages(db.stats()?.page_bytes as usize)),
            Store::Remote(db) => Ok(db.limits()),
        }
    }

    /// Returns the id of the database. Copies of files have the same.
    pub fn id(&self) -> u64 {
        match self {
            Store::Directory(db) => db.identity().database,
            Store::Remote(db) => db.id(),
        }
    }
}

/// The target of a copy. Nothing is created before [`Destination::open`].
#[derive(Debug)]
pub enum Destination {
    /// A directory without a database.
    New(PathBuf, Box<Builder>, usize),
    /// A schema without a database, and the limits that it will have.
    NewRemote(String, String, Limits),
    Open(Store),
}

impl Destination {
    /// Finds out what is at `place`, and writes nothing. `is_dry` opens it only for reading.
    pub fn find(
        place: &Path,
        schema: &str,
        budget: &Arc<Budget>,
        page_bytes: Option<usize>,
        is_dry: bool,
    ) -> Outcome<Destination> {
        if let Some(url) = url(place)? {
            return match open_remote(url, schema, false) {
                Ok(db) => Ok(Destination::Open(Store::Remote(db))),
                Err(Failure::Engine(error)) if error.kind() == ErrorKind::Missing => {
                    Ok(Destination::NewRemote(url.to_owned(), schema.to_owned(), remote_limits()?))
                }
                Err(failure) => Err(failure),
            };
        }
        // A loss of power can undo the newest commits only. Before the copy is called finished, it is synced.
        let mut builder = Database::builder().budget(budget).durability(Durability::Buffered);
        if let Some(bytes) = page_bytes {
            builder = builder.page_bytes(bytes);
        }
        match builder.clone().read_only(is_dry).open(place) {
            Ok(db) => Ok(Destination::Open(Store::Directory(db))),
            Err(error) if error.kind() == ErrorKind::Missing => {
                let page_bytes = page_bytes.unwrap_or(limits::DEFAULT_PAGE_BYTES);
                Ok(Destination::New(place.to_owned(), Box::new(builder), page_bytes))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the page size in bytes, if the target is a directory.
    fn page_bytes(&self) -> Outcome<Option<usize>> {
        Ok(match self {
            Destination::New(.., page_bytes) => Some(*page_bytes),
            Destination::Open(Store::Directory(db)) => Some(db.stats()?.page_bytes as usize),
            Destination::NewRemote(..) | Destination::Open(Store::Remote(_)) => None,
        })
    }

    pub fn limits(&self) -> Outcome<Limits> {
        match self {
            Destination::New(.., page_bytes) => Ok(limits_of_pages(*page_bytes)),
            Destination::NewRemote(.., limits) => Ok(*limits),
            Destination::Open(store) => store.limits(),
        }
    }

    /// Returns whether tables keep their layout.
    pub fn is_directory(&self) -> bool {
        !matches!(self, Destination::NewRemote(..) | Destination::Open(Store::Remote(_)))
    }

    /// Returns whether tables keep their compression: the smallest pages cannot become smaller.
    pub fn keeps_compression(&self) -> Outcome<bool> {
        Ok(self.page_bytes()?.is_some_and(|bytes| bytes > limits::UNIT_BYTES))
    }

    /// Returns the names of the tables that exist.
    pub fn tables(&self) -> Outcome<Vec<String>> {
        let tables = match self {
            Destination::New(..) | Destination::NewRemote(..) => Vec::new(),
            Destination::Open(Store::Directory(db)) => db.tables()?,
            Destination::Open(Store::Remote(db)) => db.tables()?,
        };
        Ok(tables.iter().map(|table| table.name().to_owned()).collect())
    }

    /// Returns the open database, which is created if necessary.
    pub fn open(self) -> Outcome<Store> {
        match self {
            Destination::New(dir, builder, _) => Ok(Store::Directory(builder.create(dir)?)),
            Destination::NewRemote(url, schema, _) => Ok(Store::Remote(open_remote(&url, &schema, true)?)),
            Destination::Open(store) => Ok(store),
        }
    }
}

fn limits_of_pages(page_bytes: usize) -> Limits {
    let value = usize::try_from(limits::MAX_VALUE_BYTES).unwrap_or(usize::MAX);
    Limits::new(limits::max_key_bytes(page_bytes), value, usize::MAX)
}

/// Returns the place if it is the address of a store, and an error for addresses of another kind.
fn url(place: &Path) -> Outcome<Option<&str>> {
    let Some(text) = place.to_str() else { return Ok(None) };
    if is_of_store(place) {
        return Ok(Some(text));
    }
    match text.split_once("://") {
        Some((scheme, _)) => Err(Failure::Usage(format!(
            "`copy` takes a directory or an address that begins with postgres://, not {scheme}://; to copy \
             from a server, run it on the server's machine with the directory of the database"
        ))),
        None => Ok(None),
    }
}

/// Returns whether a place is an address.
pub fn is_url(place: &Path) -> bool {
    place.to_str().is_some_and(|text| text.contains("://"))
}

/// Returns a place for messages: an address without user, password and parameters.
pub fn shown(place: &Path) -> String {
    let text = place.display().to_string();
    let Some((scheme, rest)) = text.split_once("://") else { return text };
    let (address, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    if !address.contains('@') && parameters.contains('@') {
        // A password with a question mark, or a parameter: which of them cannot be said.
        return format!("{scheme}://...");
    }
    // The last `@` ends the password, which may have others.
    let address = address.rsplit_once('@').map_or(address, |(_, address)| address);
    format!("{scheme}://{address}")
}

/// Opens the database in a schema of a store for a copy.
#[cfg(feature = "postgres")]
fn open_remote(url: &str, schema: &str, create: bool) -> Outcome<RemoteDatabase> {
    use std::time::Duration;
    let options = postgres::Options::default().schema(schema).max_connections(4).create(create);
    // While a table is read back at one end, the snapshot of the other one is idle: for as long as that takes.
    let longest = Duration::from_secs(24 * 86_400);
    Ok(options.idle_timeout(longest).request_timeout(Duration::from_secs(600)).open(url)?)
}

#[cfg(feature = "postgres")]
fn remote_limits() -> Outcome<Limits> {
    Ok(postgres::limits())
}

#[cfg(not(feature = "postgres"))]
fn remote_limits() -> Outcome<Limits> {
    Err(without_postgres())
}

/// Returns the error of a build without a client of PostgreSQL.
#[cfg(not(feature = "postgres"))]
fn open_remote(_: &str, _: &str, _: bool) -> Outcome<RemoteDatabase> {
    Err(without_postgres())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_message_has_a_password() {
        for (place, said) in [
            (
                "postgres://app:se@cret@db:5432/shop?sslmode=require&password=secret",
                "postgres://db:5432/shop",
            ),
            ("postgresql:///shop?host=/run&password=secret", "postgresql:///shop"),
            ("postgres://app:secret@db", "postgres://db"),
            ("postgres://app:sec?ret@db/shop", "postgres://..."),
            ("data/shop", "data/shop"),
        ] {
            assert_eq!(shown(Path::new(place)), said);
        }
    }

    #[test]
    fn addresses_of_servers_are_refused() {
        assert!(url(Path::new("http://127.0.0.1:7263/shop")).is_err());
        assert!(url(Path::new("data/shop")).unwrap().is_none());
        assert!(url(Path::new("postgresql://db/shop")).unwrap().is_some());
    }
}
