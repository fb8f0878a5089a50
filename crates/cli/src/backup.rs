//! `backup` and `restore`: copy a database to files, and create a database from such files.

use crate::failure::{Failure, Outcome};
use crate::open::Existing;
use crate::output::{self, Cell, Format, FormatArgs, Rows};
use crate::remote::{self, Remote};
use crate::schedule::{parse_rate, parse_retention};
use crate::text;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use pando::{
    BackupInfo, BackupOptions, BackupProgress, BackupReport, Backups, Error, ErrorKind, RestoreReport,
    Retention,
};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando backup shop backups
  pando backup shop backups --incremental --verify --keep 7d
  pando backup http://127.0.0.1:7263/shop - | gzip > shop.backup.gz")]
pub struct BackupArgs {
    #[command(flatten)]
    database: Existing,
    /// A folder of backups, created if it does not exist, or `-` for standard output
    target: PathBuf,
    /// Copy only what changed since the newest backup in the folder; makes a full backup if the folder has none
    #[arg(long, conflicts_with = "since")]
    incremental: bool,
    /// Copy only what changed since the backup in FILE
    #[arg(long, value_name = "FILE")]
    since: Option<PathBuf>,
    /// Read the backup back before its file gets its name, and compare every checksum; only if TARGET is a folder
    #[arg(long)]
    verify: bool,
    /// Afterwards remove old backups of this database from the folder: keep those younger than TIME, as in 7d, or the
    /// newest N, and those on which they build. Backups of other databases stay [default: keep all]
    #[arg(long, value_name = "TIME|N", value_parser = parse_retention)]
    keep: Option<Retention>,
    /// Write at most SIZE bytes a second, as in 50MiB, and at least 64K; limits the effect on other work [default: no
    /// limit]
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    rate: Option<u64>,
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando restore backups --list
  pando restore backups shop2
  pando restore backups shop2 --at 3
  pando restore s3://my-bucket/shop shop2 --at 2026-11-25T10:00:00Z
  pando restore s3://my-bucket/pando/shop shop2 --incarnation 1
  gunzip < shop.backup.gz | pando restore - shop2")]
pub struct RestoreArgs {
    /// What to restore (a folder of backups; or backup files in order, a full one first; or `-` for standard input; or
    /// the address of a bucket or folder that `ship` has filled), followed by the directory of the new database, which
    /// must be empty or not exist
    #[arg(required = true, value_names = ["BACKUP", "DIR"])]
    paths: Vec<PathBuf>,
    /// Restore this backup of the folder, by number or name as --list prints them; of a bucket, the state of this
    /// moment, as in 2026-11-25T10:00:00Z [default: the newest]
    #[arg(long, value_name = "BACKUP|MOMENT")]
    at: Option<String>,
    /// Restore the state of commit N of a bucket
    #[arg(long, value_name = "N", conflicts_with = "at")]
    commit: Option<u64>,
    /// Of a bucket that had several databases of one name, because one was dropped and another one created, restore the
    /// Nth, as --list numbers them [default: the newest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    incarnation: Option<u64>,
    /// List the backups of the folder, or the states that a bucket has, and restore nothing
    #[arg(long, conflicts_with_all = ["at", "commit", "incarnation"])]
    list: bool,
    #[command(flatten)]
    format: FormatArgs,
}

/// Runs `pando backup`.
pub fn run(args: &BackupArgs) -> Outcome {
    let to_stdout = args.target == Path::new("-");
    if to_stdout && args.incremental {
        let message = "--incremental needs a folder of backups; for a stream, name the backup to build on \
                       with --since FILE";
        return Err(Failure::Usage(message.to_owned()));
    }
    if to_stdout && (args.verify || args.keep.is_some()) {
        let message = "--verify and --keep need a folder of backups, not standard output";
        return Err(Failure::Usage(message.to_owned()));
    }
    check_target(&args.target)?;
    if let Some(remote) = Remote::find(&args.database.dir)? {
        return from_server(&remote, args);
    }
    let db = args.database.open().map_err(|failure| match failure {
        Failure::Engine(error) if error.kind() == ErrorKind::Locked => {
            Failure::Engine(error.within(IS_WRITTEN))
        }
        other => other,
    })?;
    if db.is_beside_writer() {
        // A folder that is to be made would be left.
        return Err(Failure::Engine(Error::new(ErrorKind::Locked, IS_WRITTEN)));
    }
    let since = args.since.as_ref().map(BackupInfo::read).transpose().map_err(Failure::Backups)?;
    let bar = progress();
    let mut show = |progress: BackupProgress| {
        bar.set_length(progress.expected_bytes.max(progress.bytes));
        bar.set_position(progress.bytes);
    };
    let mut options = BackupOptions::default().verify(args.verify).progress(&mut show);
    if let Some(rate) = args.rate {
        options = options.rate_bytes(rate);
    }
    if let Some(since) = &since {
        options = options.since(since);
    }
    if to_stdout {
        db.backup(options, &mut io::stdout().lock())?;
        bar.finish_and_clear();
        return Ok(());
    }
    let backups = Backups::create(&args.target).map_err(Failure::Backups)?;
    let newest = if args.incremental { backups.newest().map_err(Failure::Backups)? } else { None };
    if let Some(newest) = &newest {
        options = options.since(newest);
    }
    let report = db.backup_to(&backups, options).map_err(of_folder)?;
    bar.finish_and_clear();
    prune(&backups, &report, args.keep)?;
    write_report(&report, args.format.format())
}

/// Backs up a database of a server. The base of an incremental backup is sent to the server.
fn from_server(remote: &Remote, args: &BackupArgs) -> Outcome {
    let mut since = args.since.as_ref().map(BackupInfo::read).transpose().map_err(Failure::Backups)?;
    if args.incremental {
        since =
            Backups::create(&args.target).and_then(|backups| backups.newest()).map_err(Failure::Backups)?;
    }
    let words = [
        since.as_ref().map(|since| format!("since={}", text::to_hex(&since.to_bytes()))),
        args.rate.map(|bytes| format!("rate={bytes}")),
    ];
    let query = words.into_iter().flatten().collect::<Vec<_>>().join("&");
    let bar = progress();
    let answer = remote.ask("GET", &format!("/backup?{query}"), None)?;
    let mut stream = bar.wrap_read(answer.into_body().into_reader());
    if args.target == Path::new("-") {
        let refused = |cause| Failure::system("write the backup to standard output", cause);
        io::copy(&mut stream, &mut io::stdout().lock()).map_err(refused)?;
        bar.finish_and_clear();
        return Ok(());
    }
    let backups = Backups::create(&args.target).map_err(Failure::Backups)?;
    let report = match &since {
        Some(since) => backups.receive_since(&mut stream, since),
        None => backups.receive(&mut stream),
    };
    let report = report.map_err(of_folder)?;
    bar.finish_and_clear();
    prune(&backups, &report, args.keep)?;
    write_report(&report, args.format.format())
}

/// Why a directory that another process writes is not backed up.
const IS_WRITTEN: &str = "another process has the database open for writing; back it up through its server \
     (`pando backup http://HOST:PORT/DATABASE`), or call Database::backup in that program";

/// Returns the failure of a backup into a folder. The database is open then, so what is locked is the folder.
fn of_folder(error: Error) -> Failure {
    if error.kind() == ErrorKind::Locked { Failure::Backups(error) } else { Failure::Engine(error) }
}

/// Refuses an address in the place of a folder of backups.
fn check_target(target: &Path) -> Outcome {
    remote::refuse_address(target, "back up to a folder; `pando ship` copies to a bucket")
}

/// Removes the old backups of the same database that `keep` does not select.
fn prune(backups: &Backups, report: &BackupReport, keep: Option<Retention>) -> Outcome {
    let Some(keep) = keep else { return Ok(()) };
    let pruned = backups.prune(report.identity, keep, SystemTime::now());
    pruned.map(drop).map_err(|error| {
        let kept = "the backup was taken, but old ones were not removed".to_owned();
        Failure::Engine(error).keeping(kept, "the backup was taken")
    })
}

fn write_report(report: &BackupReport, format: Format) -> Outcome {
    let name = report.name.as_deref().unwrap_or_default();
    let fields = [
        ("backup", Cell::Bytes(name.as_bytes())),
        ("kind", Cell::Bytes(kind(report.is_full))),
        ("commit", Cell::Number(report.commit)),
        ("checkpoint", Cell::Number(report.checkpoint)),
        ("log_commits", Cell::Number(report.log_commits)),
        ("pages", Cell::Number(report.pages)),
        ("bytes", Cell::Number(report.bytes)),
    ];
    output::write_record(format, &fields)
}

fn kind(is_full: bool) -> &'static [u8] {
    if is_full { b"full" } else { b"incremental" }
}

/// Returns a progress bar, which is hidden if standard error is not a terminal.
fn progress() -> ProgressBar {
    let style = ProgressStyle::with_template("{bytes} of about {total_bytes} {bar:30} {bytes_per_sec}");
    ProgressBar::new(0).with_style(style.expect("the template is right"))
}

/// Runs `pando restore`.
pub fn restore(args: &RestoreArgs) -> Outcome {
    let (target, backups) = args.paths.split_last().expect("one path is required");
    if let Some(outcome) = restore_bucket(args, target, backups) {
        return outcome;
    }
    if args.commit.is_some() {
        let message = "--commit needs a bucket that `pando ship` has filled; for backups, use --at";
        return Err(Failure::Usage(message.to_owned()));
    }
    if args.incarnation.is_some() {
        let message = "--incarnation needs a bucket that `pando serve --ship` has filled";
        return Err(Failure::Usage(message.to_owned()));
    }
    if args.list {
        return match backups {
            [] => list(&Backups::open(target)?, args.format.format()),
            _ => Err(Failure::Usage(
                "--list takes one folder of backups, or one bucket; leave the other paths out".to_owned(),
            )),
        };
    }
    remote::refuse_address(target, "restore into a new directory")?;
    let report = match backups {
        [] => {
            let message =
                "the directory is missing: name what to restore, then the directory of the new database";
            return Err(Failure::Usage(message.to_owned()));
        }
        [folder] if folder.is_dir() => pando::restore(&Backups::open(folder)?, args.at.as_deref(), target)?,
        _ if args.at.is_some() => {
            return Err(Failure::Usage(
                "--at needs a folder of backups: name the folder instead of files".to_owned(),
            ));
        }
        [stdin] if stdin == Path::new("-") => pando::restore_stream(&mut io::stdin().lock(), target)?,
        files => pando::restore_files(files, target)?,
    };
    write_restored(&report, args.format.format())
}

/// Restores from a bucket; returns `None` if the source is not one.
#[cfg(feature = "ship")]
fn restore_bucket(args: &RestoreArgs, target: &Path, sources: &[PathBuf]) -> Option<Outcome> {
    use crate::ship::bucket;
    let format = args.format.format();
    let run = |source: &Path| {
        let bucket = bucket::connect_existing(source)?;
        let done = match args.list {
            true => bucket::list(&bucket, format),
            false => {
                let goal = bucket::goal(args.at.as_deref(), args.commit)?;
                bucket::restore(&bucket, args.incarnation, goal, target, format)
            }
        };
        done.map_err(bucket::named(&bucket.to_string()))
    };
    match sources {
        [] if args.list && bucket::is_bucket(target) => Some(run(target)),
        [source] if !args.list && bucket::is_bucket(source) => Some(run(source)),
        _ => None,
    }
}

/// This build has no buckets.
#[cfg(not(feature = "ship"))]
fn restore_bucket(args: &RestoreArgs, _: &Path, _: &[PathBuf]) -> Option<Outcome> {
    let is_url = args.paths.iter().any(|path| path.to_str().is_some_and(|text| text.contains("://")));
    let message =
        "this `pando` was built without shipping; build it with the feature `ship`, which is on by default";
    is_url.then(|| Err(Failure::Usage(message.to_owned())))
}

fn write_restored(report: &RestoreReport, format: Format) -> Outcome {
    let fields = [
        ("backups", Cell::Number(report.backups)),
        ("commit", Cell::Number(report.commit)),
        ("log_commits", Cell::Number(report.log_commits)),
        ("pages", Cell::Number(report.pages)),
        ("bytes", Cell::Number(report.bytes)),
    ];
    output::write_record(format, &fields)
}

/// Prints a row for each backup. A damaged one is listed as damaged, and the command fails at the end.
fn list(backups: &Backups, format: Format) -> Outcome {
    let columns = ["number", "backup", "kind", "commit", "checkpoint", "created_s", "bytes"];
    let mut rows = Rows::new(output::stdout(), format, &columns).map_err(Failure::stdout)?;
    let mut damaged = None;
    for entry in backups.list()? {
        let (kind, commit, checkpoint, created_s) = match &entry.info {
            Ok(info) => {
                let created = info.created().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
                (kind(info.is_full()), info.commit(), info.checkpoint(), created)
            }
            Err(_) => (&b"damaged"[..], 0, 0, 0),
        };
        let cells = [
            Cell::Number(entry.number),
            Cell::Bytes(entry.name.as_bytes()),
            Cell::Bytes(kind),
            Cell::Number(commit),
            Cell::Number(checkpoint),
            Cell::Number(created_s),
            Cell::Number(entry.bytes),
        ];
        rows.row(&cells).map_err(Failure::stdout)?;
        damaged = damaged.or(entry.info.err());
    }
    rows.finish().map_err(Failure::stdout)?;
    damaged.map_or(Ok(()), |error| Err(Failure::Engine(error)))
}
