//! Floor 2: the page pool.
#![allow(unused_variables, missing_docs)]

use base::budget::Budget;
use base::slots::{EpochGuard, Reader, Slots};
use base::{DatabaseId, PagePtr, Result};
use io::File;
use page::Page;
use std::sync::Arc;

#[derive(Debug)]
pub struct Pool(Arc<dyn File>);
#[derive(Debug)]
pub struct PageRef<'g>(Page<'g>);
#[derive(Clone, Debug)]
pub struct Pin(Arc<[u8]>);
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    pub faults: u64,
    pub evictions: u64,
    pub frames: u64,
    pub bytes: u64,
}

impl Pool {
    pub fn new(
        file: Arc<dyn File>,
        database: DatabaseId,
        page_bytes: usize,
        budget: Arc<Budget>,
        limit_bytes: usize,
        slots: Arc<Slots>,
    ) -> Pool {
        unimplemented!()
    }
    pub fn read<'g>(&'g self, guard: &'g mut EpochGuard<'_>, ptr: PagePtr) -> Result<PageRef<'g>> {
        unimplemented!()
    }
    pub fn pin(&self, reader: &Reader<'_>, ptr: PagePtr) -> Result<Pin> {
        unimplemented!()
    }
    pub fn admit(&self, ptr: PagePtr, bytes: &[u8]) {
        unimplemented!()
    }
    pub fn forget(&self, unit: u64) {
        unimplemented!()
    }
    pub fn read_extent(&self, ptr: PagePtr, len_bytes: usize) -> Result<Vec<u8>> {
        unimplemented!()
    }
    pub fn stats(&self) -> PoolStats {
        unimplemented!()
    }
    pub fn page_bytes(&self) -> usize {
        unimplemented!()
    }
    pub fn database(&self) -> DatabaseId {
        unimplemented!()
    }
    pub fn file(&self) -> &Arc<dyn File> {
        &self.0
    }
}

impl PageRef<'_> {
    pub fn page(&self) -> Page<'_> {
        self.0
    }
    pub fn pin(self) -> Pin {
        unimplemented!()
    }
}

impl Pin {
    pub fn page(&self) -> Page<'_> {
        Page::trusted(&self.0)
    }
}
