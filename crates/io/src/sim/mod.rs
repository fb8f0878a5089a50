//! A simulated disk that keeps exactly what the contract promises, and nothing more.
//!
//! The engine runs on [`SimDisk::dir`] unchanged. The disk records every event. For any moment of that history it makes
//! the [`Image`]s that a power loss may leave. Each is restored as a disk of its own, on which the engine must recover.
//! What the disk keeps, and what it may lose:
//!
//! | of | durable for certain | until then |
//! |---|---|---|
//! | bytes | written before the file's last successful sync | each write kept, lost, or torn to any of its sectors |
//! | length | that of the last sync | old, new or between; gaps read as zeros |
//! | names | as at the last directory sync | each create, rename and remove kept or lost |
//! | bytes pending when a sync failed | written again, and then synced | as above, whatever later syncs return |
//!
//! Sectors have 512 or 4096 bytes. A file whose create was lost is gone, synced or not.
//!
//! It does not damage bytes that were durable: other tests cover bit rot, misdirected and lost writes. A sector is
//! written whole or not at all, and so is a directory entry.
//!
//! State is shared copy-on-write in blocks of 4 KiB, so an image costs about a reference count a block, plus the
//! copying of what is torn.
//!
//! Reading order: [`Event`]; `model.rs` (what the disk holds, and what a sync settles); `crash.rs` ([`Fate`]: what a
//! power loss leaves); `image.rs`; `disk.rs` ([`SimDisk`]); `handles.rs` (the traits, and the effects of faults).
//!
//! ```
//! use base::env::Random;
//! use pando_io::{Dir, File, sim::{Fate, ImageKind, SimDisk}};
//!
//! let disk = SimDisk::new();
//! let dir = disk.dir();
//! let file = dir.create("ledger")?;
//! file.write_at(b"paid", 0)?;
//! file.sync()?;
//! dir.sync()?;
//! disk.mark("acknowledged");
//! file.write_at(b"void", 0)?; // not synced
//!
//! let mut random = Random::seeded(1);
//! for image in disk.images_now(&ImageKind::all(8), &mut random) {
//!     let survivor = image.restore().dir().open("ledger")?;
//!     let mut bytes = [0; 4];
//!     survivor.read_exact_at(&mut bytes, 0)?;
//!     match image.fate() {
//!         Fate::Nothing => assert_eq!(&bytes, b"paid"),
//!         Fate::Everything => assert_eq!(&bytes, b"void"),
//!         _ => assert!(&bytes == b"paid" || &bytes == b"void"),
//!     }
//! }
//! # Ok::<(), base::Error>(())
//! ```

mod content;
mod crash;
mod disk;
mod event;
mod fault;
mod handles;
mod image;
mod model;

pub use content::Payload;
pub use crash::Fate;
pub use disk::SimDisk;
pub use event::{Event, NodeId};
pub use fault::{CallKind, Fault, FaultError};
pub use image::{Image, ImageKind, Images};
