//! `ship`: ships a database to a bucket.

use super::bucket;
use crate::failure::{Failure, Outcome};
use crate::open::MemoryArgs;
use crate::output::{self, Cell, FormatArgs};
use crate::remote::refuse_address;
use crate::signals;
use crate::text;
use clap::Args;
use pando::{Database, Error, ErrorKind};
use ship::{Options, Shipper, Status};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando ship shop s3://my-bucket/shop --once
  pando ship shop /mnt/backup/shop --status
  pando restore s3://my-bucket/shop shop2

URL is s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX, file:///FOLDER or the path of a folder.
Credentials come from the environment, as for other tools: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION,
AWS_ENDPOINT_URL, AWS_ALLOW_HTTP; GOOGLE_APPLICATION_CREDENTIALS; AZURE_STORAGE_ACCOUNT_NAME,
AZURE_STORAGE_ACCOUNT_KEY.
While another process writes the database, that process ships it: start it with `pando serve --ship URL`.")]
pub struct ShipArgs {
    /// The directory of the database
    dir: PathBuf,
    /// Where to ship it: a bucket or a folder, for this database alone
    url: PathBuf,
    /// Ship what there is, and exit
    #[arg(long)]
    once: bool,
    /// With --once: give up when requests have failed for TIME
    #[arg(long, value_name = "TIME", default_value = "60s", requires = "once",
          value_parser = text::parse_duration)]
    give_up: Duration,
    /// Print how many commits of the database the bucket lacks, and ship nothing
    #[arg(long, conflicts_with = "once")]
    status: bool,
    #[command(flatten)]
    shipping: ShippingArgs,
    #[command(flatten)]
    memory: MemoryArgs,
    #[command(flatten)]
    format: FormatArgs,
}

/// How to ship.
#[derive(Args, Clone, Debug)]
pub struct ShippingArgs {
    /// Write commits to the bucket after at most TIME, together in one segment; as in 200ms or 5s, and at least 10ms.
    /// With a shorter time, a lost machine loses fewer commits, and shipping makes more requests
    #[arg(long, value_name = "TIME", default_value = "1s", env = "PANDO_SHIP_INTERVAL",
          value_parser = text::parse_interval)]
    pub ship_interval: Duration,
    /// Write a segment earlier when its changes have SIZE bytes; at most 32M
    #[arg(long, value_name = "SIZE", default_value = "1M", env = "PANDO_SHIP_SEGMENT",
          value_parser = text::parse_size)]
    pub ship_segment: usize,
    /// Make a new base when the log since the last base is N times as large as that base, and larger than 16M. Each
    /// segment counts as at least 16K. A larger N uploads less, and restores take longer
    #[arg(long, value_name = "N", default_value_t = 4, env = "PANDO_SHIP_BASE_MULTIPLE",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub ship_base_multiple: u32,
    /// Keep the newest N bases, and what is needed to restore from them
    #[arg(long, value_name = "N", default_value_t = 2, env = "PANDO_SHIP_KEEP",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub ship_keep: u32,
    /// Keep every state of the last TIME, as in 36h or 30d
    #[arg(long, value_name = "TIME", default_value = "7d", env = "PANDO_SHIP_KEEP_FOR",
          value_parser = text::parse_duration)]
    pub ship_keep_for: Duration,
}

impl ShippingArgs {
    /// Returns the options of the library.
    pub fn options(&self, sync: bool) -> Options {
        Options {
            interval: self.ship_interval,
            segment_bytes: self.ship_segment,
            sync,
            base_multiple: self.ship_base_multiple,
            keep_bases: self.ship_keep as usize,
            keep_for: self.ship_keep_for,
            ..Options::default()
        }
    }
}

/// The interval at which the process checks whether it should end, and reports errors.
const LOOK: Duration = Duration::from_millis(100);
/// The longest time for which the remaining commits are shipped at the end.
const LAST_TRY: Duration = Duration::from_secs(60);

/// Runs `pando ship`.
pub fn run(args: &ShipArgs) -> Outcome {
    let instead = "name a directory on this machine; a server ships with `pando serve --ship URL`";
    refuse_address(&args.dir, instead)?;
    if let Some(url) = args.url.to_str() {
        bucket::check_outside(url, &args.dir, "the directory of the database")?;
    }
    let connect = if args.status { bucket::connect_existing } else { bucket::connect };
    let bucket = connect(&args.url)?;
    let named = bucket::named(&bucket.to_string());
    let done = if args.status { status(args, &bucket) } else { ship(args, bucket) };
    done.map_err(named)
}

fn ship(args: &ShipArgs, bucket: ship::Bucket) -> Outcome {
    let db = args.memory.builder().open(&args.dir)?;
    let stop_within = if args.once { args.give_up } else { LAST_TRY };
    let options = Options { stop_within, ..args.shipping.options(false) };
    let shipper = Shipper::start(&db, &args.dir, bucket, options)?;
    let goal = if args.once { Some(db.snapshot()?.commit_number()) } else { None };
    watch(&shipper, goal, args.give_up)?;
    shipper.stop()?;
    let status = shipper.status();
    db.close()?;
    write_status(&status, args)
}

/// Returns when a signal ends the process, or the commit `goal` is in the bucket. Reports what fails meanwhile.
///
/// With a goal, it is an error if requests fail for `patience`: a job that is started by a clock must end.
fn watch(shipper: &Shipper, goal: Option<u64>, patience: Duration) -> Outcome {
    let end = Arc::new(AtomicBool::new(false));
    signals::end_in_order(&end).map_err(|cause| Failure::system("listen to signals", cause))?;
    let (mut is_said, mut fails_since) = (false, None);
    while !end.load(Ordering::SeqCst) {
        if let Some(error) = shipper.ended() {
            return Err(error.into());
        }
        let status = shipper.status();
        match status.difficulty() {
            Some(error) => {
                if !is_said {
                    eprintln!("note: {error}; trying again");
                }
                let failing = fails_since.get_or_insert_with(Instant::now).elapsed();
                if goal.is_some() && failing >= patience {
                    let message =
                        format!("requests to the bucket have failed for {} s: {error}", failing.as_secs());
                    return Err(Error::new(ErrorKind::Io, message).into());
                }
            }
            None => {
                if is_said {
                    eprintln!("note: the database is shipped again");
                }
                fails_since = None;
            }
        }
        is_said = status.difficulty().is_some();
        match goal {
            Some(commit) if shipper.wait_for(commit, LOOK)? => return Ok(()),
            Some(_) => {}
            None => thread::sleep(LOOK),
        }
    }
    Ok(())
}

/// Runs `--status`: reads the database while another process may write it.
fn status(args: &ShipArgs, bucket: &ship::Bucket) -> Outcome {
    let listing = bucket.listing()?;
    let db: Database = args.memory.builder().read_only(true).open(&args.dir)?;
    let newest = db.snapshot()?.commit_number();
    let oldest = listing.bases.first();
    let fields = [
        ("database", Cell::Bytes(listing.database.as_bytes())),
        ("epoch", Cell::Number(listing.epoch)),
        ("newest_commit", Cell::Number(newest)),
        ("shipped_commit", Cell::Number(listing.newest_commit)),
        ("lag_commits", Cell::Number(newest.saturating_sub(listing.newest_commit))),
        ("shipped_time_ms", Cell::Number(listing.newest_time_ms)),
        ("newest_segment", Cell::Number(listing.newest_segment)),
        ("bases", Cell::Number(listing.bases.len() as u64)),
        ("oldest_commit", Cell::Number(oldest.map_or(0, |base| base.commit))),
        ("oldest_time_ms", Cell::Number(oldest.map_or(0, |base| base.time_ms))),
    ];
    output::write_record(args.format.format(), &fields)
}

fn write_status(status: &Status, args: &ShipArgs) -> Outcome {
    let fields = [
        ("shipped_commit", Cell::Number(status.shipped_commit)),
        ("epoch", Cell::Number(status.epoch)),
        ("segments", Cell::Number(status.segments)),
        ("segment_bytes", Cell::Number(status.segment_bytes)),
        ("change_bytes", Cell::Number(status.change_bytes)),
        ("bases", Cell::Number(status.bases)),
        ("base_bytes", Cell::Number(status.base_bytes)),
        ("puts", Cell::Number(status.puts)),
    ];
    output::write_record(args.format.format(), &fields)
}
