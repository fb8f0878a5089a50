//! Building deltas: from a write set, from loaded records, or from other deltas.

use super::extents::{Extents, Room};
use super::{Reach, Reads, Spilled};
use crate::state::store::Store;
use crate::uncommitted::write_set::WriteSet;
use base::slots::Reader;
use base::{CheckpointNo, Result, TableId};
use page::Value;
use run::{BitsPerKey, Delta, DeltaBuilder, Merge, Ranges, Run};
use space::Extent;
use std::cell::RefCell;
use std::sync::Arc;

/// The filter bits of a delta. An `insert` asks all of a table's deltas, and most do not have the key: about one in
/// five hundred reads a page in vain.
const FILTER_BITS: BitsPerKey = BitsPerKey(14);

/// The builder that takes a draft's records.
type DraftBuilder<'a> = DeltaBuilder<'a, &'a RefCell<Room<'a>>>;

/// A delta that is being built.
struct Draft {
    pages: Extents,
    values: Extents,
    birth: CheckpointNo,
}

impl Draft {
    fn new(store: &Arc<Store>, birth: CheckpointNo) -> Draft {
        Draft { pages: Extents::new(store), values: Extents::new(store), birth }
    }

    /// Builds the delta of `ranges` and of the records that `fill` adds. Also returns where they end.
    fn build(
        &mut self,
        store: &Store,
        ranges: Ranges,
        fill: &mut dyn FnMut(&mut DraftBuilder<'_>) -> Result<()>,
    ) -> Result<(Delta, Reach)> {
        let room = RefCell::new(Room { pages: &mut self.pages, values: &mut self.values });
        let ranges_run = match ranges.is_empty() {
            true => Run::EMPTY,
            false => ranges.write(&store.pool, &room, self.birth)?,
        };
        let buffer_bytes = store.memory.shares.spill_buffer_bytes();
        let mut builder = DeltaBuilder::new(&store.pool, &room, self.birth, buffer_bytes, FILTER_BITS);
        fill(&mut builder)?;
        let reach = match builder.records().last_key() {
            Some(last) if ranges.is_empty() => Reach::To(last.to_vec()),
            _ => Reach::Unknown,
        };
        Ok((builder.finish(Arc::new(ranges), ranges_run)?, reach))
    }
}

/// Returns the writes to one table in `writes` as a delta.
pub(super) fn write(
    store: &Arc<Store>,
    writes: &WriteSet,
    table: TableId,
    birth: CheckpointNo,
) -> Result<Spilled> {
    let mut draft = Draft::new(store, birth);
    let ranges = Ranges::union(writes.ranges(table))?;
    let (delta, reach) = draft.build(store, ranges, &mut |builder| {
        writes.records(table).try_for_each(|(key, own)| match own {
            // It stays in memory: it is only a reference.
            Value::Large(..) => Ok(()),
            own => builder.add(key, own),
        })
    })?;
    let reads = if writes.is_mostly_read(table) { Reads::Records } else { Reads::Nothing };
    let Draft { pages, values, .. } = draft;
    let values = vec![Arc::new(values)];
    Ok(Spilled { delta, reach, reads, level: 0, pages, values, garbage: Vec::new() })
}

/// A function that adds a record after all others.
type Add<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<()>;

/// Builds a delta of the records that `fill` adds, all of them puts.
pub(crate) fn build(store: &Arc<Store>, fill: &mut dyn FnMut(Add<'_>) -> Result<()>) -> Result<Spilled> {
    let birth = CheckpointNo(store.views.with_current(|view| view.checkpoint.0) + 1);
    let mut draft = Draft::new(store, birth);
    let (delta, reach) = draft.build(store, Ranges::default(), &mut |builder| {
        fill(&mut |key, value| builder.add(key, Value::Inline(value)))
    })?;
    let Draft { pages, values, .. } = draft;
    let (reads, values) = (Reads::Nothing, vec![Arc::new(values)]);
    Ok(Spilled { delta, reach, reads, level: 0, pages, values, garbage: Vec::new() })
}

/// Merges `list`, newest first, into one delta.
pub(super) fn merge(store: &Arc<Store>, reader: &Reader, list: &[Arc<Spilled>]) -> Result<Spilled> {
    let birth = CheckpointNo(store.views.with_current(|view| view.checkpoint.0) + 1);
    let mut draft = Draft::new(store, birth);
    let ranges = Ranges::union(list.iter().flat_map(|spilled| spilled.delta.ranges.iter()))?;
    let mut garbage: Vec<Extent> = list.iter().flat_map(|spilled| &spilled.garbage).copied().collect();
    let (delta, reach) = draft.build(store, ranges, &mut |builder| {
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
    let level = list.iter().map(|spilled| spilled.level).max().unwrap_or(0) + 1;
    let values = list.iter().flat_map(|spilled| &spilled.values).filter(|values| !values.list.is_empty());
    let values = values.cloned().collect();
    let reads = match list.iter().all(|spilled| spilled.reads == Reads::Nothing) {
        true => Reads::Nothing,
        false if delta.ranges.is_empty() => Reads::Records,
        false => Reads::Everything,
    };
    Ok(Spilled { delta, reach, reads, level, pages: draft.pages, values, garbage })
}
