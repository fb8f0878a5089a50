//! Where the work goes on that checkpoints do a part of each: kept in memory alone.

use base::TableId;
use std::collections::BTreeMap;

/// Where the next relocation goes on.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// A table, one of its runs, and a key in it; `None`: at the first table.
    pub next: Option<(TableId, usize, Vec<u8>)>,
}

/// Where sweeps go on.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    /// Of each table that checkpoints sweep, the next key.
    pub next: BTreeMap<TableId, Vec<u8>>,
    /// Where a compaction goes on; `None`: it is done.
    pub compacting: Option<(TableId, Vec<u8>)>,
}
