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
mod mark;
mod plan;
mod transfer;
mod report;

use crate::failure::{Failure, Outcome};
use crate::open::MemoryArgs;
use crate::store::SCHEMA;
use clap::Args;
pub use ends::shown;
use ends::{Destination, Store, Target};
use indicatif::{ProgressBar, ProgressStyle};
use mark::{Mark, UNFINISHED};
use pando::{Budget, ReadSnapshot, Table, WriteTables, limits};
use plan::{Allowed, Plan, Planned};
use report::{Report, TableReport};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use transfer::{Copied, Pass, digest_of};

#[derive(Args, Debug)]
#[command(after_help = "\
The command copies all tables with their records, typed tables with their indexes among them. Before it writes
anything, it lists what the target does not keep, and refuses the copy if an entry would be lost. If the copy is
interrupted, run it again with --resume. Other users of the machine can see the command line, so put a password
into the environment variable PGPASSWORD and not into the address. It applies to each address without a password.

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
    /// Leave out the table of this name, or, with a `*` at the end as in 'sql:*', all tables whose names begin so; can
    /// be given several times
    #[arg(long, value_name = "TABLE")]
    skip: Vec<String>,
    /// Copy tables with a TTL, too. Each entry gets the full TTL again, counted from the copy
    #[arg(long)]
    restart_ttl: bool,
    /// Print what would be copied and what would not be kept, and copy nothing
    #[arg(long)]
    dry_run: bool,
    /// The schema of the database in the store to read [default: pando]
    #[arg(long, value_name = "NAME")]
    from_schema: Option<String>,
    /// The schema of the database in the store to write [default: pando]
    #[arg(long, value_name = "NAME")]
    to_schema: Option<String>,
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
    args.check()?;
    // Both ends share it.
    let budget = Budget::new(args.memory.memory.unwrap_or_else(server::config::share_bytes));
    let schema = args.from_schema.as_deref().unwrap_or(SCHEMA);
    let source = Store::open_source(&args.from, schema, &budget)?;
    match &source {
        Store::Directory(db) => args.copy(&source, &db.snapshot()?, &budget),
        Store::Remote(db) => args.copy(&source, &db.snapshot(), &budget),
    }
}

impl CopyArgs {
    /// Plans the copy, and makes it.
    fn copy(&self, store: &Store, source: &impl ReadSnapshot, budget: &Arc<Budget>) -> Outcome {
        let schema = self.to_schema.as_deref().unwrap_or(SCHEMA);
        let to = Destination::find(&self.to, schema, budget, self.page_size, self.dry_run)?;
        let allowed = Allowed { skip: &self.skip, restart_ttl: self.restart_ttl };
        let plan = Plan::make(source, &to, allowed)?;
        self.check_target(&to)?;
        let (most, limits) = (store.limits()?, to.limits()?);
        if limits.max_key_bytes < most.max_key_bytes || limits.max_value_bytes < most.max_value_bytes {
            let bar = progress("looked at", plan.approximate_len());
            plan.check_sizes(source, limits, &bar)?;
            bar.finish_and_clear();
        }
        match report::print_plan(&plan, self.json) {
            // The copy is made all the same.
            Err(Failure::ReaderGone) => {}
            printed => printed?,
        }
        if self.dry_run {
            return report::print_dry_run(&shown(&self.from), &shown(&self.to), &plan, self.json);
        }
        let report = match to.open()? {
            Store::Directory(db) => {
                let report = self.fill(store, source, &db, plan)?;
                // An error here is one of the copy: this syncs the log once more.
                db.close()?;
                report
            }
            Store::Remote(db) => self.fill(store, source, &db, plan)?,
        };
        report.print(self.json)
    }

    /// Rejects options that would have no effect, or not the one that is meant.
    fn check(&self) -> Outcome {
        let (from, to) = (ends::is_url(&self.from), ends::is_url(&self.to));
        let without = [
            ("--from-schema", self.from_schema.is_some() && !from, "FROM is a directory"),
            ("--to-schema", self.to_schema.is_some() && !to, "TO is a directory"),
            ("--page-size", self.page_size.is_some() && to, "TO is a store, which has pages of its own"),
        ];
        if let Some((option, _, why)) = without.iter().find(|(_, is_given, _)| *is_given) {
            return Err(Failure::Usage(format!("{option} has no effect here: {why}")));
        }
        match self.page_size {
            Some(bytes) if !limits::is_page_size(bytes) => {
                Err(Failure::Usage("--page-size must be 4K, 8K, 16K, 32K or 64K".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Rejects a target with tables that no unfinished copy has made.
    fn check_target(&self, to: &Destination) -> Outcome {
        let tables = to.tables()?;
        let Some(first) = tables.first() else { return Ok(()) };
        let (to, is_begun) = (shown(&self.to), tables.iter().any(|name| name == UNFINISHED));
        let message = match (self.resume, is_begun) {
            (false, true) => format!("{to} has an unfinished copy; continue it with --resume"),
            (false, false) => format!("{to} has tables already, such as {first:?}; name an empty target"),
            (true, false) => {
                format!("{to} has tables already, such as {first:?}, and no unfinished copy to resume")
            }
            (true, true) => return Ok(()),
        };
        Err(Failure::Usage(message))
    }

    /// Copies into an open target.
    fn fill<T: Target>(
        &self,
        store: &Store,
        source: &impl ReadSnapshot,
        target: &T,
        plan: Plan,
    ) -> Outcome<Report> {
        let begun = Instant::now();
        let mark = Mark::set(target, store.id(), self.resume)?;
        let dropped = drop_others(target, &plan, &mark)?;
        let bar = progress("copied", plan.approximate_len());
        let mut tables: Vec<TableReport> = Vec::new();
        for planned in &plan.tables {
            let table = copy_table(source, target, planned, &mark, &bar).map_err(|failure| {
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
        target.sync()?;
        mark.remove(target)?;
        let (from, to, is_resumed) = (shown(&self.from), shown(&self.to), mark.is_resumed);
        Ok(Report { from, to, plan, tables, dropped, is_resumed, time: begun.elapsed() })
    }
}

/// Drops the tables that an interrupted copy has made and that the source does not have any more. Returns their names.
fn drop_others<T: Target>(target: &T, plan: &Plan, mark: &Mark) -> Outcome<Vec<String>> {
    let is_other = |table: &Table| {
        let name = table.name();
        name != UNFINISHED && !plan.tables.iter().any(|planned| planned.table.name() == name)
    };
    let others: Vec<Table> = target.snapshot()?.tables()?.into_iter().filter(is_other).collect();
    for table in &others {
        target.write(|tx| {
            mark.check(tx)?;
            tx.drop_table(table)
        })?;
    }
    Ok(others.iter().map(|table| table.name().to_owned()).collect())
}

/// Copies a table, reads it back and compares.
fn copy_table<T: Target>(
    source: &impl ReadSnapshot,
    target: &T,
    planned: &Planned,
    mark: &Mark,
    bar: &ProgressBar,
) -> Outcome<TableReport> {
    let (name, begun) = (planned.table.name(), Instant::now());
    let into = target.ensure_table(name, &planned.options)?;
    let earlier = if mark.is_resumed { Some(target.snapshot()?) } else { None };
    let pass = Pass {
        source,
        from: &planned.table,
        target,
        into: &into,
        mark,
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
