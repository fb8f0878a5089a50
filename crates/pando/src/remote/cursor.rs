//! Records of a remote store in order, with the transaction's own writes among them.
//!
//! 1. Records come a page at a time, in the direction of the last move. A page is twice as large as the one before it,
//!    in records and in bytes, so that a long scan takes few round trips, and a short one reads little that it does not
//!    need.
//! 2. A page covers a part of the span without gaps. The own writes in that part are merged into it: they cannot change
//!    while the cursor borrows the transaction.
//! 3. A move in the other direction, and a seek, forget the page.

use crate::cursor::{Beginning, Begun, LentRun, Span};
use crate::remote::reads::{Oldest, Reads, Record, value};
use crate::remote::seam::{Most, Order};
use base::{Result, TableId, Value};
use std::collections::VecDeque;
use std::ops::Bound;
use store::ValueReader;
use store::write_set::WriteSet;

/// The first page. The bytes are those that a server sends at once (`BATCH_BYTES` in its `send/records.rs`), for which
/// it takes a cursor of its own.
const FIRST_PAGE: Most = Most { records: 64, bytes: 128 << 10 };
/// The largest page. With these two, 10,000 short records are eight pages.
const MAX_PAGE: Most = Most { records: 4096, bytes: 4 << 20 };

type Lent<'c> = Option<(&'c [u8], &'c [u8])>;

/// A cursor over records of a remote store, in key order. It reads a page of records ahead, as of the beginning of its
/// snapshot or transaction. It reads every value with its key.
///
/// It moves as a [`Cursor`](crate::Cursor) does: after a move past an end, a step back leads to the record at that end.
///
/// ```no_run
/// # fn total(db: &pando::remote::RemoteDatabase, table: &pando::Table) -> pando::Result<usize> {
/// let snapshot = db.snapshot();
/// let mut cursor = snapshot.cursor(table, "a".."m")?;
/// let mut bytes = 0;
/// while let Some((_, value)) = cursor.next()? {
///     bytes += value.len();
/// }
/// # Ok(bytes)
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a cursor reads records only as it moves"]
pub struct RemoteCursor<'a> {
    reads: &'a Reads,
    own: Option<&'a WriteSet>,
    table: TableId,
    oldest: Oldest,
    span: Span,
    place: Place,
    current: Option<Record>,
    /// The records after the current one, in the direction of the last move.
    ahead: VecDeque<Record>,
    order: Order,
    /// The part of the span after `ahead`, in that direction; `None` if it holds nothing.
    rest: Option<Span>,
    page: Most,
    /// The size of the first page, and of the first one after a change of direction.
    first: Most,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the first move.
    Fresh,
    On,
    BeforeFirst,
    AfterLast,
}

impl<'a> RemoteCursor<'a> {
    /// Creates a cursor over a table that was admitted.
    pub(super) fn new(
        reads: &'a Reads,
        own: Option<&'a WriteSet>,
        table: TableId,
        oldest: Oldest,
        span: Span,
    ) -> Self {
        if let Some(own) = own {
            own.sort(table);
        }
        RemoteCursor {
            reads,
            own,
            table,
            oldest,
            rest: Some(span.clone()),
            span,
            place: Place::Fresh,
            current: None,
            ahead: VecDeque::new(),
            order: Order::Forward,
            page: FIRST_PAGE,
            first: FIRST_PAGE,
        }
    }

    /// Returns the span for which the cursor was opened.
    #[must_use]
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Sets the size at which the first page ends: this many records or bytes of values, up to a limit. Call it before
    /// the first move. Without it, the first page has 64 records. Each further page has twice as many as the page
    /// before it. A page is read as a whole, and all of it counts as read.
    pub fn expect(&mut self, records: usize, bytes: usize) {
        let (records, bytes) = (records.clamp(1, MAX_PAGE.records), bytes.clamp(1, MAX_PAGE.bytes));
        self.first = Most { records, bytes };
        self.page = self.first;
    }

    /// Returns the current record, or `None` before the first move, before the first record and after the last.
    #[must_use]
    pub fn current(&self) -> Lent<'_> {
        self.current.as_ref().map(|(key, value)| (&key[..], &value[..]))
    }

    /// Returns the key of the current record, or `None` if the cursor is on no record.
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        self.current.as_ref().map(|(key, _)| &key[..])
    }

    /// Returns the length of the current value in bytes.
    #[must_use]
    pub fn value_len(&self) -> Option<u64> {
        self.current.as_ref().map(|(_, value)| value.len() as u64)
    }

    /// Returns the current value, which is in memory.
    pub fn value(&mut self) -> Result<Option<&[u8]>> {
        Ok(self.current().map(|(_, value)| value))
    }

    /// Returns a reader of a copy of the current value.
    pub fn value_reader(&self) -> Result<Option<ValueReader>> {
        Ok(self.current.as_ref().map(|(_, value)| ValueReader::of(value.clone())))
    }

    /// Moves to the next record. Returns whether there is such a record.
    pub fn advance(&mut self) -> Result<bool> {
        self.step(Order::Forward)?;
        Ok(self.place == Place::On)
    }

    /// Moves to the previous record. Returns whether there is such a record.
    pub fn retreat(&mut self) -> Result<bool> {
        self.step(Order::Backward)?;
        Ok(self.place == Place::On)
    }

    /// Moves to the next record and returns it.
    #[allow(clippy::should_implement_trait)] // It lends, which `Iterator` cannot.
    pub fn next(&mut self) -> Result<Lent<'_>> {
        self.step(Order::Forward)?;
        Ok(self.current())
    }

    /// Moves to the previous record and returns it.
    pub fn prev(&mut self) -> Result<Lent<'_>> {
        self.step(Order::Backward)?;
        Ok(self.current())
    }

    /// Moves to the first record at or after `key` within the span, and returns it.
    pub fn seek(&mut self, key: &[u8]) -> Result<Lent<'_>> {
        self.turn(Order::Forward, Some(self.span.starting(Bound::Included(key))));
        self.take()?;
        Ok(self.current())
    }

    /// Moves to the next record and returns it, with the whole value.
    pub fn next_beginning(&mut self) -> Result<Begun<'_>> {
        self.next().map(begun)
    }

    /// Moves to the previous record and returns it, with the whole value.
    pub fn prev_beginning(&mut self) -> Result<Begun<'_>> {
        self.prev().map(begun)
    }

    /// Moves to the first record at or after `key` within the span, and returns it with the whole value.
    pub fn seek_beginning(&mut self, key: &[u8]) -> Result<Begun<'_>> {
        self.seek(key).map(begun)
    }

    /// Calls `each` on the records after the current one that are in memory, at most `most`, and returns their number.
    /// The arguments of `each` are the key, an empty slice, and the value. The cursor moves to the last of these
    /// records.
    pub fn run_on(&mut self, most: usize, each: impl FnMut(&[u8], &[u8], &[u8])) -> Result<usize> {
        self.run(Order::Forward, most, each)
    }

    /// Calls `each` as [`RemoteCursor::run_on`] does, on the records before the current one.
    pub fn run_back(&mut self, most: usize, each: impl FnMut(&[u8], &[u8], &[u8])) -> Result<usize> {
        self.run(Order::Backward, most, each)
    }

    fn run(&mut self, order: Order, most: usize, mut each: impl FnMut(&[u8], &[u8], &[u8])) -> Result<usize> {
        if self.place != Place::On || self.order != order {
            return Ok(0);
        }
        let mut shown = 0;
        while shown < most
            && let Some((key, value)) = self.ahead.pop_front()
        {
            each(&key, &[], &value);
            self.current = Some((key, value));
            shown += 1;
        }
        Ok(shown)
    }

    /// Returns `None`: a remote store has no pages to lend records from.
    ///
    /// # Errors
    /// None; the result has the type that [`RecordCursor`](crate::RecordCursor) needs.
    pub fn lend_run(&mut self, _most: usize) -> Result<Option<LentRun>> {
        Ok(None)
    }

    fn step(&mut self, order: Order) -> Result<()> {
        match (self.place, order) {
            (Place::AfterLast, Order::Forward) | (Place::BeforeFirst, Order::Backward) => return Ok(()),
            (Place::On, _) if self.order == order => {}
            (Place::On, _) => {
                let (key, _) = self.current.as_ref().expect("the cursor is on a record");
                let rest = match order {
                    Order::Forward => self.span.starting(Bound::Excluded(key)),
                    Order::Backward => self.span.until(key),
                };
                self.turn(order, Some(rest));
            }
            (Place::Fresh | Place::BeforeFirst | Place::AfterLast, _) => {
                self.turn(order, Some(self.span.clone()));
            }
        }
        self.take()
    }

    /// Begins to read `rest` in a direction.
    fn turn(&mut self, order: Order, rest: Option<Span>) {
        self.ahead.clear();
        self.order = order;
        self.rest = rest;
        self.page = self.first;
    }

    /// Moves to the next record in the present direction. After an error the cursor is as before its first move.
    fn take(&mut self) -> Result<()> {
        self.current = None;
        while self.ahead.is_empty() && self.rest.is_some() {
            let filled = self.fill();
            if filled.is_err() {
                self.place = Place::Fresh;
                return filled;
            }
        }
        self.current = self.ahead.pop_front();
        self.place = match (&self.current, self.order) {
            (Some(_), _) => Place::On,
            (None, Order::Forward) => Place::AfterLast,
            (None, Order::Backward) => Place::BeforeFirst,
        };
        Ok(())
    }

    /// Reads one page.
    fn fill(&mut self) -> Result<()> {
        let Some(rest) = &self.rest else { return Ok(()) };
        if rest.end().is_some_and(|end| end <= rest.start()) {
            self.rest = None;
            return Ok(());
        }
        let most = self.page;
        let page = self.reads.fetch(self.table, rest, self.order, most)?;
        self.page = Most {
            records: (self.page.records * 2).min(MAX_PAGE.records),
            bytes: (self.page.bytes * 2).min(MAX_PAGE.bytes),
        };
        let last = page.records.last().filter(|_| !page.is_last).map(|(key, _)| key.clone());
        let (covered, left) = match (&last, self.order) {
            (None, _) => (rest.clone(), None),
            (Some(key), Order::Forward) => {
                let left = rest.starting(Bound::Excluded(key));
                (rest.until(left.start()), Some(left))
            }
            (Some(key), Order::Backward) => (rest.starting(Bound::Included(key)), Some(rest.until(key))),
        };
        let mut records = Vec::with_capacity(page.records.len());
        for (key, stored) in page.records {
            let is_hidden = self.own.is_some_and(|own| own.get(self.table, &key).is_some());
            if !is_hidden && let Some(value) = value(self.oldest, stored)? {
                records.push((key, value));
            }
        }
        let (covered, left) = match self.end_of_own(&covered, most) {
            Some(last) => self.cut(rest, &last, &mut records),
            None => (covered, left),
        };
        self.add_own(&covered, &mut records);
        self.rest = left;
        self.ahead = records.into();
        Ok(())
    }

    /// Returns the key of the last own record of a page, if the covered part has more of them. Otherwise a transaction
    /// that reads what it has written would copy all of it for each page.
    fn end_of_own(&self, covered: &Span, most: Most) -> Option<Vec<u8>> {
        let mut own = self.own.and_then(|own| own.cursor(self.table))?;
        let (mut records, mut bytes) = (0, 0);
        match (self.order, covered.end()) {
            (Order::Forward, _) => own.seek(covered.start()),
            (Order::Backward, Some(end)) => own.seek_before(end),
            (Order::Backward, None) => own.seek_last(),
        }
        while let Some((key, written)) = own.entry() {
            let is_in = match self.order {
                Order::Forward => covered.end().is_none_or(|end| key < end),
                Order::Backward => key >= covered.start(),
            };
            if !is_in {
                return None;
            }
            records += 1;
            bytes += if let Value::Inline(value) = written { value.len() } else { 0 };
            if records >= most.records || bytes >= most.bytes {
                return Some(key.to_vec());
            }
            match self.order {
                Order::Forward => own.next(),
                Order::Backward => own.prev(),
            }
        }
        None
    }

    /// Ends a page at a key. What was fetched after it is fetched again. Returns the part that the page covers, and the
    /// rest.
    fn cut(&self, span: &Span, last: &[u8], records: &mut Vec<Record>) -> (Span, Option<Span>) {
        match self.order {
            Order::Forward => {
                records.retain(|(key, _)| &key[..] <= last);
                let left = span.starting(Bound::Excluded(last));
                (span.until(left.start()), Some(left))
            }
            Order::Backward => {
                records.retain(|(key, _)| &key[..] >= last);
                (span.starting(Bound::Included(last)), Some(span.until(last)))
            }
        }
    }

    /// Adds the values that the transaction put into the covered part of the span.
    fn add_own(&self, covered: &Span, records: &mut Vec<Record>) {
        let Some(mut own) = self.own.and_then(|own| own.cursor(self.table)) else { return };
        let fetched = records.len();
        own.seek(covered.start());
        while let Some((key, written)) = own.entry()
            && covered.end().is_none_or(|end| key < end)
        {
            if let Value::Inline(value) = written {
                records.push((key.to_vec(), value.to_vec()));
            }
            own.next();
        }
        if records.len() > fetched {
            match self.order {
                Order::Forward => records.sort_by(|one, other| one.0.cmp(&other.0)),
                Order::Backward => records.sort_by(|one, other| other.0.cmp(&one.0)),
            }
        }
    }
}

/// Returns a record with its whole value.
fn begun(record: Lent<'_>) -> Begun<'_> {
    record.map(|(key, value)| (key, Beginning::whole(value)))
}
