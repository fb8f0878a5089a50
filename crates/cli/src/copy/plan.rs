//! What a copy will do, found out before anything is written: the tables, what the target cannot keep, and the reasons
//! to refuse the copy.

use super::ends::Destination;
use super::mark::UNFINISHED;
use crate::failure::{Failure, Outcome};
use crate::text;
use indicatif::ProgressBar;
use pando::remote::{Capability, Limits};
use pando::{Compression, Layout, ReadSnapshot, RecordCursor, Span, Table, TableOptions};

/// The number of records over a limit that a message names.
const MOST_NAMED: usize = 10;

/// A table to copy.
#[derive(Debug)]
pub struct Planned {
    pub table: Table,
    pub options: TableOptions,
    /// The number of records, as far as it is known.
    pub approximate_len: Option<u64>,
}

/// Something that the target does not keep.
#[derive(Debug)]
pub struct NotKept {
    pub table: String,
    pub what: &'static str,
    pub why: &'static str,
}

#[derive(Debug)]
pub struct Plan {
    pub tables: Vec<Planned>,
    pub not_kept: Vec<NotKept>,
    pub skipped: Vec<String>,
}

/// What the user allows.
#[derive(Clone, Copy, Debug)]
pub struct Allowed<'a> {
    /// Tables to leave out: names, or beginnings of names before a `*`.
    pub skip: &'a [String],
    /// Whether the TTL of entries starts anew.
    pub restart_ttl: bool,
}

impl Plan {
    /// Plans the copy.
    ///
    /// # Errors
    /// A usage failure that names everything that stands in the way.
    pub fn make(source: &impl ReadSnapshot, to: &Destination, allowed: Allowed<'_>) -> Outcome<Plan> {
        let mut plan = Plan { tables: Vec::new(), not_kept: Vec::new(), skipped: Vec::new() };
        let mut refused = Vec::new();
        for table in source.tables()? {
            let name = table.name();
            if name == UNFINISHED {
                let message = "the source is itself an unfinished copy: finish that one with --resume first";
                return Err(Failure::Usage(message.to_owned()));
            }
            if allowed.skip.iter().any(|pattern| is_match(pattern, name)) {
                // Rows without their schema, or an index without its rows, would be damage.
                if name.starts_with("rows/") {
                    refused.push(format!(
                        "table {name:?} is a part of a typed table, so --skip cannot leave it out"
                    ));
                }
                plan.skipped.push(name.to_owned());
                continue;
            }
            refused.extend(obstacle(&table, allowed.restart_ttl));
            plan.add(source, table, to)?;
        }
        for pattern in allowed.skip {
            if !plan.skipped.iter().any(|name| is_match(pattern, name)) {
                refused.push(format!("--skip {pattern} matches no table of the source"));
            }
        }
        let is_sqlite = |name: &str| rows::is_reserved(name) && !name.starts_with("rows/");
        if plan.skipped.iter().any(|name| is_sqlite(name))
            && let Some(other) = plan.tables.iter().find(|planned| is_sqlite(planned.table.name()))
        {
            let name = other.table.name();
            refused.push(format!(
                "table {name:?} and the others of SQLite's library are one whole, those of SQL included: \
                 leave out all of them (--skip 'sql:*') or none"
            ));
        }
        if refused.is_empty() {
            return Ok(plan);
        }
        Err(Failure::Usage(format!("nothing was copied:\n{}", lines(&refused))))
    }

    /// Adds a table, and notes which of its options the target does not keep.
    fn add(&mut self, source: &impl ReadSnapshot, table: Table, to: &Destination) -> Outcome {
        let (keeps_layout, keeps_compression) = (to.is_directory(), to.keeps_compression()?);
        let mut lose = |what: Capability, why| {
            self.not_kept.push(NotKept { table: table.name().to_owned(), what: what.name(), why });
        };
        if table.layout() != Layout::default() && !keeps_layout {
            lose(Capability::Layouts, "the target keeps tables in its own layout");
        }
        if table.compression() != Compression::default() && !keeps_compression {
            let why = if keeps_layout {
                "it has no effect on pages of 4 KiB"
            } else {
                "the target compresses tables in its own way"
            };
            lose(Capability::Compression, why);
        }
        let layout = if keeps_layout { table.layout() } else { Layout::default() };
        let compression = if keeps_compression { table.compression() } else { Compression::default() };
        let mut options = TableOptions::with_layout(layout).compression(compression);
        options.ttl = table.ttl();
        let approximate_len = source.estimated_len(&table)?;
        self.tables.push(Planned { table, options, approximate_len });
        Ok(())
    }

    /// Returns about how many records there are, if that is known of all tables.
    pub fn approximate_len(&self) -> Option<u64> {
        self.tables.iter().map(|planned| planned.approximate_len).sum()
    }

    /// Looks for keys and values that the target does not take. Of a directory, it reads no long value.
    ///
    /// # Errors
    /// A usage failure that names some of them, and their number.
    pub fn check_sizes(&self, source: &impl ReadSnapshot, limits: Limits, bar: &ProgressBar) -> Outcome {
        let (mut named, mut count) = (Vec::new(), 0_u64);
        for Planned { table, .. } in &self.tables {
            let mut cursor = source.cursor(table, Span::all())?;
            while cursor.advance()? {
                bar.inc(1);
                let (key, value_bytes) = (cursor.key().unwrap_or_default(), cursor.value_len().unwrap_or(0));
                let excess = match (key.len(), value_bytes) {
                    (bytes, _) if bytes > limits.max_key_bytes => {
                        format!("a key of {bytes} bytes, the limit is {}", limits.max_key_bytes)
                    }
                    (_, bytes) if bytes > limits.max_value_bytes as u64 => {
                        format!("a value of {bytes} bytes, the limit is {}", limits.max_value_bytes)
                    }
                    _ => continue,
                };
                count += 1;
                if named.len() < MOST_NAMED {
                    named.push(format!("table {:?}, key {}: {excess}", table.name(), text::name(key)));
                }
            }
        }
        if count == 0 {
            return Ok(());
        }
        let rest = count - named.len() as u64;
        if rest > 0 {
            named.push(format!("and {} more", text::count(rest)));
        }
        let message = "nothing was copied, because the target does not take these records; delete or shorten \
                       them, or leave out their tables with --skip";
        Err(Failure::Usage(format!("{message}:\n{}", lines(&named))))
    }
}

/// Returns the reason why a table cannot be copied.
fn obstacle(table: &Table, restart_ttl: bool) -> Option<String> {
    let name = table.name();
    if table.has_ttl_by_key() {
        return Some(format!(
            "table {name:?} has a TTL for each entry, which a copy does not keep; leave it out with --skip, \
             or use `backup` and `restore` between directories"
        ));
    }
    if table.ttl().is_some() && !restart_ttl {
        return Some(format!(
            "the entries of table {name:?} have a TTL, and would start it anew; allow that with \
             --restart-ttl, or leave the table out with --skip"
        ));
    }
    None
}

/// Returns whether a pattern is the name, or its beginning before a `*`.
fn is_match(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    }
}

fn lines(items: &[String]) -> String {
    items.iter().map(|item| format!("  {item}")).collect::<Vec<_>>().join("\n")
}
