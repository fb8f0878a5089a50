//! `watch`: prints every commit, with a line for each operation.
//!
//! The command asks a server again every second, so that Ctrl-C ends it between two lines. After a restart of the
//! server it continues at the commit where it stopped.

use crate::failure::{Failure, Outcome};
use crate::open::Existing;
use crate::output;
use crate::remote::{Remote, escape};
use crate::signals;
use clap::Args;
use pando::{Changes, ChangesOptions, Database, Error, ErrorKind};
use serde_json::Value;
use server::{Ended, RowLines};
use std::io::{BufRead, BufReader, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[derive(Args, Debug)]
#[command(after_help = "\
The address of a server: the command prints new commits until Ctrl-C, which ends it after a whole line. A directory: it
prints the changes that the log still has, which are at least those since the last checkpoint, and ends. If another
process has the directory open for writing, watch it through that process's server.

Examples:
  pando watch http://127.0.0.1:7263/shop
  pando watch http://127.0.0.1:7263/shop orders --from 1207 --prefix 2026-
  pando watch shop | jq 'select(.op == \"put\") | .key'
  pando watch http://127.0.0.1:7263/shop --rows | jq 'select(.table == \"orders\").row'
  pando watch http://127.0.0.1:7263/shop --consumer mails")]
pub struct WatchArgs {
    #[command(flatten)]
    database: Existing,
    /// Print only changes of these tables [default: all]
    tables: Vec<String>,
    /// Begin after the commit of this number; 0: as far back as possible
    #[arg(long, value_name = "N", default_value_t = 0)]
    from: u64,
    /// Begin after the last commit that the consumer NAME has acknowledged, and acknowledge what is printed, so that
    /// the next run continues there. A consumer that does not exist is created at the newest commit. The log keeps
    /// every commit that a consumer has not acknowledged, within 1 GiB (`max_changes_bytes`); `pando consumers` lists
    /// and drops consumers
    #[arg(long, value_name = "NAME", conflicts_with = "from")]
    consumer: Option<String>,
    /// Print only keys that begin with PREFIX
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
    /// For tables of SQL and typed tables, print rows with their columns, and changes of definitions, instead of the
    /// stored bytes. TABLES are then names of these tables, or of tables of keys and values
    #[arg(long, conflicts_with = "prefix")]
    rows: bool,
    /// End after SECONDS (a whole number, without a unit) without a change [default: never]
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u32>,
}

/// How often a consumer acknowledges what was printed: it takes flushes.
const ACKNOWLEDGE: Duration = Duration::from_secs(1);
/// How long a server waits for a change before it is asked again, in seconds.
const ASK_SECONDS: u32 = 1;

/// Runs `pando watch`.
pub fn run(args: &WatchArgs) -> Outcome {
    match Remote::find(&args.database.dir)? {
        Some(remote) => follow(&remote, args),
        None => match &args.consumer {
            Some(name) => print_for(name, args),
            None => print_all(args),
        },
    }
}

/// Prints the changes in the log of a directory.
fn print_all(args: &WatchArgs) -> Outcome {
    let db = args.database.open()?;
    if db.is_beside_writer() {
        let message = "another process has the database open for writing, and its changes can be \
                       watched only through it; if it is a server, run `pando watch http://HOST:PORT/DATABASE`";
        return Err(Error::new(ErrorKind::Locked, message).into());
    }
    let mut changes = db.changes_with(args.options())?;
    let lines = args.lines(&db, &changes)?;
    print(&mut changes, lines, |_, _| Ok(()))
}

/// Prints what a consumer has not acknowledged, and acknowledges it.
fn print_for(name: &str, args: &WatchArgs) -> Outcome {
    let db = args.database.memory.builder().open(&args.database.dir)?;
    let mut consumer = db.consumer(name)?;
    let mut changes = consumer.changes_with(args.options())?;
    let lines = args.lines(&db, &changes)?;
    let mut acknowledged = Instant::now();
    print(&mut changes, lines, |commit, out| {
        if acknowledged.elapsed() >= ACKNOWLEDGE {
            // What is acknowledged is not printed again.
            out.flush().map_err(Failure::stdout)?;
            consumer.acknowledge(commit)?;
            acknowledged = Instant::now();
        }
        Ok(())
    })?;
    // Commits that the filter left out are done as well.
    consumer.acknowledge(changes.position())?;
    drop((changes, consumer));
    Ok(db.close()?)
}

/// Prints changes up to the end. Calls `printed` with the number of each commit that was written to the buffer of
/// standard output.
fn print(
    changes: &mut Changes,
    mut rows: Option<RowLines>,
    mut printed: impl FnMut(u64, &mut dyn Write) -> Outcome,
) -> Outcome {
    let mut out = output::stdout();
    while let Some(change) = changes.next()? {
        let print = |line: &[u8], _| out.write_all(line).and_then(|()| out.write_all(b"\n"));
        let done = match &mut rows {
            Some(rows) => rows.write(&change, print).map(drop),
            None => server::change_lines(&change, print),
        };
        done.map_err(|ended| match ended {
            Ended::Unread(error) => Failure::from(error),
            Ended::Unwritten(error) => Failure::stdout(error),
        })?;
        printed(change.commit_number(), &mut out)?;
    }
    out.flush().map_err(Failure::stdout)
}

impl WatchArgs {
    fn options(&self) -> ChangesOptions {
        let mut options = ChangesOptions::default().after(self.from);
        for table in self.tables.iter().filter(|_| !self.rows) {
            options = options.table(table);
        }
        match &self.prefix {
            Some(prefix) => options.prefix(prefix),
            None => options,
        }
    }

    /// Returns what shows rows, if that is asked for.
    fn lines(&self, db: &Database, changes: &Changes) -> Outcome<Option<RowLines>> {
        let begin = || RowLines::begin(db, changes.position(), self.tables.clone());
        Ok(self.rows.then(begin).transpose()?)
    }
}

/// Prints the past and new changes of a server until Ctrl-C.
fn follow(remote: &Remote, args: &WatchArgs) -> Outcome {
    let is_over = Arc::new(AtomicBool::new(false));
    signals::end_in_order(&is_over).map_err(|cause| Failure::system("handle signals", cause))?;
    let mut filter = String::new();
    for table in &args.tables {
        filter += &format!("&table={}", escape(table.as_bytes()));
    }
    if args.rows {
        filter += "&rows=true";
    }
    if let Some(prefix) = &args.prefix {
        filter += &format!("&prefix={}", escape(prefix.as_bytes()));
    }
    let mut consumer = args.consumer.as_deref().map(|name| Acknowledging::begin(remote, name)).transpose()?;
    let (mut after, mut idle_seconds) = (consumer.as_ref().map_or(args.from, |begun| begun.position), 0);
    while !is_over.load(Ordering::SeqCst) && args.wait.is_none_or(|wait| idle_seconds <= wait) {
        let path = format!("/changes?after={after}&wait={ASK_SECONDS}{filter}");
        let response = remote.ask("GET", &path, None)?;
        let lines = BufReader::new(response.into_body().into_reader());
        let printed = print_lines(lines, &mut after, |commit| {
            if let Some(consumer) = &mut consumer
                && consumer.at.elapsed() >= ACKNOWLEDGE
            {
                consumer.acknowledge(commit)?;
            }
            Ok(is_over.load(Ordering::SeqCst))
        })?;
        if let Some(consumer) = &mut consumer {
            // Commits that the filter left out are done as well.
            consumer.acknowledge(after)?;
        }
        idle_seconds = if printed { 0 } else { idle_seconds + ASK_SECONDS };
    }
    Ok(())
}

/// A consumer that a server keeps.
struct Acknowledging<'r> {
    remote: &'r Remote,
    path: String,
    /// The last commit that was acknowledged, and when.
    position: u64,
    at: Instant,
}

impl<'r> Acknowledging<'r> {
    /// Finds or creates the consumer `name`.
    fn begin(remote: &'r Remote, name: &str) -> Outcome<Self> {
        let path = format!("/consumers/{}", escape(name.as_bytes()));
        let mut begun = Acknowledging { remote, path, position: 0, at: Instant::now() };
        begun.position = begun.put("")?;
        Ok(begun)
    }

    fn put(&self, query: &str) -> Outcome<u64> {
        let consumer = self.remote.ask_json("PUT", &format!("{}{query}", self.path))?;
        let unreadable = || Failure::Failed("the server's response has no position".to_owned());
        consumer.get("position").and_then(Value::as_u64).ok_or_else(unreadable)
    }

    fn acknowledge(&mut self, commit: u64) -> Outcome {
        if commit > self.position {
            self.put(&format!("?acknowledge={commit}"))?;
            self.position = commit;
        }
        self.at = Instant::now();
        Ok(())
    }
}

/// Prints the lines of complete commits and notes the last commit in `after`. Calls `printed` with the number of each,
/// which returns whether to end. Returns whether there were any lines.
fn print_lines(
    lines: impl BufRead,
    after: &mut u64,
    mut printed: impl FnMut(u64) -> Outcome<bool>,
) -> Outcome<bool> {
    let (mut out, mut has_printed) = (output::stdout(), false);
    for line in lines.lines() {
        let line = line.map_err(|cause| Failure::system("read the server's response", cause))?;
        let parsed: Value = serde_json::from_str(&line)
            .map_err(|error| Failure::Failed(format!("cannot read the server's response: {error}")))?;
        if let Some(position) = parsed["position"].as_u64() {
            *after = position;
            continue;
        }
        if let Some(detail) = parsed["error"]["detail"].as_str() {
            return Err(Failure::Failed(detail.to_owned()));
        }
        has_printed = true;
        writeln!(out, "{line}").map_err(Failure::stdout)?;
        if parsed["op"] == "commit" {
            out.flush().map_err(Failure::stdout)?;
            *after = parsed["commit"].as_u64().unwrap_or(*after);
            if printed(*after)? {
                break;
            }
        }
    }
    out.flush().map_err(Failure::stdout)?;
    Ok(has_printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_moves_with_whole_commits() {
        let mut after = 3;
        let mut print = |lines: &str| print_lines(lines.as_bytes(), &mut after, |_| Ok(false));
        assert!(!print("{\"position\":5}\n").unwrap());
        let whole = "{\"commit\":7,\"op\":\"put\"}\n{\"commit\":7,\"op\":\"commit\"}\n";
        assert!(print(&format!("{whole}{{\"commit\":8,\"op\":\"put\"}}\n")).unwrap());
        assert!(print("{\"error\":{\"detail\":\"it is gone\"}}\n").is_err());
        assert_eq!(after, 7, "commit 8 is not whole");
    }
}
