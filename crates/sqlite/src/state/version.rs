//! The data version: a number by which a program notices that what it has read before may have changed.
//!
//! A program that keeps what it has read, as FTS5 keeps the structure of its index, reads it again if the number
//! differs. So the number belongs to the state that is read. One of a newer commit would make an old state pass for the
//! new one.

use super::{State, Work};

impl State {
    /// Returns the number of the commit whose state is read. A transaction's own writes do not change it. While nothing
    /// is read, it is that of the state that was read last, or of the connection's own commit if that came later. A
    /// remote store does not number its commits, so there it changes with every transaction.
    pub(crate) fn data_version(&self) -> u32 {
        self.number_read().unwrap_or(self.begun) as u32
    }

    /// Notes the number of what was read, which ends.
    pub(super) fn note_number_read(&mut self) {
        self.seen = self.number_read();
    }

    fn number_read(&self) -> Option<u64> {
        match &self.work {
            Work::Reading(snapshot) => snapshot.commit_number(),
            Work::Open(open) => open.transaction.commit_number(),
            Work::Idle | Work::Committed | Work::Failed(_) | Work::Lent => self.seen,
        }
    }
}
