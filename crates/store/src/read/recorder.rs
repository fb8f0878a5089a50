//! The ranges that a transaction's cursor has passed, for its read set.

use crate::state::paid_reads::PaidReads;
use crate::state::store::Store;
use base::{Span, TableId};
use std::ops::Bound;
use txn::RangeToken;

/// Records what a cursor passes as one range of its transaction's read set, which grows with its moves.
pub(crate) struct ReadRecorder<'a> {
    reads: &'a PaidReads,
    store: &'a Store,
    table: TableId,
    token: Option<RangeToken>,
}

impl<'a> ReadRecorder<'a> {
    /// Creates a recorder of `table` that has passed nothing.
    pub fn new(reads: &'a PaidReads, store: &'a Store, table: TableId) -> Self {
        ReadRecorder { reads, store, table, token: None }
    }

    /// Ends the present range and begins another.
    pub fn begin(&mut self, low: &[u8], high: Bound<&[u8]>) {
        self.end();
        self.token = Some(self.reads.range(self.store, self.table, low, high));
    }

    fn end(&mut self) {
        self.token.take().into_iter().for_each(|token| self.reads.close(token));
    }

    /// Records that the cursor moved forward to `high`; `fresh`: from the beginning of its span.
    pub fn passed_forward(&mut self, span: &Span, high: Bound<&[u8]>, fresh: bool) {
        match self.token {
            Some(token) => self.reads.extend_high(self.store, token, high),
            None => self.begin(span.start(), high),
        }
        if let (true, Some(token)) = (fresh, self.token) {
            self.reads.extend_low(self.store, token, span.start());
        }
    }

    /// Records that the cursor moved back to `low`; `fresh`: from the end of its span.
    pub fn passed_backward(&mut self, span: &Span, low: &[u8], fresh: bool) {
        let end = span.end().map_or(Bound::Unbounded, Bound::Excluded);
        match self.token {
            Some(token) => self.reads.extend_low(self.store, token, low),
            None => self.begin(low, end),
        }
        if let (true, Some(token)) = (fresh, self.token) {
            self.reads.extend_high(self.store, token, end);
        }
    }
}

impl Drop for ReadRecorder<'_> {
    fn drop(&mut self) {
        self.end();
    }
}
