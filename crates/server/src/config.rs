//! What can be set.

use pando::options::Value;
use pando::{Database, Durability};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// How a server is run.
#[derive(Clone, Debug)]
pub struct Config {
    /// The directory that holds the databases, each in a directory of its name.
    pub dir: PathBuf,
    /// Where connections are accepted.
    pub listen: SocketAddr,
    /// The memory of all databases together, in bytes; `None`: a quarter of the machine's.
    pub memory_bytes: Option<usize>,
    /// What an acknowledged write survives, unless its request says otherwise.
    pub durability: Durability,
    /// Whether a server that others can reach may run without tokens.
    pub allow_anyone: bool,
    /// Of how many last seconds the CPU profile is kept; `None`: the server is watched only while somebody asks.
    pub profile_window: Option<Duration>,
    /// Bounds on what clients can take.
    pub limits: Limits,
}

/// Bounds on what clients can take. Whoever meets one is told so, with a status of its own.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The longest body of a request, and so the longest value.
    pub body_bytes: u64,
    /// The longest body of an import, which is one transaction: what it may take of the disk.
    pub import_bytes: u64,
    /// The memory of bodies that are being received, all together.
    pub receiving_bytes: usize,
    /// The longest head of a request: its line and its headers.
    pub head_bytes: usize,
    /// Connections at a time; more wait to be accepted.
    pub connections: usize,
    /// Databases that are open at a time, unless more are in use.
    pub open_databases: usize,
    /// Interactive transactions at a time.
    pub transactions: usize,
    /// How long an interactive transaction may go unused.
    pub transaction_idle: Duration,
    /// Values of more than 1 MiB that are written or read at a time, and ranges that are read.
    pub streams: usize,
    /// Requests of SQL that run at a time.
    pub statements: usize,
    /// How long the statements of one may take, unless it asks for another time.
    pub statement_time: Duration,
    /// The most that it may ask for.
    pub most_statement_time: Duration,
    /// What SQL may take for all of them, sorts, temporary tables and held rows included. By default as much as
    /// databases get by default, a quarter of what the process may use, and at most 256 MiB.
    pub sql_memory_bytes: u64,
    /// How long a client may take for the head of a request, and to begin the next one.
    pub head_timeout: Duration,
    /// How long a body may keep the server waiting, all in all; what comes of it makes up for that.
    pub body_timeout: Duration,
    /// A request that takes longer is kept for who looks at `/debug/slow`.
    pub slow: Duration,
    /// How long an orderly end waits for requests under way.
    pub drain: Duration,
}

impl Config {
    /// The defaults for `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Config {
            dir: dir.into(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7263)),
            memory_bytes: None,
            durability: Durability::Sync,
            allow_anyone: false,
            profile_window: None,
            limits: Limits::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body_bytes: 64 << 20,
            import_bytes: 16 << 30,
            receiving_bytes: 64 << 20,
            head_bytes: 64 << 10,
            connections: 16_384,
            open_databases: 64,
            transactions: 256,
            transaction_idle: Duration::from_secs(30),
            streams: 64,
            statements: 16,
            statement_time: Duration::from_secs(10),
            most_statement_time: Duration::from_secs(60),
            sql_memory_bytes: usual_sql_bytes(share_bytes()),
            head_timeout: Duration::from_secs(60),
            body_timeout: Duration::from_secs(30),
            slow: Duration::from_millis(10),
            drain: Duration::from_secs(10),
        }
    }
}

/// Memory for SQL is no more by default, however much there is.
const MOST_USUAL_SQL_BYTES: u64 = 256 << 20;

/// The memory that databases get unless it is said: a quarter of the machine's, or of the control group's limit, as the
/// library reckons it.
pub fn share_bytes() -> usize {
    let settings = Database::builder().settings(None).unwrap_or_default();
    let memory = settings.iter().find(|setting| setting.spec.name == "memory_bytes");
    match memory.map(|setting| setting.value) {
        Some(Value::Number(bytes)) => bytes as usize,
        _ => MOST_USUAL_SQL_BYTES as usize,
    }
}

/// What SQL gets by default, where databases get `share_bytes`.
fn usual_sql_bytes(share_bytes: usize) -> u64 {
    MOST_USUAL_SQL_BYTES.min(share_bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sql_gets_no_more_than_the_machine_or_the_group_allows() {
        // A container of 96 MiB, of which databases get a quarter.
        assert_eq!(usual_sql_bytes(24 << 20), 24 << 20);
        assert_eq!(usual_sql_bytes(16 << 30), MOST_USUAL_SQL_BYTES);
        let all = Database::builder().settings(None).unwrap();
        let share = all.iter().find(|setting| setting.spec.name == "memory_bytes").unwrap();
        assert!(matches!(share.value, Value::Number(bytes) if bytes >= Limits::default().sql_memory_bytes));
    }
}
