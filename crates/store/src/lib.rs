//! Floor 4: the database itself, as resumable steps without threads of their own.
//!
//! The crate has wings, a folder each, whose `mod.rs` lists its files. A wing uses only the ones before it:
//!
//! 1. `state`: the parts of an open database: [`catalog`], [`superblock`], [`tables`], [`view`], and the parts of
//!    [`store`].
//! 2. `uncommitted`: the writes of a transaction before its commit: [`write_set`], spilled runs, [`large`] values.
//! 3. `read`: [`snapshot`], whose look-ups all take one path (`resolve`), and [`scan`], over [`merge`].
//! 4. [`commit`]: the only path for writes, in eight steps.
//! 5. `write`: [`transaction`], which reads, collects writes and commits.
//! 6. [`checkpoint`]: from memtables to runs, in fourteen steps, with [`lsm`] and [`relocate`].
//! 7. `open`: [`recovery`], [`beside`] another process, [`pinned`] copies, and [`rebuild`].
//! 8. [`changes`]: the log of a live database as logical changes, for programs that follow it.
//! 9. [`salvage`]: export of what can still be read of a damaged database.
//! 10. `watch`: [`stats`], [`figures`], [`advice`] and [`check`].
#![deny(missing_docs)]
// Files and threads are outside loom's scope: it gets `view` alone, by path, in tests/views_loom.rs.
#![cfg(not(loom))]

mod state;
mod uncommitted;
mod read;
pub mod commit;
mod write;
pub mod checkpoint;
mod open;
pub mod changes;
pub mod salvage;
mod watch;

pub use base::Span;
pub use checkpoint::{lsm, relocate};
pub use open::beside::{self, Follower};
pub use open::pinned::{self, Part, Pinned};
pub use open::rebuild::{self, Rebuild};
pub use open::recovery::{self, is_database_file, open, open_or_create};
pub use read::beginning::Beginning;
pub use read::handle::Table;
pub use read::merge;
pub use read::resident::Resident;
pub use read::scan::{self, Cursor, LentRun};
pub use read::snapshot::{self, Snapshot};
pub use read::value_reader::ValueReader;
pub use read::value_ref::ValueRef;
pub use run::walk::Piece;
pub use state::catalog::{self, Compression, RequestedLayout};
pub use state::expiry::{self, OpenReader, ReaderId};
pub use state::options::{self, Options};
pub use state::store::{self, Store};
pub use state::{attach, latch, memory, pacing, superblock, tables, time, ttl, view};
pub use uncommitted::large;
pub use uncommitted::write_set::{self, Savepoint};
pub use watch::{advice, check, figures, stats};
pub use write::repeat::{self, Forks, Lineage, Repeat, RepeatedValue, check_follower};
pub use write::scan_mut::CursorMut;
pub use write::transaction::{self, Transaction, TransactionOptions};
pub use write::value_writer::{OwnedValueWriter, ValueWriter};
