//! Reads with a description of their steps: see [`base::explain`].
//!
//! The path is that of [`Snapshot::get`]: the view, the table's row, then [`sources`] and the table's runs. It ends
//! with the first that has the key. Each part has a function of its own, which records what it looked at, because a
//! normal look-up should not pay for recording. Reference counts keep the parts of the view meanwhile, and the snapshot
//! keeps its pages.

use crate::read::handle::Table;
use crate::read::resolve::{Source, sources};
use crate::read::snapshot::Snapshot;
use crate::state::stack::Stacked;
use crate::state::store::Store;
use crate::state::tables::{Layout, Tables};
use crate::state::view::{OpenMemtable, SealedMemtable};
use base::explain::{Explanation, Step};
use base::limits::UNIT_BYTES;
use base::{CommitTs, Result, Span, TableId, Value};
use memtable::Memtable;
use run::{Delta, Outline, Run};
use std::sync::Arc;

/// The length above which a scan skips a value: read it by itself, piece by piece.
const LONG_BYTES: u64 = 1 << 20;

/// The parts of a view.
struct Parts {
    open: Arc<OpenMemtable>,
    sealed: Vec<SealedMemtable>,
    tables: Arc<Tables>,
}

impl Store {
    /// Looks `key` up in a new snapshot, and returns the steps. O([`Snapshot::get`]).
    #[track_caller]
    pub fn explain_get(self: &Arc<Self>, table: &Table, key: &[u8]) -> Result<Explanation> {
        let mut explained = Explanation::default();
        let (snapshot, parts) = begin(self, table, &mut explained)?;
        let known = snapshot.explain_find(&parts, table.id(), key, &mut explained)?;
        if !known {
            explained
                .step("answer", |step| "no layer has the key: it is absent".clone_into(&mut step.outcome));
        }
        snapshot.check_held()?;
        Ok(explained)
    }

    /// Reads at most `limit` records of `span` in a new snapshot, and returns the steps.
    #[track_caller]
    pub fn explain_scan(self: &Arc<Self>, table: &Table, span: Span, limit: u64) -> Result<Explanation> {
        let mut explained = Explanation::default();
        let (snapshot, parts) = begin(self, table, &mut explained)?;
        explained.step("layers", |step| step.outcome = parts.layers(table.id(), snapshot.ts()));
        let mut cursor = explained.step("open a cursor", |_| snapshot.cursor(table, span))?;
        let faults = || self.pool.stats().faults;
        let mut read = |explained: &mut Explanation, what: &str, most: u64| -> Result<u64> {
            explained.step(what, |step| {
                let before = faults();
                let mut records = 0;
                while records < most && cursor.advance()? {
                    records += 1;
                    let key_bytes = cursor.key().map_or(0, <[u8]>::len) as u64;
                    let value_bytes = cursor.value_len().unwrap_or(0);
                    if value_bytes <= LONG_BYTES {
                        cursor.value()?;
                    }
                    step.bytes += key_bytes + value_bytes;
                }
                step.outcome = format!("{records} records, {} pages read from the file", faults() - before);
                Ok(records)
            })
        };
        let first = read(&mut explained, "seek, first record", limit.min(1))?;
        if first > 0 && limit > 1 {
            read(&mut explained, "further records", limit - 1)?;
        }
        Ok(explained)
    }
}

/// Returns a snapshot, the table's row, and the view's parts.
#[track_caller]
fn begin(store: &Arc<Store>, table: &Table, explained: &mut Explanation) -> Result<(Snapshot, Parts)> {
    let (snapshot, parts) = {
        let snapshot = explained.step("begin a snapshot", |_| store.snapshot())?;
        let call = snapshot.call()?;
        let view = snapshot.view(&call);
        let step = explained.steps.last_mut().expect("just done");
        step.outcome = format!(
            "view {} of checkpoint {}, commits through {}, {} sealed memtables",
            view.number,
            view.checkpoint.0,
            snapshot.ts().0,
            view.sealed.len()
        );
        let (open, sealed) = (Arc::clone(&view.open), view.sealed.clone());
        let parts = Parts { open, sealed, tables: Arc::clone(&view.tables) };
        drop(call);
        (snapshot, parts)
    };
    let known = table.is_known_to(&snapshot);
    explained.step("check the table's handle", |step| {
        step.outcome = if known { "known to be good" } else { "looked up in the catalog" }.into();
        table.check(&snapshot)
    })?;
    Ok((snapshot, parts))
}

impl Parts {
    fn layers(&self, table: TableId, ts: CommitTs) -> String {
        let sealed = self.sealed.iter().map(|sealed| &*sealed.memtable);
        let memtables = std::iter::once(&*self.open.memtable).chain(sealed);
        let with = memtables.filter(|memtable| memtable.newest(table).0 > 0).count();
        let attached: usize = self.sealed.iter().map(|sealed| sealed.attached_for(table, ts).len()).sum();
        let runs = match self.tables.get(table) {
            None => "no run".into(),
            Some(Layout::BTree(run)) => format!("a B+tree of {}", describe(run)),
            Some(Layout::Lsm(stack)) => {
                let (above, lowest) = stack.layers();
                format!("{} runs over one of {}", above.len(), describe(&lowest))
            }
        };
        format!("{with} of {} memtables, {attached} attached runs, {runs}", self.sealed.len() + 1)
    }
}

fn describe(run: &Run) -> String {
    let all = format!("{} levels, {} leaves, {} records", run.height, run.leaves, run.records);
    match run.saved_units * UNIT_BYTES as u64 / 1024 {
        0 => all,
        saved => format!("{all}, {saved} KiB saved by compression"),
    }
}

impl Snapshot {
    /// Returns whether any part has `key`, even as a delete.
    fn explain_find(
        &self,
        parts: &Parts,
        table: TableId,
        key: &[u8],
        explained: &mut Explanation,
    ) -> Result<bool> {
        let sources = sources(&parts.open, &parts.sealed, table, self.ts());
        for (index, Source { memtable, attached }) in sources.enumerate() {
            let what = if index == 0 { "open memtable".into() } else { format!("sealed memtable {index}") };
            if explained.step(what, |step| self.ask(step, memtable, table, key)) {
                return Ok(true);
            }
            for delta in attached {
                if explained.step("attached run", |step| self.ask_delta(step, delta, key))? {
                    return Ok(true);
                }
            }
        }
        match parts.tables.get(table) {
            None => Ok(false),
            Some(Layout::BTree(run)) => {
                explained.step(format!("B+tree, {} levels", run.height), |step| self.ask_run(step, run, key))
            }
            Some(Layout::Lsm(stack)) => {
                for (index, Stacked { delta, .. }) in stack.entries().iter().enumerate() {
                    let what = format!("run {}, {} levels", index + 1, delta.records.height);
                    if explained.step(what, |step| self.ask_delta(step, delta, key))? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    fn ask(&self, step: &mut Step, memtable: &Memtable, table: TableId, key: &[u8]) -> bool {
        if memtable.newest(table).0 == 0 {
            "has no entry of the table".clone_into(&mut step.outcome);
            return false;
        }
        let outline = memtable.get(table, key, self.ts()).map(|found| match found {
            Value::Inline(value) => Outline::Inline(value.len() as u64),
            Value::Large(large) => Outline::Large(large.reference().len_bytes),
            Value::Deleted => Outline::Deleted,
        });
        note(step, outline)
    }

    fn ask_run(&self, step: &mut Step, run: &Run, key: &[u8]) -> Result<bool> {
        let outline = run.explain(&self.store().pool, self.reader(), key, &mut step.pages)?;
        Ok(note(step, outline))
    }

    /// Asks the filter first; if it excludes the key, no page of the records is read.
    fn ask_delta(&self, step: &mut Step, delta: &Delta, key: &[u8]) -> Result<bool> {
        let (pool, reader) = (&self.store().pool, self.reader());
        if delta.explain_filter(pool, reader, key, &mut step.pages)? {
            let outline = delta.records.explain(pool, reader, key, &mut step.pages)?;
            if note(step, outline) {
                return Ok(true);
            }
        } else {
            "its filter excludes the key".clone_into(&mut step.outcome);
        }
        let is_covered = delta.ranges.covering(key).is_some();
        if is_covered {
            "deleted by a range delete".clone_into(&mut step.outcome);
        }
        Ok(is_covered)
    }
}

/// Records the result in the step. Returns whether there is one.
fn note(step: &mut Step, outline: Option<Outline>) -> bool {
    (step.outcome, step.bytes) = match outline {
        None => ("has no entry for the key".into(), 0),
        Some(Outline::Inline(bytes)) => (format!("a value of {bytes} bytes"), bytes),
        Some(Outline::Large(bytes)) => {
            (format!("a value of {bytes} bytes outside the pages, not read"), bytes)
        }
        Some(Outline::Deleted) => ("a delete: the key is absent".into(), 0),
    };
    outline.is_some()
}
