//! Building deltas: from a write set, from loaded records, or from other deltas, merged or joined.

use super::extents::{Extents, Room, Turn};
use super::spilled::{Bounds, Reads, Spilled};
use crate::state::store::Store;
use crate::uncommitted::write_set::WriteSet;
use base::slots::Reader;
use base::{CheckpointNo, Result, TableId};
use page::Value;
use run::{BitsPerKey, Delta, DeltaBuilder, Merge, Part, Ranges, Run};
use space::Extent;
use std::cell::RefCell;
use std::sync::Arc;

/// The filter bits of a delta. An `insert` asks all of a table's deltas, and most do not have the key: about one in
/// five hundred reads a page in vain.
const FILTER_BITS: BitsPerKey = BitsPerKey(14);

/// The builder that takes a draft's records.
type DraftBuilder<'r, 'a> = DeltaBuilder<'r, &'r RefCell<Room<'a>>>;

/// A delta that is being built.
struct Draft {
    pages: Extents,
    values: Extents,
    birth: CheckpointNo,
}

impl Draft {
    /// Creates a draft whose pages are born with the next checkpoint.
    fn new(store: &Arc<Store>) -> Draft {
        let birth = CheckpointNo(store.views.with_current(|view| view.checkpoint.0) + 1);
        Draft { pages: Extents::new(store), values: Extents::new(store), birth }
    }

    /// Builds the delta of `ranges` and of the records that `fill` adds. The caller keeps closing out.
    fn build(
        &mut self,
        store: &Store,
        ranges: Ranges,
        fill: &mut dyn FnMut(&mut DraftBuilder<'_, '_>) -> Result<()>,
    ) -> Result<(Delta, Bounds)> {
        self.build_in_turns(store, None, ranges, &mut |builder, _| fill(builder))
    }

    /// Builds the run; see [`Draft::build`]. A `turn` prevents the database from being closed; `fill` ends it after
    /// each record.
    fn build_in_turns<'s>(
        &'s mut self,
        store: &'s Store,
        turn: Option<Turn<'s>>,
        ranges: Ranges,
        fill: &mut dyn FnMut(&mut DraftBuilder<'_, '_>, &RefCell<Room<'_>>) -> Result<()>,
    ) -> Result<(Delta, Bounds)> {
        let room = RefCell::new(Room { pages: &mut self.pages, values: &mut self.values, turn });
        let ranges_run = match ranges.is_empty() {
            true => Run::EMPTY,
            false => ranges.write(&store.pool, &room, self.birth)?,
        };
        let buffer_bytes = store.memory.shares.spill_buffer_bytes();
        let mut builder = DeltaBuilder::new(&store.pool, &room, self.birth, buffer_bytes, FILTER_BITS);
        fill(&mut builder, &room)?;
        let (records, has_ranges) = (builder.records(), !ranges.is_empty());
        let last = records.last_key().filter(|_| !has_ranges).map(<[u8]>::to_vec);
        let bounds = Bounds { first: records.first_key().unwrap_or_default().to_vec(), last };
        Ok((builder.finish(Arc::new(ranges), ranges_run)?, bounds))
    }
}

/// Returns the writes to one table in `writes` as a delta.
pub(super) fn write(store: &Arc<Store>, writes: &WriteSet, table: TableId) -> Result<Spilled> {
    let mut draft = Draft::new(store);
    let ranges = Ranges::union(writes.ranges(table))?;
    let (delta, bounds) = draft.build(store, ranges, &mut |builder| {
        writes.records(table).try_for_each(|(key, own)| match own {
            // It stays in memory: it is only a reference.
            Value::Large(..) => Ok(()),
            own => builder.add(key, own),
        })
    })?;
    let reads = if writes.is_mostly_read(table) { Reads::Records } else { Reads::Nothing };
    let Draft { pages, values, .. } = draft;
    let (pages, values) = (vec![Arc::new(pages)], vec![Arc::new(values)]);
    Ok(Spilled {
        delta,
        bounds,
        reads,
        level: 0,
        pages,
        values,
        garbage: Vec::new(),
        left: Vec::new(),
        counted: None,
    })
}

/// A function that adds a record after all others.
type Add<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<()>;

/// Builds a delta of the records that `fill` adds, all of them puts. `fill` runs code of the program's.
pub(crate) fn build(store: &Arc<Store>, fill: &mut dyn FnMut(Add<'_>) -> Result<()>) -> Result<Spilled> {
    let mut draft = Draft::new(store);
    let turn = Some(Turn::new(&store.early));
    let (delta, bounds) = draft.build_in_turns(store, turn, Ranges::default(), &mut |builder, room| {
        fill(&mut |key, value| {
            builder.add(key, Value::Inline(value))?;
            room.borrow_mut().turn.iter_mut().for_each(Turn::end);
            Ok(())
        })
    })?;
    let Draft { pages, values, .. } = draft;
    let (reads, pages, values) = (Reads::Nothing, vec![Arc::new(pages)], vec![Arc::new(values)]);
    Ok(Spilled {
        delta,
        bounds,
        reads,
        level: 0,
        pages,
        values,
        garbage: Vec::new(),
        left: Vec::new(),
        counted: None,
    })
}

/// Merges `list`, newest first, into one delta.
pub(super) fn merge(store: &Arc<Store>, reader: &Reader, list: &[Arc<Spilled>]) -> Result<Spilled> {
    let mut draft = Draft::new(store);
    let ranges = Ranges::union(list.iter().flat_map(|spilled| spilled.delta.ranges.iter()))?;
    let mut garbage: Vec<Extent> = list.iter().flat_map(|spilled| &spilled.garbage).copied().collect();
    let (delta, bounds) = draft.build(store, ranges, &mut |builder| {
        let mut merge = Merge::open(list.iter().map(|spilled| &spilled.delta), &store.pool, reader)?;
        let mut drop_value = |value: Value<'_>| {
            if let Value::Large(large) = value {
                garbage.push(Extent::from(large.reference().ptr));
            }
            Ok(())
        };
        while merge.next(&mut drop_value)? {
            let (key, value) = merge.entry().expect("the merge is on a record");
            builder.add(key, value)?;
        }
        Ok(())
    })?;
    let reads = match list.iter().all(|spilled| spilled.reads == Reads::Nothing) {
        true => Reads::Nothing,
        false if delta.ranges.is_empty() => Reads::Records,
        false => Reads::Everything,
    };
    let (level, pages, values) = (next_level(list), vec![Arc::new(draft.pages)], values_of(list));
    Ok(Spilled { delta, bounds, reads, level, pages, values, garbage, left: Vec::new(), counted: None })
}

/// Joins `list`, newest first, of which each delta [follows](Spilled::follows) the next one.
pub(super) fn join(store: &Arc<Store>, reader: &Reader, list: &[Arc<Spilled>]) -> Result<Spilled> {
    let parts = list.iter().rev().map(|spilled| Part { delta: &spilled.delta, low: &spilled.bounds.first });
    let parts: Vec<Part<'_>> = parts.collect();
    let mut draft = Draft::new(store);
    let room = RefCell::new(Room { pages: &mut draft.pages, values: &mut draft.values, turn: None });
    let buffer_bytes = store.memory.shares.spill_buffer_bytes();
    let (delta, left) = run::join(&parts, &store.pool, reader, &room, draft.birth, buffer_bytes)?;
    drop(room);
    let first = list.last().map_or(Vec::new(), |oldest| oldest.bounds.first.clone());
    let bounds = Bounds { first, last: list[0].bounds.last.clone() };
    let is_unread = list.iter().all(|spilled| spilled.reads == Reads::Nothing);
    let reads = if is_unread { Reads::Nothing } else { Reads::Records };
    let garbage = list.iter().flat_map(|spilled| &spilled.garbage).copied().collect();
    let left = left.into_iter().map(Extent::from);
    let left = list.iter().flat_map(|spilled| &spilled.left).copied().chain(left).collect();
    let pages = list.iter().flat_map(|spilled| &spilled.pages).cloned();
    let pages = pages.chain([Arc::new(draft.pages)]).collect();
    let (level, values) = (next_level(list), values_of(list));
    Ok(Spilled { delta, bounds, reads, level, pages, values, garbage, left, counted: None })
}

fn next_level(list: &[Arc<Spilled>]) -> u32 {
    list.iter().map(|spilled| spilled.level).max().unwrap_or(0) + 1
}

fn values_of(list: &[Arc<Spilled>]) -> Vec<Arc<Extents>> {
    let values = list.iter().flat_map(|spilled| &spilled.values);
    values.filter(|values| !values.list.is_empty()).cloned().collect()
}
