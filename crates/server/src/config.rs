//! The configuration of a server.

use crate::following::Source;
use crate::shipping::Shipping;
use crate::spans::Spans;
#[cfg(feature = "remote")]
use crate::stores::Stores;
use pando::options::Value;
use pando::{Database, Durability, Result, Retention};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// The directory that holds the databases, each in a subdirectory of its own name.
    pub dir: PathBuf,
    /// The address and the port on which the server listens, unless there are `sockets`.
    pub listen: SocketAddr,
    /// Sockets that already listen, opened by a service manager for example. With any, `listen` is not used.
    pub sockets: Vec<Socket>,
    /// The path of a unix socket on which the server listens as well. The permissions of the socket decide who may
    /// connect.
    pub unix_socket: Option<PathBuf>,
    /// The certificate with which connections to the address are encrypted. With `None`, they are not.
    #[cfg(feature = "tls")]
    pub tls: Option<Certificate>,
    /// The memory of all databases together, in bytes. `None` means a quarter of the machine's memory.
    pub memory_bytes: Option<usize>,
    /// The durability of a write whose request does not set one.
    pub durability: Durability,
    /// Whether a server without tokens may accept connections from other machines.
    pub allow_anyone: bool,
    /// The origins whose pages may use the server from a browser, as in `https://app.example`. None by default.
    pub cors_origins: Vec<String>,
    /// The proxies whose headers say where requests come from. None by default.
    pub trusted_proxies: TrustedProxies,
    /// The duration of the CPU profile that is kept. With `None`, CPU time is sampled only on request.
    pub profile_window: Option<Duration>,
    /// Whether the protocol of libSQL's clients is spoken. It needs the feature `sql`.
    pub hrana: bool,
    /// The scheduled backups. With `None`, there are none.
    pub backups: Option<BackupPlan>,
    /// The code that ships the databases to a bucket. With `None`, they are not shipped.
    pub shipping: Option<Arc<dyn Shipping>>,
    /// The code that exports requests to a collector of traces. With `None`, they are not exported.
    pub spans: Option<Arc<dyn Spans>>,
    /// The remote store that keeps the databases. With `None`, the directory keeps them. With a store, the directory
    /// has only the tokens.
    #[cfg(feature = "remote")]
    pub stores: Option<Arc<dyn Stores>>,
    /// The door for clients of Redis. With `None`, there is none.
    #[cfg(feature = "redis")]
    pub redis: Option<Redis>,
    /// The databases that the server follows as a replica. With `None`, it is a primary.
    pub source: Option<Arc<dyn Source>>,
    /// The function that reads the configuration again at SIGHUP. With `None`, only the certificate is read again.
    pub reload: Option<Reload>,
    /// Limits on clients.
    pub limits: Limits,
    /// The options with which the server was started, for those who look at them. They have no effect.
    pub settings: Vec<Setting>,
}

/// An option with which the server was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The name of the option.
    pub name: String,
    /// The value of the option as text.
    pub value: String,
    /// The origin of the value: a default, a file, a variable or the command line.
    pub origin: String,
    /// The description of the option.
    pub help: String,
}

/// Reads the configuration again.
#[derive(Clone)]
pub struct Reload(Arc<dyn Fn() -> Result<Renewed> + Send + Sync>);

impl Reload {
    /// Calls `read` at each SIGHUP.
    pub fn new(read: impl Fn() -> Result<Renewed> + Send + Sync + 'static) -> Self {
        Reload(Arc::new(read))
    }

    /// Reads the configuration.
    pub(crate) fn read(&self) -> Result<Renewed> {
        (self.0)()
    }
}

impl std::fmt::Debug for Reload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reload(..)")
    }
}

/// A configuration that was read again while the server runs. Connections that are open keep the settings they began
/// with, except for the limits of bodies.
#[derive(Clone, Debug)]
pub struct Renewed {
    /// The origins whose pages may use the server from a browser.
    pub cors_origins: Vec<String>,
    /// Limits on clients. Of these, the following change: `body_bytes`, `import_bytes`, `head_bytes`, `head_timeout`,
    /// `body_timeout`, `statement_time`, `most_statement_time`, `slow`, `drain_delay`.
    pub limits: Limits,
    /// What else takes effect, outside of the server.
    pub effect: Effect,
    /// The names of changed options that take effect only when the server starts again. The log names them.
    pub fixed: Vec<String>,
}

impl Renewed {
    /// Returns the limits of a server that has `used` so far.
    pub(crate) fn limits_from(&self, used: &Limits) -> Limits {
        Limits {
            body_bytes: self.limits.body_bytes,
            import_bytes: self.limits.import_bytes,
            head_bytes: self.limits.head_bytes,
            head_timeout: self.limits.head_timeout,
            body_timeout: self.limits.body_timeout,
            statement_time: self.limits.statement_time,
            most_statement_time: self.limits.most_statement_time,
            slow: self.limits.slow,
            drain_delay: self.limits.drain_delay,
            ..used.clone()
        }
    }
}

/// What takes effect outside of the server when it has taken over a configuration, such as the level of the log.
#[derive(Clone, Default)]
pub struct Effect(Option<Arc<dyn Fn() + Send + Sync>>);

impl Effect {
    /// Calls `then` when the configuration is in use. It is not called for a configuration that cannot be used.
    pub fn new(then: impl Fn() + Send + Sync + 'static) -> Self {
        Effect(Some(Arc::new(then)))
    }

    /// Makes it take effect.
    pub(crate) fn take(&self) {
        if let Some(then) = &self.0 {
            then();
        }
    }
}

impl std::fmt::Debug for Effect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Effect(..)")
    }
}

/// A socket that listens already.
#[derive(Clone, Debug)]
pub enum Socket {
    /// A TCP socket, whose connections are encrypted if the server has a certificate.
    Tcp(Arc<TcpListener>),
    /// A unix socket.
    Unix(Arc<UnixListener>),
}

impl Config {
    /// Returns the addresses at which other machines or programs connect over TCP. A socket without an address is left
    /// out.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let of = |socket: &Socket| match socket {
            Socket::Tcp(socket) => socket.local_addr().ok(),
            Socket::Unix(_) => None,
        };
        match self.sockets.is_empty() {
            true => vec![self.listen],
            false => self.sockets.iter().filter_map(of).collect(),
        }
    }
}

/// Proxies in front of the server that say for which client they send a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies {
    /// Addresses (`10.0.0.1`), networks (`10.0.0.0/8`), or `unix` for all that connects to the unix socket.
    pub addresses: Vec<String>,
    /// Whether the proxies append to the header `Forwarded` (RFC 7239) instead of `X-Forwarded-For`. The server does
    /// not read the other header.
    pub write_forwarded: bool,
}

/// The certificate that the server shows to its clients.
#[cfg(feature = "tls")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// Files in PEM, which the server reads again when one of them changes.
    Files {
        /// The certificate, followed by those of the authorities between it and the root.
        chain: PathBuf,
        /// The private key of the certificate.
        key: PathBuf,
    },
    /// A certificate for `localhost` and the address of the server, made at its start and signed by itself. Clients
    /// cannot verify it: it is for trying things out.
    SelfSigned,
}

/// Scheduled backups of every database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupPlan {
    /// The folder in which each database has a folder of backups of its own name. It must not lie inside the served
    /// directory.
    pub to: PathBuf,
    /// The time from the begin of one backup to the begin of the next.
    pub every: Duration,
    /// The backups that are kept. Backups on which a kept backup builds are kept as well.
    pub keep: Retention,
    /// The number of bytes that a backup writes in a second at most. `None`: no limit.
    pub rate_bytes: Option<u64>,
}

/// The configuration of the door for clients of Redis.
#[cfg(feature = "redis")]
#[derive(Clone, Debug)]
pub struct Redis {
    /// The name of the database in which its tables are; created if it does not exist.
    pub database: String,
    /// The address, the durability and the limits.
    pub options: resp::Options,
}

/// Limits on clients. A request that exceeds one fails with a status and a detail that name the limit.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The longest body of a request in bytes, and therefore the longest value.
    pub body_bytes: u64,
    /// The longest body of an import in bytes. An import is one transaction, so this bounds the disk space that it can
    /// use.
    pub import_bytes: u64,
    /// The memory in bytes of all request bodies that are being received.
    pub receiving_bytes: usize,
    /// The longest head of a request in bytes: its first line and its headers.
    pub head_bytes: usize,
    /// The largest number of open connections. Further connections wait to be accepted.
    pub connections: usize,
    /// The largest number of open databases, unless more are in use.
    pub open_databases: usize,
    /// The largest number of open interactive transactions.
    pub transactions: usize,
    /// The time that an interactive transaction can stay unused before it is rolled back.
    pub transaction_idle: Duration,
    /// The largest number of values of more than 1 MiB that are written or read at a time, plus ranges that are read.
    pub streams: usize,
    /// The largest number of SQL requests that run at a time. Further requests wait.
    pub statements: usize,
    /// The time limit for the statements of a request that does not set one.
    pub statement_time: Duration,
    /// The longest time limit that a request can set.
    pub most_statement_time: Duration,
    /// The memory in bytes of SQL for all requests, including sorts, temporary tables and rows that are kept. The
    /// default is that of the databases' memory, a quarter of what the process can use, but at most 256 MiB.
    pub sql_memory_bytes: u64,
    /// The longest time that a client can take for the head of a request, and between requests.
    pub head_timeout: Duration,
    /// The longest time in total that a body can keep the server waiting. Each part that arrives extends it.
    pub body_timeout: Duration,
    /// The duration from which a request counts as slow. `/debug/slow` shows the slowest.
    pub slow: Duration,
    /// The time for which a server that is shutting down still accepts connections, while `/readyz` returns 503.
    pub drain_delay: Duration,
    /// The time that a shutdown waits for requests in progress.
    pub drain: Duration,
}

impl Config {
    /// Returns the defaults for the directory `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Config {
            dir: dir.into(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7263)),
            sockets: Vec::new(),
            unix_socket: None,
            #[cfg(feature = "tls")]
            tls: None,
            memory_bytes: None,
            durability: Durability::Sync,
            allow_anyone: false,
            cors_origins: Vec::new(),
            trusted_proxies: TrustedProxies::default(),
            profile_window: None,
            hrana: false,
            backups: None,
            shipping: None,
            spans: None,
            #[cfg(feature = "remote")]
            stores: None,
            #[cfg(feature = "redis")]
            redis: None,
            source: None,
            reload: None,
            limits: Limits::default(),
            settings: Vec::new(),
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
            drain_delay: Duration::ZERO,
            drain: Duration::from_secs(10),
        }
    }
}

/// The largest default of the memory for SQL.
const MOST_USUAL_SQL_BYTES: u64 = 256 << 20;

/// Returns the default memory of the databases: a quarter of the machine's memory or of the control group's limit, as
/// the library computes it.
pub fn share_bytes() -> usize {
    let settings = Database::builder().settings(None).unwrap_or_default();
    let memory = settings.iter().find(|setting| setting.spec.name == "memory_bytes");
    match memory.map(|setting| setting.value) {
        Some(Value::Number(bytes)) => bytes as usize,
        _ => MOST_USUAL_SQL_BYTES as usize,
    }
}

/// Returns the default memory of SQL if databases get `share_bytes`.
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
