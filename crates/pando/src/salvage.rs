//! Exporting everything readable from a damaged directory.
//!
//! ```
//! # use pando::salvage::{self, StoredOptions, Sink, Trust};
//! /// Keeps what is certain.
//! #[derive(Default)]
//! struct Keep(Vec<(String, Vec<u8>, Vec<u8>)>);
//!
//! impl Sink for Keep {
//!     fn begin(&mut self, _page_bytes: Option<usize>) -> pando::Result<()> {
//!         Ok(())
//!     }
//!     fn table(&mut self, _table: &str, _options: &StoredOptions) -> pando::Result<()> {
//!         Ok(())
//!     }
//!     fn record(&mut self, trust: Trust, table: &str, key: &[u8], value: &[u8]) -> pando::Result<()> {
//!         if trust == Trust::Certain {
//!             self.0.push((table.into(), key.into(), value.into()));
//!         }
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> pando::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! let db = pando::Database::create(dir.path())?;
//! let fruit = db.ensure_table("fruit")?;
//! db.put(&fruit, b"apple", b"red")?;
//! db.close()?;
//! let mut kept = Keep::default();
//! let report = salvage::salvage(dir.path(), &mut kept)?;
//! assert!(report.is_complete());
//! assert_eq!(kept.0, [("fruit".into(), b"apple".to_vec(), b"red".to_vec())]);
//! # Ok(())
//! # }
//! ```

use base::Result;
use io::OsDir;
use std::path::Path;
use std::sync::Arc;

pub use store::salvage::{Lost, Report, Sink, StoredOptions, StoredTtl, TableReport, Trust};

/// Exports everything readable in the directory `path` to `sink`. It writes nothing to the directory. It reads the
/// trees once and, if anything is missing, the whole data file. It needs memory for the changes in the log and, if it
/// searches the data file, for the first and last key of each leaf there.
///
/// # Errors
/// `Missing` if there is no database; `Locked` if another process writes to it; `Foreign` if nothing in the directory
/// identifies the database, or if its format is newer than this version; errors of `sink`. Damage is not an error: the
/// report lists it.
pub fn salvage(path: impl AsRef<Path>, sink: &mut dyn Sink) -> Result<Report> {
    store::salvage::salvage(Arc::new(OsDir::open(path)?), sink)
}
