//! `copy`: copies all tables from a directory or a store that speaks PostgreSQL's protocol to another one.
//!
//! 1. The source is read in one snapshot (`ends`), and nothing is written before it is certain that the target takes
//!    everything (`plan`).
//! 2. A new target gets a table first that says that the copy is not finished, and which source it is of.
//! 3. Each table is copied in batches (`transfer`), and read back: count and checksum must be those of the source
//!    (`digest`).
//! 4. The table of step 2 is dropped last. Until then another run with `--resume` compares both sides and writes what
//!    differs, so it makes no assumption about what the earlier run had done.

mod digest;
mod ends;
mod plan;
mod transfer;
mod report;

use crate::failure::{Failure, Outcome};
use crate::open::{CreateArgs, MemoryArgs};
use clap::Args;
use ends::{Destination, Source, Store, Target, shown};
use indicatif::{ProgressBar, ProgressStyle};
use pando::{ReadTables, WriteTables};
use plan::{Allowed, Plan, Planned, UNFINISHED};
use report::{Report, TableReport};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use transfer::{Copied, Pass, digest_of};

/// The key of the source's id in the table [`UNFINISHED`].
const SOURCE: &str = "source";

#[derive(Args, Debug)]
#[command(after_help = "\
The command copies all tables with their records, typed tables with their indexes among them. Before it writes
anything, it lists what the target does not keep, and refuses the copy if an entry would be lost. Opening a
store creates its schema. If the copy is interrupted, run it again with --resume.

Examples:
  pando copy shop postgres://app@db.example/shop
  pando copy postgres://app@db.example/shop shop2 --json
  pando copy shop shop3 --page-size 4K")]
pub struct CopyArgs {
    /// The database to read: a directory, or the address of a store (postgres://USER@HOST/NAME, in a build with the
    /// feature `postgres`)
    from: PathBuf,
    /// Where to copy it: a directory, or the address of a store. It must have no tables
    to: PathBuf,
    /// Continue a copy that was interrupted: compare both sides, write what differs, delete what the source does not
    /// have
    #[arg(long)]
    resume: bool,
    /// Leave a table out, or all whose names have a beginning, as in 'sql:*'; may be given several times
    #[arg(long, value_name = "TABLE")]
    skip: Vec<String>,
    /// Copy tables with a TTL, too: their entries begin their life again
    #[arg(long)]
    restart_ttl: bool,
    /// Say what would be copied and what would not be kept, and copy nothing
    #[arg(long)]
    dry_run: bool,
    /// The schema of the store that is read
    #[arg(long, value_name = "NAME", default_value = "pando")]
    from_schema: String,
    /// The schema of the store that is written
    #[arg(long, value_name = "NAME", default_value = "pando")]
    to_schema: String,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Page size of a new directory: 4K, 8K, 16K, 32K or 64K [default: 16K]
    #[arg(long, value_name = "SIZE", value_parser = crate::text::parse_size)]
    page_size: Option<usize>,
    #[command(flatten)]
    memory: MemoryArgs,
}

/// Runs `pando copy`.
pub fn run(args: &CopyArgs) -> Outcome {
    let source = Store::open_source(&args.from, &args.from_schema, args.memory)?;
    match &source {
        Store::Directory(db) => args.copy(&source, &db.snapshot()?),
        Store::Remote(db) => args.copy(&source, &db.snapshot()),
    }
}

impl CopyArgs {
    /// Plans the copy, and makes it.
    fn copy(&self, store: &Store, source: &impl Source) -> Outcome {
        let mut create = CreateArgs { page_size: self.page_size, ..CreateArgs::default() };
        create.write.memory = self.memory;
        let to = Destination::find(&self.to, &self.to_schema, create)?;
        let allowed = Allowed { skip: &self.skip, restart_ttl: self.restart_ttl };
        let plan = Plan::make(source, &to, allowed)?;
        self.check_target(&to, &plan)?;
        let (most, limits) = (store.limits()?, to.limits()?);
        if limits.max_key_bytes < most.max_key_bytes || limits.max_value_bytes < most.max_value_bytes {
            let bar = progress("looked at", plan.approximate_len());
            plan.check_sizes(source, limits, &bar)?;
            bar.finish_and_clear();
        }
        report::print_plan(&plan, self.json)?;
        if self.dry_run {
            return report::print_dry_run(&shown(&self.from), &shown(&self.to), &plan, self.json);
        }
        let report = match to.open()? {
            Store::Directory(db) => {
                let report = self.fill(store, source, &db, plan)?;
                // This syncs the log, so nothing is called done before.
                db.close()?;
                report
            }
            Store::Remote(db) => self.fill(store, source, &db, plan)?,
        };
        report.print(self.json)
    }

    /// Rejects a target with tables that no unfinished copy has made.
    fn check_target(&self, to: &Destination, plan: &Plan) -> Outcome {
        let tables = to.tables()?;
        let Some(first) = tables.first() else { return Ok(()) };
        let (to, is_begun) = (shown(&self.to), tables.iter().any(|name| name == UNFINISHED));
        let message = match (self.resume, is_begun) {
            (false, true) => format!("{to} has an unfinished copy; continue it with --resume"),
            (false, false) => format!("{to} has tables already, such as {first:?}; name an empty target"),
            (true, false) => {
                format!("{to} has tables already, such as {first:?}, and no unfinished copy to resume")
            }
            (true, true) => {
                let is_expected = |name: &String| {
                    name == UNFINISHED || plan.tables.iter().any(|planned| planned.table.name() == name)
                };
                let Some(other) = tables.iter().find(|name| !is_expected(name)) else { return Ok(()) };
                format!("{to} has table {other:?}, which this copy does not have; drop it first")
            }
        };
        Err(Failure::Usage(message))
    }

    /// Copies into an open target.
    fn fill<T: Target>(
        &self,
        store: &Store,
        source: &impl Source,
        target: &T,
        plan: Plan,
    ) -> Outcome<Report> {
        let begun = Instant::now();
        let is_resumed = mark(target, &format!("{:016x}", store.id()))?;
        if is_resumed && !self.resume {
            return Err(Failure::Usage("another copy into this target has just begun".to_owned()));
        }
        let bar = progress("copied", plan.approximate_len());
        let mut tables: Vec<TableReport> = Vec::new();
        for planned in &plan.tables {
            let table = copy_table(source, target, planned, is_resumed, &bar).map_err(|failure| {
                let kept = format!(
                    "{} of {} tables are copied; run the command again with --resume",
                    tables.len(),
                    plan.tables.len()
                );
                failure.keeping(kept, "more may be")
            })?;
            tables.push(table);
        }
        bar.finish_and_clear();
        unmark(target)?;
        let (from, to) = (shown(&self.from), shown(&self.to));
        Ok(Report { from, to, plan, tables, is_resumed, time: begun.elapsed() })
    }
}

/// Copies a table, reads it back and compares.
fn copy_table<T: Target>(
    source: &impl Source,
    target: &T,
    planned: &Planned,
    is_resumed: bool,
    bar: &ProgressBar,
) -> Outcome<TableReport> {
    let (name, begun) = (planned.table.name(), Instant::now());
    let into = target.ensure_table(name, &planned.options)?;
    let earlier = if is_resumed { Some(target.snapshot()?) } else { None };
    let pass = Pass {
        source,
        from: &planned.table,
        target,
        into: &into,
        earlier: earlier.as_ref(),
        rewrite: planned.options.ttl.is_some(),
        bar,
    };
    let copied = pass.run()?;
    drop(earlier);
    let bar = progress("read back", Some(copied.digest.records));
    let found = digest_of(&target.snapshot()?, &into, &bar)?;
    bar.finish_and_clear();
    let may_have_expired = planned.options.ttl.is_some_and(|ttl| begun.elapsed() >= ttl);
    if found == copied.digest {
        return Ok(TableReport { name: name.to_owned(), copied, is_verified: true });
    }
    if may_have_expired && found.records < copied.digest.records {
        return Ok(TableReport { name: name.to_owned(), copied, is_verified: false });
    }
    let Copied { digest, .. } = &copied;
    Err(Failure::Failed(format!(
        "table {name:?} is not equal after the copy: {} records, {} bytes, checksum {:016x} instead of {} \
         records, {} bytes, checksum {:016x}; does another program write to the target?",
        found.records,
        found.bytes,
        found.sum(),
        digest.records,
        digest.bytes,
        digest.sum()
    )))
}

/// Notes in the target that a copy of this source has begun. Returns whether one had begun before.
fn mark<T: Target>(target: &T, source: &str) -> Outcome<bool> {
    let (mut found, mut is_begun) = (None, false);
    target.write(|tx| {
        is_begun = tx.table(UNFINISHED)?.is_some();
        let table = tx.ensure_table(UNFINISHED)?;
        found = tx.get(&table, SOURCE)?;
        if found.is_none() { tx.put(&table, SOURCE, source) } else { Ok(()) }
    })?;
    match found {
        Some(other) if other != source.as_bytes() => Err(Failure::Usage(
            "the target has an unfinished copy of another database; name another target".to_owned(),
        )),
        _ => Ok(is_begun),
    }
}

/// Removes the note.
fn unmark<T: Target>(target: &T) -> Outcome {
    Ok(target.write(|tx| match tx.table(UNFINISHED)? {
        Some(table) => tx.drop_table(&table),
        None => Ok(()),
    })?)
}

/// Returns a progress bar of records on standard error, if that is a terminal.
fn progress(what: &str, total: Option<u64>) -> ProgressBar {
    let (template, bar) = match total {
        Some(total) => {
            ("{msg} {human_pos} of about {human_len} records {bar:30} {per_sec}", ProgressBar::new(total))
        }
        None => ("{spinner} {msg} {human_pos} records, {per_sec}", ProgressBar::new_spinner()),
    };
    let bar = bar.with_style(ProgressStyle::with_template(template).expect("the template is right"));
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
