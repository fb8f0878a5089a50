//! `serve --ship`: ships each database of a server to its own folder of the bucket.

use super::bucket;
use super::command::ShippingArgs;
use crate::failure::{Failure, Outcome};
use crate::follow::is_server;
use crate::output::say;
use clap::{Args, ValueEnum};
use pando::{Database, Error, ErrorKind, Result};
use server::DEFAULT_DATABASE;
use server::shipping::{Ship, Shipped, Shipping};
use ship::{Bucket, Goal, Shipper, State};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The moment at which a write gets its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Respond when the write is durable here; the bucket follows within the interval
    Async,
    /// Respond when the write is durable here and in the bucket
    Sync,
}

/// What is done if another server holds the bucket from which an empty directory is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Held {
    /// Serve as a replica of the bucket, until `pando promote`
    Replica,
    /// End with an error
    Refuse,
    /// Restore, take over, and fence the other server
    TakeOver,
}

/// What a server that ships begins as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It accepts writes, and ships them.
    Primary,
    /// It follows the bucket.
    Replica,
}

/// Options of `serve`.
#[derive(Args, Clone, Debug)]
pub struct ServeShipArgs {
    /// Ship each database to a folder of its own name below URL: s3://, gs://, az://, file:/// or the path of a folder;
    /// `pando ship --help` names the environment variables for credentials
    #[arg(long, value_name = "URL", env = "PANDO_SHIP")]
    ship: Option<String>,
    /// Respond to writes when they are durable here (async), or when they are also in the bucket (sync)
    #[arg(long, value_enum, value_name = "MODE", default_value_t = Mode::Async, env = "PANDO_SHIP_MODE")]
    ship_mode: Mode,
    /// What to do if the directory is empty, and the server that last shipped to the bucket has not shut down in order,
    /// so that it may be alive. (If it has, an empty directory is restored from the bucket)
    #[arg(long, value_enum, value_name = "ACTION", default_value_t = Held::Replica, env = "PANDO_SHIP_HELD")]
    ship_held: Held,
    #[command(flatten)]
    shipping: ShippingArgs,
}

impl ServeShipArgs {
    /// Returns whether databases are shipped.
    pub fn is_given(&self) -> bool {
        self.ship.is_some()
    }

    /// Returns the address of the bucket.
    pub fn url(&self) -> Option<&str> {
        self.ship.as_deref()
    }

    /// Refuses to ship to, or to `follow`, a folder inside the directory that is served.
    pub fn check(&self, dir: &Path, follow: Option<&str>) -> Outcome {
        let follow = follow.filter(|address| !is_server(address));
        let mut buckets = self.ship.as_deref().into_iter().chain(follow);
        buckets.try_for_each(|url| bucket::check_outside(url, dir, "the served directory"))
    }

    /// Returns the code that ships the databases of the server in `dir`, if they are shipped.
    /// A replica of the bucket `follows` ships to it once it has become the primary.
    pub fn shipping(&self, dir: &Path, follows: Option<&str>) -> Result<Option<Arc<dyn Shipping>>> {
        let follows = follows.filter(|address| !is_server(address));
        if let (Some(ship), Some(follows)) = (&self.ship, follows)
            && ship != follows
        {
            let message = format!(
                "a replica of {follows} can ship only to that bucket, and not to {ship}: leave out --ship, \
                 or give it the address of --follow"
            );
            return Err(Error::invalid(message));
        }
        let Some(url) = self.ship.as_deref().or(follows) else { return Ok(None) };
        // A replica never creates the bucket that it follows.
        let connect = if follows.is_some() { Bucket::connect_existing } else { Bucket::connect };
        let (bucket, sync) = (connect(url)?, self.ship_mode == Mode::Sync);
        Ok(Some(Arc::new(All { bucket, sync, shipping: self.shipping.clone(), dir: dir.to_owned() })))
    }
}

impl ServeShipArgs {
    /// Prepares the directory of a server that ships: restores it if it is empty. Returns the bucket, and what the
    /// server begins as; `None` if it does not ship.
    ///
    /// A directory with a default database is complete: that one is restored last. A directory that is to take over is
    /// a replica's until it has done so, because the other server may write in the meantime: what was restored
    /// continues the lineage only after the other server was fenced, and the rest was applied.
    pub fn prepare(&self, dir: &Path) -> Outcome<Option<(&str, Role)>> {
        let Some(url) = &self.ship else { return Ok(None) };
        let bucket = Bucket::connect(url)?;
        let followed = server::followed_by(dir)?;
        if dir.join(DEFAULT_DATABASE).is_dir() && followed.is_none() {
            return Ok(Some((url, Role::Primary)));
        }
        let of = |name: &str| bucket::of_database(&bucket, name);
        let mut names = bucket::databases(&bucket, |name| Ok(of(name)?.dropped_ms()?.is_none()))?;
        names.sort_by_key(|name| name == DEFAULT_DATABASE);
        let mut held = Vec::new();
        for name in &names {
            if of(name)?.is_held()? {
                held.push(&**name);
            }
        }
        if !held.is_empty() && self.ship_held != Held::TakeOver {
            if self.ship_held == Held::Replica {
                tracing::warn!(
                    bucket = url,
                    databases = held.join(", "),
                    "this server begins as a replica: the server that last shipped these databases has not \
                     released them, and may be alive. `pando promote` makes this server the primary"
                );
                return Ok(Some((url, Role::Replica)));
            }
            let message = format!(
                "the server that last shipped to {url} has not shut down in order, and may be alive; start \
                 with --ship-held replica to follow it, or with --ship-held take-over to replace and fence it"
            );
            return Err(Error::new(ErrorKind::Mismatch, message).into());
        }
        let takes_over = followed.is_some() || !held.is_empty();
        if followed.is_none() && takes_over {
            let created = std::fs::create_dir_all(dir);
            created.map_err(|cause| Failure::system(format_args!("create {}", dir.display()), cause))?;
            server::mark(dir, url)?;
        }
        for name in names.iter().filter(|name| !dir.join(name).is_dir()) {
            if *name != DEFAULT_DATABASE && !of(name)?.has_base()? {
                tracing::warn!(database = %name, "nothing is restored: its server has shipped no base of it");
                continue;
            }
            let report = ship::restore(&of(name)?, Goal::Newest, dir.join(name), &mut |_| {})?;
            if report.dropped_ms.is_some() {
                // Its server has dropped it a moment ago.
                let removed = std::fs::remove_dir_all(dir.join(name));
                removed.map_err(|cause| Failure::system(format_args!("remove {name}"), cause))?;
                continue;
            }
            let _ = say!("pando restored {name} from {url}, to commit {}", report.commit);
        }
        if takes_over {
            // Its primary has ended, or is to be replaced.
            let source = crate::follow::source::source(url, None, Duration::from_secs(1))?;
            for (name, commit) in server::promote(dir, source, None)? {
                let _ = say!("pando took {name} over in {url}, at commit {commit}");
            }
        }
        Ok(Some((url, Role::Primary)))
    }
}

/// Ships all databases of a server.
#[derive(Debug)]
struct All {
    bucket: Bucket,
    sync: bool,
    shipping: ShippingArgs,
    dir: PathBuf,
}

impl Shipping for All {
    fn begin(&self, name: &str, db: &Database) -> Result<Box<dyn Ship>> {
        let bucket = bucket::of_database(&self.bucket, name)?;
        let options = self.shipping.options(self.sync);
        Ok(Box::new(One(Shipper::start(db, self.dir.join(name), bucket, options)?)))
    }

    fn is_sync(&self) -> bool {
        self.sync
    }
}

/// Ships one database.
#[derive(Debug)]
struct One(Shipper);

impl Ship for One {
    fn when_shipped(&self, commit: u64, shipped: Shipped) {
        self.0.when_shipped(commit, shipped);
    }

    fn failure(&self) -> Option<Error> {
        self.0.ended().filter(|error| error.kind() != ErrorKind::Closed)
    }

    fn difficulty(&self) -> Option<String> {
        self.0.status().difficulty().map(str::to_owned)
    }

    fn refusal(&self) -> Option<Error> {
        // Another process writes the database, or has written it since. Commits made here would fork its history.
        let is_of_another = |error: &Error| matches!(error.kind(), ErrorKind::Fenced | ErrorKind::Mismatch);
        self.0.ended().filter(is_of_another)
    }

    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        let status = self.0.status();
        let is = |state| f64::from(u8::from(status.state == state));
        vec![
            (
                "up",
                "1 while shipping works; 0 while it starts, retries, or after it has ended.",
                is(State::Shipping),
            ),
            (
                "fenced",
                "1 if another writer has taken the lineage over, or this database does not continue it.",
                f64::from(u8::from(self.refusal().is_some())),
            ),
            (
                "other_lineage",
                "1 if the lineage in the bucket is of another database, or of another copy of this one.",
                f64::from(u8::from(self.refusal().is_some_and(|error| error.kind() == ErrorKind::Mismatch))),
            ),
            ("epoch", "The epoch of this writer.", status.epoch as f64),
            ("shipped_commit", "Every commit up to this one is in the bucket.", status.shipped_commit as f64),
            ("lag_commits", "Commits that are not in the bucket.", status.lag_commits as f64),
            (
                "lag_bytes",
                "Bytes of changes that were read and are not in the bucket.",
                status.lag_bytes as f64,
            ),
            (
                "lag_seconds",
                "Age of the oldest change that was read and is not in the bucket; before the take-over, the \
                 seconds since shipping began.",
                status.lag_seconds,
            ),
            ("segments", "Segments written since the database was opened.", status.segments as f64),
            ("bases", "Bases published since the database was opened.", status.bases as f64),
            ("puts", "Put requests since the database was opened.", status.puts as f64),
            ("segment_bytes", "Bytes of segments written.", status.segment_bytes as f64),
            ("change_bytes", "Bytes of changes in the segments written.", status.change_bytes as f64),
            ("base_bytes", "Bytes of bases published.", status.base_bytes as f64),
        ]
    }

    fn release(&self) -> Result<()> {
        self.0.release()
    }

    fn drop_database(&self) -> Result<()> {
        self.0.drop_database()
    }
}
