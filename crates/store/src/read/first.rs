//! The first record whose key begins with a prefix: a look-up in an index, whose keys end with that of the row.
//!
//! Each place that can have such keys is searched, and mostly one alone has some, as each search shows. That costs a
//! fraction of a cursor, which merges the places. A cursor has to decide if several places have such keys, if the first
//! one is deleted or too new, or if a range delete could hide it.

use crate::read::handle::Table;
use crate::read::resolve::{Source, sources};
use crate::read::scan::Cursor;
use crate::read::snapshot::Snapshot;
use crate::state::ttl::Reading;
use crate::state::view::View;
use base::slots::EpochGuard;
use base::{CommitTs, Result, Span, TableId};
use memtable::Memtable;
use page::Value;
use pool::Pool;
use run::{Delta, FirstWithPrefix, RecordPosition, Run};

/// A key that begins with the prefix, without that, and its value: what one place has.
pub(crate) type Entry<'e> = (&'e [u8], Value<'e>);

/// What lies above the places of a snapshot: what the reader itself wrote.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Above<'e> {
    /// The first of its keys that begins with the prefix.
    pub entry: Option<Entry<'e>>,
    /// Whether it has deleted ranges of the table.
    pub has_ranges: bool,
}

/// What the places show.
pub(crate) enum First<T, W> {
    /// The result of the closure, or `None` if no key begins with the prefix.
    Known(Option<T>),
    /// A cursor has to look. The closure was not called.
    Unclear(W),
}

/// Where the only key was found.
enum Place<'p> {
    Memory(Entry<'p>),
    Page(RecordPosition),
}

/// A search of one place after the other, from the newest.
struct Search<'p> {
    prefix: &'p [u8],
    found: Option<Place<'p>>,
    /// Whether a range delete could hide what is found, or what is found next.
    may_be_hidden: bool,
    has_ranges: bool,
}

impl<'p> Search<'p> {
    /// Notes the key that a place has. Returns whether it is the only one so far.
    fn note(&mut self, place: Place<'p>) -> bool {
        self.may_be_hidden = self.has_ranges;
        self.found.replace(place).is_none()
    }

    /// Looks into a memtable. Returns whether it is still clear what comes first.
    fn memtable(&mut self, memtable: &'p Memtable, table: TableId, ts: CommitTs) -> bool {
        self.has_ranges |= !memtable.ranges(table, ts).is_empty();
        match memtable.first_with_prefix(table, self.prefix, ts) {
            None => true,
            Some((_, None)) => false,
            Some((key, Some(value))) => self.note(Place::Memory((&key[self.prefix.len()..], value))),
        }
    }

    /// Looks into a run. Returns whether it is still clear what comes first.
    fn run(&mut self, run: &Run, pool: &Pool, guard: &mut EpochGuard<'_>) -> Result<bool> {
        Ok(match run.first_with_prefix(pool, guard, self.prefix)? {
            FirstWithPrefix::None => true,
            FirstWithPrefix::At(position) => self.note(Place::Page(position)),
            FirstWithPrefix::Beyond => false,
        })
    }

    /// Looks into a delta, whose range deletes hide only what is older.
    fn delta(&mut self, delta: &Delta, pool: &Pool, guard: &mut EpochGuard<'_>) -> Result<bool> {
        let is_clear = self.run(&delta.records, pool, guard)?;
        self.has_ranges |= !delta.ranges.is_empty();
        Ok(is_clear)
    }

    /// Looks into all places that a snapshot sees.
    fn all(
        &mut self,
        snapshot: &Snapshot,
        view: &'p View,
        table: TableId,
        guard: &mut EpochGuard<'_>,
    ) -> Result<bool> {
        let (pool, ts) = (&snapshot.store().pool, snapshot.ts());
        for Source { memtable, attached } in sources(&view.open, &view.sealed, table, ts) {
            if !self.memtable(memtable, table, ts) {
                return Ok(false);
            }
            for delta in attached {
                if !self.delta(delta, pool, guard)? {
                    return Ok(false);
                }
            }
        }
        let (above, lowest) = view.tables.layers(table);
        for stacked in above {
            if !self.delta(&stacked.delta, pool, guard)? {
                return Ok(false);
            }
        }
        self.run(&lowest, pool, guard)
    }
}

impl Snapshot {
    /// Calls `with` on the first record whose key begins with `prefix`: on the rest of the key, and the value.
    pub fn first_with_prefix<T>(
        &self,
        table: &Table,
        prefix: &[u8],
        with: impl FnOnce(&[u8], &[u8]) -> T,
    ) -> Result<Option<T>> {
        let reading = table.check(self)?;
        match self.first_in_one_place(table.id(), reading, prefix, Above::default(), |_| (), with)? {
            First::Known(found) => Ok(found),
            First::Unclear(with) => first_of(self.cursor(table, Span::prefix(prefix))?, prefix, with),
        }
    }

    /// Calls `with` on the first record whose key begins with `prefix`, unless a cursor has to look for it. `note` is
    /// called with the rest of the key before `with` is, or with `None` if there is no such key.
    pub(crate) fn first_in_one_place<T, W: FnOnce(&[u8], &[u8]) -> T>(
        &self,
        table: TableId,
        reading: Reading,
        prefix: &[u8],
        above: Above<'_>,
        note: impl FnOnce(Option<&[u8]>),
        with: W,
    ) -> Result<First<T, W>> {
        if reading.is_dated() {
            return Ok(First::Unclear(with));
        }
        self.count_get(table);
        self.with_view(|view| {
            let (found, has_ranges) = (above.entry.map(Place::Memory), above.has_ranges);
            let mut search = Search { prefix, found, may_be_hidden: false, has_ranges };
            let mut guard = self.reader().enter();
            if !search.all(self, view, table, &mut guard)? || search.may_be_hidden {
                return Ok(First::Unclear(with));
            }
            let pinned;
            let (rest, value) = match search.found {
                None => {
                    note(None);
                    return Ok(First::Known(None));
                }
                Some(Place::Memory((rest, value))) => (Some(rest), value),
                Some(Place::Page(position)) => {
                    pinned = position.leaf(&self.store().pool, &mut guard)?.pin();
                    (pinned.key_after(prefix.len()), pinned.value())
                }
            };
            // The closure may read, too.
            drop(guard);
            Ok(match (rest, value) {
                (Some(rest), Value::Inline(value)) => {
                    note(Some(rest));
                    First::Known(Some(with(rest, value)))
                }
                _ => First::Unclear(with),
            })
        })
    }
}

/// Calls `with` on the first record of a cursor over the keys that begin with `prefix`.
pub(crate) fn first_of<T>(
    mut cursor: Cursor<'_>,
    prefix: &[u8],
    with: impl FnOnce(&[u8], &[u8]) -> T,
) -> Result<Option<T>> {
    Ok(cursor.next()?.map(|(key, value)| with(&key[prefix.len()..], value)))
}
