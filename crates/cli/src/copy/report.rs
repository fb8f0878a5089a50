//! What a copy prints: what the target does not keep, each table, and the sum.

use super::plan::{NotKept, Plan, Planned};
use super::transfer::Copied;
use crate::failure::Outcome;
use crate::output::say;
use crate::text;
use serde_json::{Value, json};
use std::time::Duration;

/// A table that was copied.
#[derive(Debug)]
pub struct TableReport {
    pub name: String,
    pub copied: Copied,
    /// Whether the target was read back and is equal. Entries of a table with a TTL may have expired before that.
    pub is_verified: bool,
}

/// The whole copy.
#[derive(Debug)]
pub struct Report {
    pub from: String,
    pub to: String,
    pub plan: Plan,
    pub tables: Vec<TableReport>,
    /// Tables of the interrupted copy that the source no longer has.
    pub dropped: Vec<String>,
    pub is_resumed: bool,
    pub time: Duration,
}

/// Prints, for people, what will be done, before anything is written.
pub fn print_plan(plan: &Plan, is_json: bool) -> Outcome {
    if is_json {
        return Ok(());
    }
    for NotKept { table, what, why } in &plan.not_kept {
        say!("not kept: {what} of table {table:?}: {why}")?;
    }
    plan.skipped.iter().try_for_each(|name| say!("left out: table {name:?}"))
}

/// Prints the plan of a copy that is not made.
pub fn print_dry_run(from: &str, to: &str, plan: &Plan, is_json: bool) -> Outcome {
    if is_json {
        let table = |planned: &Planned| {
            let (name, records) = (planned.table.name(), planned.approximate_len);
            json!({ "table": name, "approximate_records": records })
        };
        let tables: Vec<Value> = plan.tables.iter().map(table).collect();
        let report = json!({
            "from": from,
            "to": to,
            "dry_run": true,
            "tables": tables,
            "not_kept": not_kept(plan),
            "skipped": plan.skipped,
        });
        return say!("{report}");
    }
    for planned in &plan.tables {
        let count =
            planned.approximate_len.map_or("?".to_owned(), |count| format!("about {}", text::count(count)));
        say!("table {:?}: {count} records", planned.table.name())?;
    }
    say!("{} tables can be copied; nothing was written", plan.tables.len())
}

impl Report {
    fn sum(&self, of: impl Fn(&Copied) -> u64) -> u64 {
        self.tables.iter().map(|table| of(&table.copied)).sum()
    }

    /// Prints the report.
    pub fn print(&self, is_json: bool) -> Outcome {
        if is_json { say!("{}", self.json()) } else { self.print_text() }
    }

    fn print_text(&self) -> Outcome {
        for table in &self.tables {
            let digest = &table.copied.digest;
            let (records, bytes) = (text::count(digest.records), text::size(digest.bytes));
            let note =
                if table.is_verified { "" } else { "; not compared: entries may have expired meanwhile" };
            say!("table {:?}: {records} records, {bytes}, checksum {:016x}{note}", table.name, digest.sum())?;
        }
        for name in &self.dropped {
            say!("table {name:?}: dropped, because the source no longer has it")?;
        }
        let records = text::count(self.sum(|copied| copied.digest.records));
        let bytes = text::size(self.sum(|copied| copied.digest.bytes));
        let [written, unchanged, deleted] = [
            self.sum(|copied| copied.written),
            self.sum(|copied| copied.unchanged),
            self.sum(|copied| copied.deleted),
        ]
        .map(text::count);
        let time = text::time(self.time);
        let verified = self.tables.iter().filter(|table| table.is_verified).count();
        say!("{records} records, {bytes}, of {} tables in {time}, {verified} verified", self.tables.len())?;
        match self.is_resumed {
            true => {
                say!("{written} records were written, {unchanged} were there already, {deleted} were deleted")
            }
            false => Ok(()),
        }
    }

    fn json(&self) -> Value {
        let table = |table: &TableReport| {
            let Copied { digest, written, unchanged, deleted } = &table.copied;
            json!({
                "table": table.name,
                "records": digest.records,
                "bytes": digest.bytes,
                "checksum": format!("{:016x}", digest.sum()),
                "written": written,
                "unchanged": unchanged,
                "deleted": deleted,
                "verified": table.is_verified,
            })
        };
        json!({
            "from": self.from,
            "to": self.to,
            "resumed": self.is_resumed,
            "tables": self.tables.iter().map(table).collect::<Vec<_>>(),
            "not_kept": not_kept(&self.plan),
            "skipped": self.plan.skipped,
            "dropped": self.dropped,
            "records": self.sum(|copied| copied.digest.records),
            "bytes": self.sum(|copied| copied.digest.bytes),
            "written": self.sum(|copied| copied.written),
            "unchanged": self.sum(|copied| copied.unchanged),
            "deleted": self.sum(|copied| copied.deleted),
            "seconds": self.time.as_secs_f64(),
        })
    }
}

fn not_kept(plan: &Plan) -> Vec<Value> {
    let item = |lost: &NotKept| json!({ "table": lost.table, "what": lost.what, "why": lost.why });
    plan.not_kept.iter().map(item).collect()
}
