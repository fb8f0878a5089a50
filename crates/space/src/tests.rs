//! Tests of what the map takes: memory, and entries in its lists.

use crate::chunk::{CHUNK_UNITS, Chunk};
use crate::named::NamedNeed;
use crate::{Extent, Space};
use base::limits::UNIT_BYTES;
use base::{CheckpointNo, CommitTs, DatabaseId, ErrorKind, Result};
use io::{Dir, File, FileId, LogMap, MemDir};
use std::sync::Arc;

const DATABASE: DatabaseId = DatabaseId(5);

/// A file that is as long as a sparse one may be. Only its beginning has bytes.
#[derive(Debug)]
struct Sparse {
    inner: Arc<dyn File>,
    len: u64,
}

impl Sparse {
    fn of_units(units: u64) -> Arc<Sparse> {
        let inner = MemDir::new().create("data").unwrap();
        Arc::new(Sparse { inner, len: units * UNIT_BYTES as u64 })
    }
}

impl File for Sparse {
    fn name(&self) -> &str {
        "data"
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.inner.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.inner.write_at(bytes, offset)
    }
    fn len(&self) -> Result<u64> {
        Ok(self.len)
    }
    fn id(&self) -> Result<FileId> {
        self.inner.id()
    }
    fn set_len(&self, _: u64) -> Result<()> {
        Ok(())
    }
    fn allocate_at(&self, _: u64, _: u64) -> Result<bool> {
        Ok(false)
    }
    fn discard(&self, _: u64, _: u64) -> Result<()> {
        Ok(())
    }
    fn sync(&self) -> Result<()> {
        Ok(())
    }
    fn map(&self, _: u64) -> Result<Option<Arc<dyn LogMap>>> {
        Ok(None)
    }
}

/// Returns the memory that the map's chunks take, without the maps of checkpoints.
fn bytes(space: &Space) -> usize {
    let bitmaps = |chunk: &Chunk| {
        let bits = [
            Some(&chunk.used),
            Some(&chunk.held),
            chunk.saved.as_ref(),
            Some(&chunk.holes),
            Some(&chunk.firm),
        ];
        bits.into_iter().flatten().filter(|bits| !bits.is_blank()).count()
    };
    let bitmaps: usize = space.chunks.iter().map(bitmaps).sum();
    bitmaps * UNIT_BYTES + space.chunks.len() * size_of::<Chunk>()
}

/// A file's length may be forged at no cost, and the log may refer to its end.
#[test]
fn a_sparse_file_takes_little_memory() {
    // 8 TiB.
    let units = 1 << 31;
    for by_log in [true, false] {
        let mut space = Space::create(Sparse::of_units(units), DATABASE, 2);
        match by_log {
            true => space.claim(units - 7, 7).unwrap(),
            false => space.keep_named(units - 7, 7, CommitTs(1)).unwrap(),
        }
        assert_eq!(space.stats().total_units, units);
        assert!(bytes(&space) < 10 << 20, "{} bytes", bytes(&space));
        assert_eq!(space.claim(units - 1, 2).unwrap_err().kind(), ErrorKind::Corruption);
        assert_eq!(space.claim(units - 8, 2).unwrap_err().kind(), ErrorKind::Corruption, "7 are in use");
        let report = space.check([]);
        assert!(report.is_clean(), "{report:?}");
        assert!(bytes(&space) < 10 << 20, "{} bytes after a look at all", bytes(&space));
    }
}

/// A large value that was replaced, and that a consumer has still to read, waits as one extent, as it did before the
/// database was opened.
#[test]
fn what_is_kept_by_name_is_one_entry_for_each_free_run() {
    let mut space = Space::create(Sparse::of_units(1 << 20), DATABASE, 2);
    space.note_reached(CheckpointNo(1));
    let used = Extent { unit: 50_000, units: 3 };
    let before = space.stats();
    space.claim(used.unit, used.units).unwrap();
    space.keep_named(100, 100_000, CommitTs(5)).unwrap();
    let entries: Vec<Extent> = space.retired.values().flatten().map(|retired| retired.extent).collect();
    assert_eq!(entries.len(), 2, "the first is {:?}", entries[0]);
    assert_eq!(entries, [Extent { unit: 100, units: 49_900 }, Extent { unit: 50_003, units: 50_097 }]);
    assert_eq!(space.stats().retired_units, 100_000 - 3);
    space.keep_named(60_000, 10, CommitTs(5)).unwrap();
    assert_eq!(space.retired.values().flatten().count(), 2, "it waits already");

    space.need_named(NamedNeed { followed_after: CommitTs(4), ..NamedNeed::NOTHING });
    let released = space.release(CheckpointNo(9), &[CheckpointNo(7)]);
    assert!(released.is_empty(), "the consumer has not read {released:?}");
    assert_eq!((space.followed_units(), space.stats().retired_units), (100_000 - 3, 100_000 - 3));
    space.need_named(NamedNeed::NOTHING);
    assert_eq!(space.release(CheckpointNo(9), &[]), entries);
    assert_eq!(space.stats().retired_units, 0);
    assert_eq!(space.stats().used_units, before.used_units + 3);
    assert!(space.chunks.iter().all(|chunk| chunk.held.count(0, CHUNK_UNITS) == 0));
}
