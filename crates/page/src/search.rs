//! Finding a key in a page.
use crate::{EditCounters, Page};

impl<'a> Page<'a> {
    /// The position of `key`, or where it would have to be inserted.
    #[inline]
    pub fn search(self, key: &[u8]) -> Result<usize, usize> {
        self.search_counted(key, &mut EditCounters::default())
    }

    /// [`Page::search`] for editing.
    pub fn search_counted(self, key: &[u8], counters: &mut EditCounters) -> Result<usize, usize> {
        let _ = (key, counters);
        unimplemented!()
    }

    /// The child of an inner page that covers `key`.
    #[inline]
    pub fn child_for(self, key: &[u8]) -> usize {
        let _ = key;
        unimplemented!()
    }
}
