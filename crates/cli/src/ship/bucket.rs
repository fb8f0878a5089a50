//! Restores from a bucket, and lists its states.

use crate::failure::{Failure, Outcome};
use crate::output::{self, Cell, Format, Rows};
use indicatif::{ProgressBar, ProgressStyle};
use pando::Error;
use ship::{Bucket, Goal, Listing, NamedListing, Report};
use std::io;
use std::path::{Path, PathBuf};

/// Returns whether a restore reads from a bucket rather than from backups.
pub fn is_bucket(source: &Path) -> bool {
    // The objects of a name's first database may have been deleted after it was dropped.
    let is_shipped = |folder: &Path| {
        folder.join("lineage").is_file() && folder.join("epochs").is_dir()
            || folder.join("incarnations").is_dir()
    };
    source.to_str().is_some_and(|text| text.contains("://"))
        || is_shipped(source)
        || is_shipped(&source.join(server::DEFAULT_DATABASE))
}

/// Connects to the bucket that `source` names, and creates a folder that does not exist.
pub fn connect(source: &Path) -> Outcome<Bucket> {
    Ok(Bucket::connect(url(source)?)?)
}

/// Connects to the bucket that `source` names, to read it.
pub fn connect_existing(source: &Path) -> Outcome<Bucket> {
    let url = url(source)?;
    Bucket::connect_existing(url).map_err(|error| named(url)(error.into()))
}

fn url(source: &Path) -> Outcome<&str> {
    source.to_str().ok_or_else(|| Failure::Usage(format!("{} is not UTF-8", source.display())))
}

/// Returns a function that marks the failures whose message names an object in the bucket at `url`, for their advice.
pub fn named(url: &str) -> impl Fn(Failure) -> Failure + use<> {
    let (url, is_given) = (url.trim_end_matches('/'), !url.is_empty());
    let named = ["/", ":", " holds no"].map(|after| format!("{url}{after}"));
    let is_named = move |error: &Error| {
        let text = error.to_string();
        is_given && named.iter().any(|named| text.contains(named))
    };
    move |failure| match failure {
        Failure::Engine(error) if is_named(&error) => Failure::Bucket(error),
        other => other,
    }
}

/// Refuses a bucket that is a folder in the directory `dir`, which is called `what`: a server would take it for a
/// database, and a database would meet files that are not its own. Neither needs to exist.
pub fn check_outside(bucket: &str, dir: &Path, what: &str) -> Outcome {
    let folder = match bucket.split_once("://") {
        None => bucket,
        Some(("file", folder)) => folder,
        Some(_) => return Ok(()),
    };
    let failed = |cause| Failure::system(format_args!("find the folder {folder}"), cause);
    if !resolved(Path::new(folder)).map_err(failed)?.starts_with(resolved(dir).map_err(failed)?) {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{bucket} lies inside {what}: name a bucket, or a folder outside of it, best on another disk"
    )))
}

/// Returns the path without links, of which the last parts need not exist.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    for existing in path.ancestors() {
        if let Ok(found) = existing.canonicalize() {
            let rest = path.strip_prefix(existing).expect("it is one of its ancestors");
            return Ok(if rest.as_os_str().is_empty() { found } else { found.join(rest) });
        }
    }
    Ok(path)
}

/// Returns the bucket of one database of a server: the folder of its name, or, for the default database, the bucket
/// itself if that is a lineage.
pub fn of_database(bucket: &Bucket, name: &str) -> pando::Result<Bucket> {
    if name == server::DEFAULT_DATABASE && bucket.is_shipped()? {
        return Ok(bucket.clone());
    }
    bucket.within(name)
}

/// Returns the names of the databases in the bucket of a server of which `is_there` says that they were not dropped. If
/// the bucket itself is a lineage, that is the default database's, and the others are in folders nevertheless.
pub fn databases(
    bucket: &Bucket,
    is_there: impl Fn(&str) -> pando::Result<bool>,
) -> pando::Result<Vec<String>> {
    let mut found = bucket.databases()?;
    let default = server::DEFAULT_DATABASE;
    if !found.iter().any(|name| name == default) && bucket.is_shipped()? {
        found.push(default.to_owned());
    }
    let mut names = Vec::new();
    for name in found {
        if is_there(&name)? {
            names.push(name);
        }
    }
    Ok(names)
}

/// Parses `--at` and `--commit`.
pub fn goal(at: Option<&str>, commit: Option<u64>) -> Outcome<Goal> {
    Ok(match (at, commit) {
        (Some(at), _) => Goal::at(at)?,
        (None, Some(commit)) => Goal::Commit(commit),
        (None, None) => Goal::Newest,
    })
}

/// Runs `pando restore URL DIR`. Of several databases of one name, `number` selects one; without it, the newest is
/// restored.
pub fn restore(bucket: &Bucket, number: Option<u64>, goal: Goal, target: &Path, format: Format) -> Outcome {
    let bucket = &number.map_or_else(|| Ok(bucket.clone()), |number| bucket.incarnation(number))?;
    let bar = ProgressBar::no_length();
    bar.set_style(ProgressStyle::with_template("{bytes} {bytes_per_sec}").expect("the template is right"));
    let report = ship::restore(bucket, goal, target, &mut |bytes| bar.set_position(bytes));
    bar.finish_and_clear();
    let report = report?;
    if let Some(dropped_ms) = report.dropped_ms {
        eprintln!("note: this database was dropped at {}", ship::moment(dropped_ms));
    }
    write_report(&report, format)
}

fn write_report(report: &Report, format: Format) -> Outcome {
    let fields = [
        ("commit", Cell::Number(report.commit)),
        ("time_ms", Cell::Number(report.time_ms)),
        ("base_commit", Cell::Number(report.base_commit)),
        ("log_commits", Cell::Number(report.log_commits)),
        ("segments", Cell::Number(report.segments)),
        ("bytes", Cell::Number(report.bytes)),
    ];
    output::write_record(format, &fields)
}

/// Runs `pando restore URL --list`: prints a row for each base, of one database or of all that a server has shipped
/// there. A damaged one is named on standard error, and the command fails after all others were listed.
pub fn list(bucket: &Bucket, format: Format) -> Outcome {
    // People are shown moments as `--at` reads them.
    let is_table = format == Format::Table;
    let columns = match is_table {
        true => [
            "database",
            "commit",
            "time",
            "last_commit",
            "last_time",
            "epoch",
            "bytes",
            "incarnation",
            "dropped",
        ],
        false => [
            "database",
            "commit",
            "time_ms",
            "last_commit",
            "last_time_ms",
            "epoch",
            "bytes",
            "incarnation",
            "dropped_ms",
        ],
    };
    let mut rows = Rows::new(output::stdout(), format, &columns).map_err(Failure::stdout)?;
    let mut damaged: Vec<Failure> = Vec::new();
    let mut is_empty = true;
    for found in bucket.listings()? {
        is_empty = false;
        match &found.listing {
            Ok(listing) => write_listing(&mut rows, &found, listing, is_table).map_err(Failure::stdout)?,
            Err(error) => damaged.push(error.duplicate().into()),
        }
    }
    rows.finish().map_err(Failure::stdout)?;
    if is_empty {
        return Err(Failure::Absent(format!("{bucket} holds no shipped database")));
    }
    let Some(last) = damaged.pop() else { return Ok(()) };
    damaged.iter().for_each(|failure| eprintln!("error: {}", failure.message()));
    Err(last)
}

/// Writes a row for each base of a database.
fn write_listing<W: io::Write>(
    rows: &mut Rows<W>,
    found: &NamedListing,
    listing: &Listing,
    is_table: bool,
) -> io::Result<()> {
    let dropped = listing.dropped_ms.map_or_else(String::new, ship::moment);
    let dropped = match (is_table, listing.dropped_ms) {
        (true, _) => Cell::Bytes(dropped.as_bytes()),
        (false, Some(dropped_ms)) => Cell::Number(dropped_ms),
        (false, None) => Cell::Null,
    };
    for reach in &listing.bases {
        let times = [reach.time_ms, reach.last_time_ms];
        let shown = times.map(ship::moment);
        let [time, last_time] = [0, 1].map(|at| match is_table {
            true => Cell::Bytes(shown[at].as_bytes()),
            false => Cell::Number(times[at]),
        });
        let cells = [
            Cell::Bytes(found.database.as_bytes()),
            Cell::Number(reach.commit),
            time,
            Cell::Number(reach.last_commit),
            last_time,
            Cell::Number(reach.epoch),
            Cell::Number(reach.bytes),
            Cell::Number(found.incarnation),
            dropped,
        ];
        rows.row(&cells)?;
    }
    Ok(())
}
