//! The shortcuts of a cursor around dead entries: the stretches that its reader knows.

use crate::read::merge::{Ahead, Shortcuts};
use crate::read::snapshot::Snapshot;
use crate::state::stretches::{End, MOST_OWN, Own, Stretch, Stretches, after, is_before};
use crate::state::ttl::Reading;
use crate::state::view::View;
use crate::uncommitted::write_set::WriteSet;
use base::{CommitTs, Result, TableId};
use memtable::Memtable;
use page::Value;
use std::sync::atomic::Ordering;

/// What the reader has written to the table itself: it then sees more than what was committed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Written<'a> {
    Nothing,
    InMemory(&'a WriteSet),
    /// Some of it is in runs of its own.
    Spilled,
}

impl Written<'_> {
    /// Returns the part of a stretch of `table` in which it has nothing, from where a walk began: what others know has
    /// no entries there either. A consumer of a queue often deletes the last entry before it looks for the next one.
    fn clear_part(
        self,
        table: TableId,
        start: Box<[u8]>,
        stretch: Stretch,
        forward: bool,
    ) -> Option<(Box<[u8]>, Stretch)> {
        let writes = match self {
            Written::Nothing => return Some((start, stretch)),
            Written::InMemory(writes) => writes,
            Written::Spilled => return None,
        };
        let end = stretch.end.as_deref();
        if writes.has_range_in(table, &start, end) {
            return None;
        }
        let (start, stretch) = match writes.end_in(table, &start, end, !forward) {
            None => return Some((start, stretch)),
            Some(first) if forward => (start, Stretch { end: Some(first.into()), ..stretch }),
            Some(last) => (after(last), stretch),
        };
        is_before(&start, stretch.end.as_deref()).then_some((start, stretch))
    }
}

/// The knowledge of a snapshot's or transaction's cursor about one table.
#[derive(Debug)]
pub(crate) struct Shortcut<'a> {
    snapshot: &'a Snapshot,
    view: &'a View,
    table: TableId,
    reading: Reading,
    own: &'a Own,
    written: Written<'a>,
    /// The first key at which the current walk has asked.
    origin: Vec<u8>,
}

impl<'a> Shortcut<'a> {
    pub fn new(
        snapshot: &'a Snapshot,
        view: &'a View,
        (table, reading): (TableId, Reading),
        own: &'a Own,
        written: Written<'a>,
    ) -> Self {
        Shortcut { snapshot, view, table, reading, own, written, origin: Vec::new() }
    }

    fn oldest_ms(&self) -> u64 {
        match self.reading {
            Reading::Plain => 0,
            Reading::Dated { oldest_ms, .. } => oldest_ms,
        }
    }

    /// Returns the other end of the stretch around `key` that only this reader knows: rule 3 of `stretches`.
    fn own(&self, key: &[u8], forward: bool) -> Option<End> {
        let known = self.own.borrow();
        let (start, stretch) = known.as_ref()?.get(&self.table)?.around(key)?;
        Some(if forward { stretch.end.clone() } else { Some(start.into()) })
    }

    /// Returns where the stretch around `key` that all readers know lets the cursor continue: rule 2 of `stretches`.
    fn committed(&self, key: &[u8], forward: bool) -> Option<Option<Vec<u8>>> {
        let (view, table) = (self.view, self.table);
        let may_use = |stretch: &Stretch| {
            view.absorbed <= stretch.ts
                && stretch.ts <= self.snapshot.ts()
                && stretch.oldest_ms <= self.oldest_ms()
        };
        let known = &self.snapshot.store().known;
        let (start, Stretch { end, ts, .. }) = known.around(table, key, may_use)?;
        let sealed = || view.sealed.iter().take_while(|sealed| sealed.sealed_at > ts);
        if sealed().any(|sealed| !sealed.attached_for(table, CommitTs::MAX).is_empty()) {
            return None;
        }
        let memtables = std::iter::once(&view.open.memtable).chain(sealed().map(|sealed| &sealed.memtable));
        let memtables = memtables.map(|memtable| -> &Memtable { memtable });
        if forward {
            let changed = memtables.filter_map(|memtable| memtable.key_changed_since(table, key, ts)).min();
            let changed = changed.filter(|changed| is_before(changed, end.as_deref()));
            return Some(changed.or(end.as_deref()).map(<[u8]>::to_vec));
        }
        let behind = after(key);
        let changed = memtables.filter_map(|memtable| memtable.key_changed_before(table, &behind, ts)).max();
        let bound = changed.filter(|changed| *changed >= &*start).map_or(start, after);
        Some(Some(bound.into()))
    }
}

impl Shortcuts for Shortcut<'_> {
    fn may_expire(&self) -> bool {
        self.reading.is_dated()
    }

    fn has_expired(&self, item: Value<'_>) -> Result<bool> {
        self.reading.has_expired(item)
    }

    fn set_out(&mut self, key: &[u8]) {
        self.origin.clear();
        self.origin.extend_from_slice(key);
    }

    fn ahead(&mut self, key: &[u8], forward: bool, stop: Option<&[u8]>) -> Ahead {
        let is_over = stop.is_some_and(|stop| if forward { key >= stop } else { key < stop });
        if is_over {
            return Ahead::Beyond { bound: None, but_own: false };
        }
        if let Some(bound) = self.own(key, forward) {
            return Ahead::Beyond { bound: bound.map(Vec::from), but_own: false };
        }
        match self.committed(key, forward) {
            Some(bound) => Ahead::Beyond { bound, but_own: !matches!(self.written, Written::Nothing) },
            None => Ahead::Here,
        }
    }

    fn walked(&mut self, entries: u32) {
        // Relaxed: a tally, which orders nothing.
        self.snapshot.store().tallies.dead_passed.fetch_add(entries.into(), Ordering::Relaxed);
    }

    fn arrived(&mut self, key: Option<&[u8]>, forward: bool, stop: Option<&[u8]>) {
        let (start, end) = if forward {
            let end = [key, stop].into_iter().flatten().min();
            (Box::from(&self.origin[..]), end.map(Box::from))
        } else {
            let start = key.map(after).max(stop.map(Box::from)).unwrap_or_default();
            (start, Some(after(&self.origin)))
        };
        if !is_before(&start, end.as_deref()) {
            return;
        }
        let stretch = Stretch { end, ts: self.snapshot.ts(), oldest_ms: self.oldest_ms() };
        let mut own = self.own.borrow_mut();
        let known = own.get_or_insert_default().entry(self.table).or_default();
        if known.by_start.len() >= MOST_OWN {
            *known = Stretches::default();
        }
        known.note(start.clone(), stretch.clone());
        if let Some((start, stretch)) = self.written.clear_part(self.table, start, stretch, forward) {
            self.snapshot.store().known.note(self.table, start, stretch);
        }
    }
}
