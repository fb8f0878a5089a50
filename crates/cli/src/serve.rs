//! `serve`: serves a directory of databases over HTTP.

use crate::activation;
use crate::args::Cli;
use crate::config_file::expand;
use crate::failure::{Doing, Failure, Outcome};
use crate::logging::{self, Level};
use crate::open::WriteArgs;
use crate::output::say;
use crate::remote::refuse_address;
use crate::schedule::ScheduleArgs;
use crate::settings;
#[cfg(feature = "ship")]
use crate::ship::serving::Role;
use crate::store::StoreArgs;
use crate::text;
use clap::{Args, CommandFactory};
use server::following::Source;
use server::log::Log;
use server::{Config, Reload, Server, TrustedProxies};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tracing_subscriber::filter::LevelFilter;

const EXAMPLES: &str = "\
Examples:
  pando serve data
  curl -X PUT --data-binary hello 'http://127.0.0.1:7263/v0/entity?id=greeting'
  curl 'http://127.0.0.1:7263/v0/entity?id=greeting'

A browser finds a dashboard at http://127.0.0.1:7263/ and the API's documentation at /docs.
SIGTERM and Ctrl-C shut the server down: it accepts no more connections, completes the requests in progress
and syncs everything. At SIGHUP it reads its certificate and its configuration again; body-timeout, cors-origin,
drain-delay, head-timeout, log, max-body, max-head, max-import, max-sql-timeout, slow and sql-timeout take
effect, and the log names other options that have changed. It ignores SIGUSR1 and SIGUSR2.
You can also set an option by the environment variable beside it, or in a TOML file (--config) under its name
without the dashes, as in `max-body = \"1G\"`. The command line overrides variables, and variables override
the file. `--hrana`, `--allow-anyone` and `--tls-self-signed` have no variable.

Units: SECONDS is a whole number without a unit, as in 30. TIME is a number with ms, s, m, h or d, as in 6h. SIZE is a
number of bytes, or a number with K, M or G (powers of 1024), as in 64M.";

// The sections of `pando serve --help`, in the order in which they are first named.
const NETWORK: &str = "Network and TLS";
const STORE: &str = "Remote store";
const DATABASES: &str = "Databases and memory";
const LIMITS: &str = "Limits of requests";
const SQL: &str = "SQL";
const SHUTDOWN: &str = "Shutdown";
const LOGS: &str = "Logs and profiles";
#[cfg(any(feature = "redis", feature = "sql"))]
const REDIS: &str = "Redis and Hrana";
const BACKUPS: &str = "Backups";
const REPLICA: &str = "Replica";
#[cfg(feature = "ship")]
const SHIPPING: &str = "Shipping";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_override_self = true)]
#[command(mut_arg("memory", |arg| arg.env("PANDO_MEMORY")))]
#[command(mut_arg("durability", |arg| arg.env("PANDO_DURABILITY")))]
pub struct ServeArgs {
    /// The directory that holds the databases, each in a subdirectory of its own name; created if it does not exist.
    /// With --store, it holds only the tokens
    dir: PathBuf,
    /// Read options from this TOML file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Listen on this address and port; port 0 picks a free port. Sockets that a service manager such as systemd passes
    /// (LISTEN_FDS) take its place
    #[arg(long, help_heading = NETWORK, value_name = "ADDR", default_value = "127.0.0.1:7263",
          env = "PANDO_LISTEN", value_parser = parse_address)]
    listen: SocketAddr,
    /// Listen on this unix socket as well; the permissions of the file decide who may connect
    #[arg(long, help_heading = NETWORK, value_name = "PATH", env = "PANDO_UNIX_SOCKET")]
    unix_socket: Option<PathBuf>,
    #[cfg(feature = "tls")]
    #[command(flatten, next_help_heading = NETWORK)]
    tls: TlsArgs,
    #[command(flatten, next_help_heading = STORE)]
    store: StoreArgs,
    #[command(flatten, next_help_heading = DATABASES)]
    write: WriteArgs,
    /// The largest body of a request, which is also the largest value
    #[arg(long, help_heading = LIMITS, value_name = "SIZE", default_value = "64M", env = "PANDO_MAX_BODY",
          value_parser = text::parse_size)]
    max_body: usize,
    /// The largest import of NDJSON or CSV, which is one transaction
    #[arg(long, help_heading = LIMITS, value_name = "SIZE", default_value = "16G", env = "PANDO_MAX_IMPORT",
          value_parser = text::parse_size)]
    max_import: usize,
    /// The largest head of a request: its first line and its headers
    #[arg(long, help_heading = LIMITS, value_name = "SIZE", default_value = "64K", env = "PANDO_MAX_HEAD",
          value_parser = text::parse_size)]
    max_head: usize,
    /// Accept at most N connections at a time; more connections wait
    #[arg(long, help_heading = LIMITS, value_name = "N", default_value_t = 16_384,
          env = "PANDO_MAX_CONNECTIONS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_connections: u32,
    /// Transfer at most N long values and ranges at a time
    #[arg(long, help_heading = LIMITS, value_name = "N", default_value_t = 64, env = "PANDO_MAX_STREAMS",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_streams: u32,
    /// Run at most N requests of SQL at a time; 0 rejects all of them
    #[arg(long, help_heading = SQL, value_name = "N", default_value_t = 16, env = "PANDO_MAX_SQL",
          value_parser = clap::value_parser!(u32).range(0..=256))]
    max_sql: u32,
    /// Stop the statements of a request after SECONDS, unless the request sets `timeout_ms`; at most --max-sql-timeout
    #[arg(long, help_heading = SQL, value_name = "SECONDS", default_value_t = 10, env = "PANDO_SQL_TIMEOUT",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    sql_timeout: u64,
    /// The longest `timeout_ms` that a request may set, in SECONDS
    #[arg(long, help_heading = SQL, value_name = "SECONDS", default_value_t = 60,
          env = "PANDO_MAX_SQL_TIMEOUT", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    max_sql_timeout: u64,
    /// Memory for all SQL statements together, including sorts and temporary tables [default: a quarter of the memory
    /// of the machine or control group, at most 256M]
    #[arg(long, help_heading = SQL, value_name = "SIZE",
          env = "PANDO_SQL_MEMORY", value_parser = text::parse_size)]
    sql_memory: Option<usize>,
    /// Close a connection that takes longer than SECONDS to send the head of a request, or that is idle for SECONDS
    #[arg(long, help_heading = LIMITS, value_name = "SECONDS", default_value_t = 60,
          env = "PANDO_HEAD_TIMEOUT", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    head_timeout: u64,
    /// Close a connection whose request body keeps the server waiting longer than SECONDS; every 256 bytes received
    /// extend this by one second
    #[arg(long, help_heading = LIMITS, value_name = "SECONDS", default_value_t = 30,
          env = "PANDO_BODY_TIMEOUT", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    body_timeout: u64,
    /// At shutdown, keep accepting connections for SECONDS while /readyz says 503, so that load balancers notice; a
    /// second signal ends this
    #[arg(long, help_heading = SHUTDOWN, value_name = "SECONDS", default_value_t = 0,
          env = "PANDO_DRAIN_DELAY", value_parser = clap::value_parser!(u64).range(0..=3_600))]
    drain_delay: u64,
    /// At shutdown, wait at most SECONDS for requests in progress
    #[arg(long, help_heading = SHUTDOWN, value_name = "SECONDS", default_value_t = 10, env = "PANDO_DRAIN",
          value_parser = clap::value_parser!(u64).range(0..=3_600))]
    drain: u64,
    /// Keep at most N databases open, unless more are in use; other databases are opened on request
    #[arg(long, help_heading = DATABASES, value_name = "N", default_value_t = 64, env = "PANDO_MAX_OPEN",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_open: u32,
    /// Keep at most N interactive transactions open
    #[arg(long, help_heading = LIMITS, value_name = "N", default_value_t = 256,
          env = "PANDO_MAX_TRANSACTIONS", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    max_transactions: u32,
    /// Roll back an interactive transaction that was not used for SECONDS
    #[arg(long, help_heading = LIMITS, value_name = "SECONDS", default_value_t = 30,
          env = "PANDO_TRANSACTION_IDLE", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    transaction_idle: u64,
    /// List requests that take MS milliseconds or longer as slow; the dashboard and /debug/slow show the slowest
    #[arg(long, help_heading = LOGS, value_name = "MS", default_value_t = 10, env = "PANDO_SLOW",
          value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    slow: u64,
    /// Export requests as traces to the OpenTelemetry collector at URL, as in http://localhost:4318 (OTLP over HTTP).
    /// The OTEL_* variables of OpenTelemetry apply: sampler, headers, name of the service, size of batches
    #[cfg(feature = "otlp")]
    #[arg(long, help_heading = LOGS, value_name = "URL", env = "PANDO_OTLP", hide_env_values = true)]
    otlp: Option<String>,
    /// Keep a CPU profile of the last SECONDS for /debug/profile?last=...; 0 samples only on request
    #[arg(long, help_heading = LOGS, value_name = "SECONDS", default_value_t = 0,
          env = "PANDO_PROFILE_WINDOW", value_parser = clap::value_parser!(u64).range(0..=600))]
    profile_window: u64,
    /// Let pages of this origin use the server from a browser (CORS), as in `https://app.example`; separate several by
    /// commas [default: none]
    #[arg(long, help_heading = NETWORK, value_name = "ORIGIN",
          env = "PANDO_CORS_ORIGIN", value_delimiter = ',')]
    cors_origin: Vec<String>,
    /// Log the client's address that this proxy reports instead of the proxy's own. PROXY is an address, a network as
    /// in `10.0.0.0/8`, or `unix` for the unix socket; separate several by commas [default: none]
    #[arg(long, help_heading = NETWORK, value_name = "PROXY",
          env = "PANDO_TRUSTED_PROXY", value_delimiter = ',')]
    trusted_proxy: Vec<String>,
    /// The header in which the trusted proxies report the address of a client. The server ignores the other header
    #[arg(long, help_heading = NETWORK, value_name = "HEADER", default_value = "x-forwarded-for",
          env = "PANDO_PROXY_HEADER", value_parser = ["x-forwarded-for", "forwarded"])]
    proxy_header: String,
    /// Accept connections from other machines although there are no tokens: everyone who can connect can read and
    /// change everything
    #[arg(long, help_heading = NETWORK)]
    allow_anyone: bool,
    /// Speak Hrana, the protocol of libSQL's clients, at /v1/databases/NAME/hrana/ of each database
    #[cfg(feature = "sql")]
    #[arg(long, help_heading = REDIS)]
    hrana: bool,
    #[command(flatten, next_help_heading = BACKUPS)]
    schedule: ScheduleArgs,
    #[cfg(feature = "redis")]
    #[command(flatten, next_help_heading = REDIS)]
    redis: crate::redis::RedisArgs,
    #[command(flatten, next_help_heading = REPLICA)]
    follow: crate::follow::serving::FollowArgs,
    #[cfg(feature = "ship")]
    #[command(flatten, next_help_heading = SHIPPING)]
    ship: crate::ship::serving::ServeShipArgs,
    /// How much the server logs on standard error: `info` logs each request, `debug` also the steps of checkpoints.
    /// No request waits for the log: if its reader is too slow, lines are dropped and counted in /metrics
    #[arg(long, help_heading = LOGS, value_name = "LEVEL", default_value = "warn", env = "PANDO_LOG",
          value_parser = ["off", "error", "warn", "info", "debug"])]
    log: String,
}

/// How connections to the address are encrypted.
#[cfg(feature = "tls")]
#[derive(Args, Debug)]
struct TlsArgs {
    /// Encrypt connections with the certificate in this PEM file, followed by those of its authorities. The server
    /// reads it again when it changes, and at SIGHUP
    #[arg(long, value_name = "FILE", env = "PANDO_TLS_CERT", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", env = "PANDO_TLS_KEY", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Encrypt connections with a certificate that the server makes for itself at its start. Clients cannot verify it:
    /// use it for trying things out (`curl --insecure`)
    #[arg(long, conflicts_with_all = ["tls_cert", "tls_key"])]
    tls_self_signed: bool,
}

#[cfg(feature = "tls")]
impl TlsArgs {
    fn certificate(self) -> Option<server::Certificate> {
        match (self.tls_cert, self.tls_key) {
            (Some(chain), Some(key)) => Some(server::Certificate::Files { chain, key }),
            _ => self.tls_self_signed.then_some(server::Certificate::SelfSigned),
        }
    }
}

impl ServeArgs {
    /// Returns the directory that is served.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Refuses options that contradict each other.
    pub fn check(&self) -> Outcome {
        let (usual, most) = (self.sql_timeout, self.max_sql_timeout);
        if usual <= most {
            return Ok(());
        }
        Err(Failure::Usage(format!(
            "--sql-timeout is {usual} s, which is longer than --max-sql-timeout, {most} s: lower the one or \
             raise the other"
        )))
    }

    /// Sets what a running server takes over when it reads its configuration again.
    pub fn set_limits(&self, config: &mut Config) {
        config.cors_origins.clone_from(&self.cors_origin);
        let limits = &mut config.limits;
        limits.body_bytes = self.max_body as u64;
        limits.import_bytes = self.max_import as u64;
        limits.head_bytes = self.max_head.max(LEAST_HEAD_BYTES);
        limits.head_timeout = Duration::from_secs(self.head_timeout);
        limits.body_timeout = Duration::from_secs(self.body_timeout);
        limits.slow = Duration::from_millis(self.slow);
        limits.statement_time = Duration::from_secs(self.sql_timeout);
        limits.most_statement_time = Duration::from_secs(self.max_sql_timeout);
        limits.drain_delay = Duration::from_secs(self.drain_delay);
    }

    /// Returns the level of the log.
    pub fn log_level(&self) -> LevelFilter {
        self.log.parse().expect("the argument takes these alone")
    }

    /// Refuses options of a server with databases in its directory.
    fn check_store(&self) -> Outcome {
        #[cfg(feature = "ship")]
        let ships = self.ship.is_given();
        #[cfg(not(feature = "ship"))]
        let ships = false;
        let given = [("--ship", ships), ("--follow", self.follow.follow.is_some())];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(Failure::Usage(format!("`{option}` cannot be used with `--store`"))),
            None => Ok(()),
        }
    }

    /// Returns what the server follows, if it begins as a replica. A server that ships first restores an empty
    /// directory.
    fn source(&self, dir: &Path) -> Outcome<Option<Arc<dyn Source>>> {
        if self.store.is_given() {
            return self.check_store().map(|()| None);
        }
        #[cfg(feature = "ship")]
        self.ship.check(dir, self.follow.follow.as_deref())?;
        #[cfg(feature = "ship")]
        if self.follow.follow.is_none()
            && let Some((url, role)) = self.ship.prepare(dir)?
        {
            return match role {
                Role::Primary => Ok(None),
                Role::Replica => self.follow.source_at(url).map(Some),
            };
        }
        let _ = dir;
        self.follow.source()
    }
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "give an address and a port, as in 127.0.0.1:7263 or [::1]:7263".to_owned())
}

/// Runs `pando serve`. `reload` returns what reads its options again at SIGHUP, if anything does, and sets the level of
/// the log then.
pub fn run(args: ServeArgs, reload: impl FnOnce(Level) -> Option<Reload>) -> Outcome {
    let log = Log::to_stderr().map_err(|cause| Failure::system("write the log", cause))?;
    log.take_panics();
    let level = logging::start(args.log_level(), log.clone());
    #[cfg(feature = "ship")]
    let bucket = args.ship.url().or(args.follow.follow.as_deref()).unwrap_or_default().to_owned();
    let outcome = serve(args, reload(level));
    #[cfg(feature = "ship")]
    let outcome = outcome.map_err(crate::ship::bucket::named(&bucket));
    if let Err(failure) = &outcome {
        // The failure is written through the log, because the reader of standard error may have stalled.
        let _ = failure.write(&mut log.line(), Doing::Creating);
    }
    log.finish(LAST_LINES);
    outcome.map_err(|failure| Failure::Reported(failure.code()))
}

/// Returns the options of the server in a command line, with what set each.
fn settings_of(words: Vec<OsString>) -> Vec<server::Setting> {
    match expand(words.clone(), Cli::command) {
        Ok(expanded) => settings::of(&Cli::command(), &words, expanded),
        Err(_) => Vec::new(),
    }
}

fn serve(args: ServeArgs, reload: Option<Reload>) -> Outcome {
    refuse_address(
        &args.dir,
        "name the directory of the databases; --listen sets the address of the server",
    )?;
    args.check()?;
    let source = args.source(&args.dir)?;
    let mut config = Config::new(&args.dir);
    args.set_limits(&mut config);
    config.listen = args.listen;
    config.sockets = activation::sockets()?;
    config.unix_socket = args.unix_socket;
    #[cfg(feature = "tls")]
    {
        config.tls = args.tls.certificate();
    }
    config.memory_bytes = args.write.memory.memory;
    config.durability = args.write.durability.into();
    config.allow_anyone = args.allow_anyone;
    config.trusted_proxies =
        TrustedProxies { addresses: args.trusted_proxy, write_forwarded: args.proxy_header == "forwarded" };
    config.profile_window = (args.profile_window > 0).then(|| Duration::from_secs(args.profile_window));
    #[cfg(feature = "sql")]
    {
        config.hrana = args.hrana;
    }
    config.reload = reload;
    let limits = &mut config.limits;
    limits.connections = args.max_connections as usize;
    limits.open_databases = args.max_open as usize;
    limits.transactions = args.max_transactions as usize;
    limits.transaction_idle = Duration::from_secs(args.transaction_idle);
    limits.streams = args.max_streams as usize;
    limits.statements = args.max_sql as usize;
    let usual = usize::try_from(limits.sql_memory_bytes).unwrap_or(usize::MAX);
    limits.sql_memory_bytes = args.sql_memory.unwrap_or(usual).max(LEAST_SQL_MEMORY_BYTES) as u64;
    limits.drain = Duration::from_secs(args.drain);
    #[cfg(feature = "ship")]
    {
        config.shipping = args.ship.shipping(&config.dir, args.follow.follow.as_deref())?;
    }
    #[cfg(feature = "otlp")]
    let traces = args.otlp.as_deref().map(crate::traces::Traces::start).transpose()?.map(Arc::new);
    #[cfg(feature = "otlp")]
    {
        config.spans = traces.clone().map(|traces| traces as _);
    }
    #[cfg(feature = "redis")]
    args.redis.add_to(&mut config);
    args.schedule.add_to(&mut config);
    config.source = source;
    args.store.add_to(&mut config)?;
    config.settings = settings_of(std::env::args_os().collect());
    let dir = config.dir.display().to_string();
    let server = Server::start(config)?;
    let scheme = if server.is_encrypted() { "https" } else { "http" };
    // The server runs even if this line cannot be written.
    let _ = match server.address() {
        Some(address) => say!("pando serves {dir} at {scheme}://{address}"),
        None => say!("pando serves {dir} at unix sockets"),
    };
    #[cfg(feature = "redis")]
    if let Some(address) = server.redis_address() {
        let _ = say!("clients of Redis connect to {address}");
    }
    // A service manager that waits for the server learns that it can be used. Without one, this does nothing.
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]);
    let ended = server.run();
    #[cfg(feature = "otlp")]
    traces.iter().for_each(|traces| traces.finish());
    Ok(ended?)
}

/// How long the end of the server waits for the last lines of its log.
const LAST_LINES: Duration = Duration::from_secs(2);
/// The least memory with which SQLite is useful.
const LEAST_SQL_MEMORY_BYTES: usize = 4 << 20;
/// The least head size that the HTTP library accepts.
const LEAST_HEAD_BYTES: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Command;
    use clap::Parser;

    fn parsed(file: &str, words: &[&str]) -> Result<ServeArgs, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pando.toml");
        std::fs::write(&path, file).unwrap();
        let words = ["pando", "serve", "data", "--config", path.to_str().unwrap()]
            .into_iter()
            .chain(words.iter().copied());
        let words =
            expand(words.map(Into::into).collect(), Cli::command).map_err(|failure| match failure {
                Failure::Usage(message) => message,
                other => format!("{other:?}"),
            })?;
        match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Command::Serve(args) => Ok(*args),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn a_file_sets_options_and_the_command_line_comes_before_it() {
        let file =
            "listen = '127.0.0.1:1'\nmax-body = '1M'\ndrain = 3\nallow-anyone = true\ndurability = 'lazy'";
        let args = parsed(file, &["--drain", "5"]).unwrap();
        assert_eq!((args.listen.port(), args.max_body, args.drain, args.allow_anyone), (1, 1 << 20, 5, true));
        assert_eq!(args.write.durability, crate::open::DurabilityName::Lazy);
        for (bad, said) in [
            ("max-body = 'x'", "--max-body <SIZE>"),
            ("listen = 'here'", "as in 127.0.0.1:7263"),
            ("durability = 'never'", "[possible values: sync, buffered, lazy]"),
            ("lissten = '127.0.0.1:1'", "no option `lissten`; there is `listen`"),
            ("nothing = 1", "no option `nothing`: `pando serve --help`"),
            ("help = true", "no option `help`"),
            ("drain = [1]", "`drain` is of type array"),
            ("drain", "line 1"),
            ("drain = 1.5", "`drain` is of type float"),
        ] {
            let message = parsed(bad, &[]).unwrap_err();
            assert!(message.contains("pando.toml: ") && message.contains(said), "{bad}: {message}");
        }
    }

    #[test]
    fn each_option_says_what_set_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pando.toml");
        std::fs::write(&path, "max-body = '1M'\ndrain = 3\nallow-anyone = true").unwrap();
        let words = ["pando", "serve", "data", "--config", path.to_str().unwrap(), "--drain", "5"];
        let settings = settings_of(words.into_iter().map(Into::into).collect());
        let shown = |name: &str| {
            let one = settings.iter().find(|one| one.name == name).expect(name);
            (one.value.clone(), one.origin.clone())
        };
        let of = |value: &str, origin: &str| (value.to_owned(), origin.to_owned());
        assert_eq!(shown("max-body"), of("1M", "the file in --config"));
        assert_eq!(shown("drain"), of("5", "the command line"));
        assert_eq!(shown("allow-anyone"), of("true", "the file in --config"));
        assert_eq!(shown("max-head"), of("64K", "the default"));
        assert_eq!(shown("unix-socket"), of("", "the default"));
        assert_eq!(settings_of(vec!["pando".into(), "tables".into(), "data".into()]), []);
    }
}
