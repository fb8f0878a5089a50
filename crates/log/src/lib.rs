//! The write-ahead log (floor 2): one stream of checksummed blocks in a chain of segment files.
//!
//! ```text
//!   append ──► current segment ──(full: end block)──► next segment, made ready beforehand
//!   sync   ──► one flush for all who wait             generation g
//!   - - - - - - - - - - - - - crash - - - - - - - - - - - - - - - - - - - - - - - -
//!   scan   ──► valid prefix, its cut, or a proof of damage          reads only
//!   resume ──► tail written again and synced ──► first segment of generation g + 1
//! ```
//!
//! Reading order: `format` (the bytes), `segment` (one file), `stock` (files made ready and files kept for reuse),
//! `append`, `flush` (group flush), `handle` (create, drop, close), `ahead` (segments made before they are needed),
//! `shorten` (moving to another segment before the current one is full). Then the modules that read: `survey` (the
//! files in the directory), `window`, `scan`, `evidence` (torn tail or damage), and `resume`. `follow` reads a log that
//! this process writes, and `beside` one that another process writes.
//!
//! # Invariants
//! 1. An LSN is the position of a byte in the stream and is never assigned to other bytes. A segment owns as many LSNs
//!    as its file has room for, used or not, and a successor begins after them.
//! 2. A segment is used only after the space of its whole file was secured and the file, its header and its name were
//!    synced.
//! 3. A sync of anything in a segment is acknowledged only after all earlier segments were synced to their ends.
//! 4. After a failed append or sync this process writes nothing more, and repeats nothing.
//! 5. Bytes of a recycled file are never accepted as blocks: checksums are seeded with database, generation and LSN.
//!
//! ```
//! use base::{CheckpointNo, DatabaseId};
//! use pando_log::{Log, Options};
//! use std::sync::Arc;
//!
//! let dir: Arc<dyn io::Dir> = Arc::new(io::MemDir::new());
//! let log = Log::create(dir.clone(), DatabaseId(1), Options::default())?;
//! let start = log.end();
//! log.append(b"one")?;
//! log.sync(log.end().lsn)?;
//! drop(log); // as if killed
//!
//! let mut found = Vec::new();
//! let tail = Log::scan(&dir, DatabaseId(1), start, &mut |block| {
//!     found.push(block.payload.to_vec());
//!     Ok(())
//! })?;
//! assert_eq!(found, [b"one"]);
//! let log = Log::resume(dir, tail, CheckpointNo(0), Options::default())?;
//! log.append(b"two")?;
//! log.close()?;
//! # base::Result::Ok(())
//! ```
#![deny(missing_docs)]

mod ahead;
mod append;
mod beside;
mod evidence;
mod flush;
mod follow;
pub(crate) mod format;
mod handle;
mod resume;
mod scan;
mod segment;
mod shorten;
mod stock;
mod survey;
mod window;

pub use beside::Beside;
pub use follow::Follow;
pub use format::{MAX_PAYLOAD_BYTES, MAX_SEGMENT_BYTES, Position};
pub use handle::{Log, LogStats, Options};
pub use scan::{Block, Tail};
