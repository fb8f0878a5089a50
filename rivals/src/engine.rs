//! What the workloads ask of an engine: one ordered table of bytes, sessions, transactions.
//!
//! The trait is the smallest that all engines can answer without giving up what they are good at: values are shown
//! where they lie, a write transaction sees its own writes where the engine can, an insert answers duplicates. Calls
//! are dynamic; the two or three nanoseconds that costs are the same for everybody.

use std::fmt;
use std::path::PathBuf;

/// How long a commit lasts.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    clap::ValueEnum,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// It survives a power loss.
    Sync,
    /// It survives a killed process; the operating system has it.
    Buffered,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Durability::Sync => "sync",
            Durability::Buffered => "buffered",
        })
    }
}

/// How an engine is opened.
#[derive(Clone, Debug)]
pub struct Config {
    /// An empty directory, or one with a database of the same engine.
    pub dir: PathBuf,
    /// What every commit of this run lasts.
    pub durability: Durability,
    /// Bytes for its caches. Engines that read through a memory map have none to limit.
    pub cache_bytes: usize,
    /// The records are many times what the caches hold: known to engines that choose options by that.
    pub outgrows_caches: bool,
}

/// Why there are no figures.
#[derive(Debug)]
pub enum Failure {
    /// The engine does not have this; the reason goes under the table.
    Unsupported(&'static str),
    /// It failed.
    Engine(Box<dyn std::error::Error + Send + Sync>),
    /// It answered wrongly.
    Wrong(String),
}

/// What everything here answers.
pub type Outcome<T> = Result<T, Failure>;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Unsupported(why) => write!(f, "not supported: {why}"),
            Failure::Engine(error) => write!(f, "{error}"),
            Failure::Wrong(what) => write!(f, "wrong answer: {what}"),
        }
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Engine(Box::new(error))
    }
}

/// Fails as a wrong answer unless `right`.
pub fn ensure(right: bool, what: impl FnOnce() -> String) -> Outcome<()> {
    if right { Ok(()) } else { Err(Failure::Wrong(what())) }
}

/// An open engine with one table.
pub trait Engine: Sync {
    /// What one thread works through: a connection where the engine has such a thing.
    fn session(&self) -> Outcome<Box<dyn Session + '_>>;

    /// Returns when everything committed lies where the engine keeps it at rest: log absorbed, memtables flushed. What
    /// an engine cannot be asked for is left out.
    fn settle(&self) -> Outcome<()>;
}

/// A unit of work inside a write transaction. It may be called again if the engine finds a conflict at commit.
pub type WriteWork<'a> = &'a mut dyn FnMut(&mut dyn Writer) -> Outcome<()>;

/// A unit of work inside a read transaction.
pub type ReadWork<'a> = &'a mut dyn FnMut(&mut dyn Reader) -> Outcome<()>;

/// One thread's access.
pub trait Session {
    /// Begins a write transaction, does the work, commits as durably as configured.
    fn write(&mut self, work: WriteWork<'_>) -> Outcome<()>;

    /// Begins a read transaction, does the work, ends it.
    fn read(&mut self, work: ReadWork<'_>) -> Outcome<()>;
}

/// Shows a value.
pub type See<'a> = &'a mut dyn FnMut(&[u8]);

/// Shows a record.
pub type SeeRecord<'a> = &'a mut dyn FnMut(&[u8], &[u8]);

/// What a read transaction can do.
pub trait Reader {
    /// Shows the value of `key`; answers whether there is one.
    fn get(&mut self, key: &[u8], see: See<'_>) -> Outcome<bool>;

    /// Shows up to `limit` records from `from` on, in order of their keys; answers how many there were.
    fn scan(&mut self, from: &[u8], limit: usize, see: SeeRecord<'_>) -> Outcome<usize>;
}

/// What a write transaction can do.
pub trait Writer {
    /// Adds a record; answers `false`, and changes nothing, if the key is there already.
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Outcome<bool>;

    /// Sets a record.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()>;

    /// Removes a record that is there.
    fn delete(&mut self, key: &[u8]) -> Outcome<()>;

    /// Shows the value of `key`; answers whether there is one.
    fn get(&mut self, key: &[u8], see: See<'_>) -> Outcome<bool>;
}
