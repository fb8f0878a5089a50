//! The memory of writes that wait for their commits.
//!
//! 1. A transaction reserves memory in steps as its writes grow, and returns it when it ends.
//! 2. Each byte counts twice: the commit's request is a copy of the writes. While the request is sent, an adapter may
//!    hold one more copy, which is not counted: no more requests are sent at once than there are connections. After
//!    the commit it keeps no large buffer.
//! 3. A few writes are free, so that a short transaction does not fail because of long ones.

use crate::remote::fault::Fault;
use base::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The writes of a transaction that are not counted, in bytes.
const FREE_BYTES: usize = 64 << 10;
/// The step in which memory is reserved.
const STEP_BYTES: usize = 256 << 10;

/// A limit on the memory that the writes of open transactions take together, in one remote database or in several.
#[derive(Debug)]
pub struct WriteMemory {
    most_bytes: usize,
    used_bytes: AtomicUsize,
}

impl WriteMemory {
    /// Returns a limit of `most_bytes`. Each byte of a write counts twice: once for the write itself, and once for the
    /// request of its commit. The first 64 KiB of each transaction do not count. The buffers of connections that send
    /// commits do not count either: they hold at most as much as those commits write.
    ///
    /// ```
    /// let memory = pando::remote::WriteMemory::new(64 << 20);
    /// assert_eq!(memory.used_bytes(), 0);
    /// ```
    #[must_use]
    pub fn new(most_bytes: usize) -> Arc<Self> {
        Arc::new(WriteMemory { most_bytes, used_bytes: AtomicUsize::new(0) })
    }

    /// Returns the number of bytes that are reserved now.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::SeqCst)
    }

    /// Reserves `bytes` more for a transaction that has all but those of `wanted`.
    fn take(&self, bytes: usize, wanted: usize) -> Result<()> {
        if wanted > self.most_bytes {
            let message = format!(
                "the writes of a transaction need {wanted} bytes of memory, and all transactions have {} \
                 together; write less in each, or raise the limit (`--memory` of a server)",
                self.most_bytes
            );
            return Err(Error::new(ErrorKind::Full, message));
        }
        let more = |used: usize| used.checked_add(bytes).filter(|&all| all <= self.most_bytes);
        let taken = self.used_bytes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
        taken.map(drop).map_err(|used| {
            let message = format!(
                "the writes of open transactions and imports take {used} of {} bytes of memory; commit \
                 sooner, write less in each, or raise the limit (`--memory` of a server)",
                self.most_bytes
            );
            Fault::Busy.error(ErrorKind::Full, message, format_args!("{bytes} more are needed"))
        })
    }
}

/// What a transaction has reserved.
#[derive(Debug, Default)]
pub(super) struct Reserved {
    memory: Option<Arc<WriteMemory>>,
    bytes: usize,
}

impl Reserved {
    pub fn new(memory: Option<Arc<WriteMemory>>) -> Self {
        Reserved { memory, bytes: 0 }
    }

    /// Reserves what writes of `bytes` need in all.
    ///
    /// # Errors
    /// `Full` if it is more than the limit, or if others have reserved too much; then [`Fault::Busy`] is the cause.
    pub fn grow_to(&mut self, bytes: usize) -> Result<()> {
        let Some(memory) = &self.memory else { return Ok(()) };
        let wanted = bytes.saturating_sub(FREE_BYTES).saturating_mul(2).next_multiple_of(STEP_BYTES);
        if wanted > self.bytes {
            memory.take(wanted - self.bytes, wanted)?;
            self.bytes = wanted;
        }
        Ok(())
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(memory) = &self.memory {
            memory.used_bytes.fetch_sub(self.bytes, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_share_the_memory_and_return_it() {
        let memory = WriteMemory::new(8 << 20);
        let reserved = || Reserved::new(Some(Arc::clone(&memory)));
        let (mut one, mut other) = (reserved(), reserved());
        one.grow_to(FREE_BYTES).unwrap();
        assert_eq!(memory.used_bytes(), 0);
        one.grow_to(3 << 20).unwrap();
        let used = memory.used_bytes();
        assert!((5 << 20..=6 << 20).contains(&used), "{used}");
        let error = other.grow_to(3 << 20).unwrap_err();
        assert_eq!((error.kind(), Fault::in_error(&error)), (ErrorKind::Full, Some(Fault::Busy)));
        other.grow_to(FREE_BYTES).unwrap();
        assert_eq!(memory.used_bytes(), used, "what was refused is not reserved");
        drop(one);
        assert_eq!(memory.used_bytes(), 0);
        other.grow_to(3 << 20).unwrap();
        // More than there is will not be there later, either.
        let error = other.grow_to(5 << 20).unwrap_err();
        assert_eq!((error.kind(), Fault::in_error(&error)), (ErrorKind::Full, None));
    }
}
