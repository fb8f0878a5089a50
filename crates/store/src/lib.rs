//! Floor 4: the database itself, as resumable steps without threads of their own.
//!
//! Reading order:
//! * [`view`]: what a reader sees and when the old may go; [`snapshot`]: a read; `lease`: why it costs nothing;
//!   [`expiry`]: what long readers keep, and for how long.
//!   `resident`: a read that does not wait; `span` and [`scan`]: records in order.
//! * [`transaction`]: reads and writes of one's own, over [`write_set`] and [`merge`]; `table_changes`: of whole
//!   tables.
//! * [`commit`]: the one path in, in nine steps; [`large`]: values that are written before it; `value_writer` and
//!   `value_reader`: their users.
//! * `spill`: writes that do not fit memory; [`attach`] and `apply_spilled`: what becomes of them; `bulk_load`.
//! * `claims`: what the log refers to outside itself.
//! * [`checkpoint`]: from memtables to runs, in thirteen steps; [`tables`] knows the layouts; [`lsm`]
//!   what a checkpoint makes of the second one; [`relocate`]: making the data file shorter.
//! * `reclaim`: what readers needed is freed after them.
//! * [`recovery`]: opening and creating; `replay`: from the log to memtables again; [`superblock`]: where it begins.
//! * [`pinned`]: everything that one commit sees, to be copied; [`rebuild`]: a database made of such a copy.
//! * [`ttl`]: entries that live for a time; `sweep`: finding those that have lived it.
//! * [`pacing`]: how fast writers may go.
//! * `room`: what is kept of the disk, so that deletes and checkpoints work on a full one.
//! * [`memory`]: what all of it takes of the budget, and what gives way when there is none.
//! * [`catalog`]: names of tables; [`check`]: whether everything is as it should be; [`stats`]: how much of it;
//!   [`advice`]: which layout each table wants;
//!   `amplification`: how much more than was asked for.
#![deny(missing_docs)]
// Files and threads are beyond loom: it gets `view` alone, by path, in tests/views_loom.rs.
#![cfg(not(loom))]

pub mod advice;
mod amplification;
mod apply;
mod apply_spilled;
pub mod attach;
mod bulk_load;
pub mod catalog;
pub mod check;
mod check_catalog;
pub mod checkpoint;
mod claims;
mod closing;
pub mod commit;
mod delay;
pub mod expiry;
mod explain;
pub mod figures;
mod gathered;
mod handle;
pub mod large;
pub mod latch;
mod lease;
pub mod lsm;
pub mod memory;
pub mod merge;
pub mod options;
mod ownership;
pub mod pacing;
mod paid_reads;
pub mod pinned;
mod read_only;
pub mod rebuild;
mod recent;
mod reclaim;
pub mod recovery;
pub mod relocate;
mod replay;
mod resident;
mod room;
pub mod salvage;
pub mod scan;
mod scan_mut;
pub mod snapshot;
mod spill;
pub mod stats;
pub mod store;
mod stretches;
pub mod superblock;
mod sweep;
mod table_changes;
pub mod tables;
pub mod time;
mod track;
pub mod transaction;
pub mod ttl;
mod value_reader;
mod value_writer;
pub mod view;
pub mod write_set;

pub use base::Span;
pub use catalog::{Compression, WantedLayout};
pub use expiry::OpenReader;
pub use handle::Table;
pub use options::Options;
pub use pinned::{Part, Pinned};
pub use rebuild::Rebuild;
pub use recovery::{is_database_file, open, open_or_create};
pub use resident::Resident;
pub use run::walk::Piece;
pub use scan::Cursor;
pub use scan_mut::CursorMut;
pub use snapshot::Snapshot;
pub use store::Store;
pub use transaction::{Transaction, TransactionOptions};
pub use value_reader::ValueReader;
pub use value_writer::ValueWriter;
pub use write_set::Savepoint;
