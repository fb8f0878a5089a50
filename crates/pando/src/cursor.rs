//! Records in order.

use base::Result;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use store::ValueReader;

pub use store::{Beginning, Cursor, CursorMut, LentRun, Span};

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Cursor<'_> {}
    impl Sealed for crate::remote::RemoteCursor<'_> {}
    impl Sealed for crate::any::AnyCursor<'_> {}
}

/// A key and a value, borrowed from a cursor; `None` if it is on no record.
pub(crate) type Lent<'c> = Option<(&'c [u8], &'c [u8])>;

/// A key and the beginning of its value, borrowed from a cursor; `None` if it is on no record.
pub(crate) type Begun<'c> = Option<(&'c [u8], Beginning<'c>)>;

/// A cursor over the records of a span: a [`Cursor`], or a [`RemoteCursor`](crate::remote::RemoteCursor).
///
/// [`ReadTables::cursor`](crate::ReadTables::cursor) returns it. The methods are those of [`Cursor`], at the same cost.
/// No type outside of this crate can implement the trait.
///
/// ```
/// use pando::{ReadTables, RecordCursor, Result, Table};
///
/// fn last_key(reader: &impl ReadTables, table: &Table) -> Result<Option<Vec<u8>>> {
///     let mut cursor = reader.cursor(table, ..)?;
///     Ok(cursor.prev()?.map(|(key, _)| key.to_vec()))
/// }
///
/// # fn main() -> Result<()> {
/// let db = pando::Database::builder().in_memory()?;
/// let fruit = db.ensure_table("fruit")?;
/// db.put(&fruit, "apple", "red")?;
/// assert_eq!(last_key(&db.snapshot()?, &fruit)?.as_deref(), Some(&b"apple"[..]));
/// # Ok(())
/// # }
/// ```
pub trait RecordCursor: sealed::Sealed {
    /// Returns the span for which the cursor was opened.
    fn span(&self) -> &Span;
    /// Returns the key of the current record, or `None` if the cursor is on no record.
    fn key(&self) -> Option<&[u8]>;
    /// Returns the current record; see [`Cursor::current`].
    fn current(&self) -> Lent<'_>;
    /// Returns the length of the current value in bytes without reading it.
    fn value_len(&self) -> Option<u64>;
    /// Returns the current value; see [`Cursor::value`].
    fn value(&mut self) -> Result<Option<&[u8]>>;
    /// Returns a reader of the current value; see [`Cursor::value_reader`].
    fn value_reader(&self) -> Result<Option<ValueReader>>;
    /// Moves to the next record without reading its value. Returns whether there is such a record.
    fn advance(&mut self) -> Result<bool>;
    /// Moves to the previous record without reading its value. Returns whether there is such a record.
    fn retreat(&mut self) -> Result<bool>;
    /// Moves to the next record and returns it.
    #[allow(clippy::should_implement_trait)] // It lends, which `Iterator` cannot.
    fn next(&mut self) -> Result<Lent<'_>>;
    /// Moves to the previous record and returns it.
    fn prev(&mut self) -> Result<Lent<'_>>;
    /// Moves to the first record at or after `key` within the span, and returns it.
    fn seek(&mut self, key: &[u8]) -> Result<Lent<'_>>;
    /// Moves to the next record. Returns its key and the beginning of its value. A value that is stored outside of
    /// pages is not read; call [`RecordCursor::value`] to read it. A remote store always returns the whole value.
    ///
    /// ```
    /// use pando::RecordCursor;
    ///
    /// let db = pando::Database::builder().in_memory()?;
    /// let files = db.ensure_table("files")?;
    /// db.put(&files, "long", [b"title: x\n".as_slice(), &[0; 100_000]].concat())?;
    /// db.checkpoint()?; // Until then it is in memory as a whole.
    /// let snapshot = db.snapshot()?;
    /// let mut cursor = snapshot.cursor(&files, ..)?;
    /// let (key, beginning) = cursor.next_beginning()?.expect("it was put");
    /// assert_eq!((key, beginning.len_bytes), (&b"long"[..], 100_009));
    /// assert!(beginning.bytes.starts_with(b"title: x\n") && !beginning.is_whole());
    /// assert_eq!(cursor.value()?.map(<[u8]>::len), Some(100_009));
    /// # pando::Result::Ok(())
    /// ```
    fn next_beginning(&mut self) -> Result<Begun<'_>>;
    /// Moves to the previous record. Returns its key and the beginning of its value, as
    /// [`RecordCursor::next_beginning`] does.
    fn prev_beginning(&mut self) -> Result<Begun<'_>>;
    /// Moves to the first record at or after `key` within the span. Returns its key and the beginning of its value, as
    /// [`RecordCursor::next_beginning`] does.
    fn seek_beginning(&mut self, key: &[u8]) -> Result<Begun<'_>>;
    /// Calls `each` on following records that are in memory, at most `most`; see [`Cursor::run_on`].
    fn run_on(&mut self, most: usize, each: impl FnMut(&[u8], &[u8], &[u8])) -> Result<usize>;
    /// Calls `each` on preceding records that are in memory, in descending order and at most `most`, and returns their
    /// number. The number is often 0; then continue with [`RecordCursor::prev`]. See [`Cursor::run_back`]. For a remote
    /// store, these are the remaining records of the last response.
    ///
    /// ```
    /// let db = pando::Database::builder().in_memory()?;
    /// let table = db.ensure_table("numbers")?;
    /// db.write(|tx| (0..100_u8).try_for_each(|number| tx.put(&table, [number], [number])))?;
    /// let snapshot = db.snapshot()?;
    /// let (mut cursor, mut last, mut steps) = (snapshot.cursor(&table, ..)?, Vec::new(), 0);
    /// while last.len() < 10
    ///     && let Some((_, value)) = cursor.prev()?
    /// {
    ///     last.push(value[0]);
    ///     steps += 1;
    ///     cursor.run_back(10 - last.len(), |_front, _rest_of_key, value| last.push(value[0]))?;
    /// }
    /// assert!(last.iter().copied().eq((90..100).rev()));
    /// assert!(steps < 10);
    /// # pando::Result::Ok(())
    /// ```
    fn run_back(&mut self, most: usize, each: impl FnMut(&[u8], &[u8], &[u8])) -> Result<usize>;
    /// Lends following records that are in memory without a copy, at most `most`; see [`Cursor::lend_run`]. A remote
    /// store lends none.
    ///
    /// ```
    /// let db = pando::Database::builder().in_memory()?;
    /// let table = db.ensure_table("numbers")?;
    /// db.write(|tx| (0..100_u8).try_for_each(|number| tx.put(&table, [number], [number])))?;
    /// db.checkpoint()?; // Until then they lie in no page.
    /// let snapshot = db.snapshot()?;
    /// let (mut cursor, mut sum, mut steps) = (snapshot.cursor(&table, ..)?, 0, 0);
    /// while let Some((_, value)) = cursor.next()? {
    ///     (sum, steps) = (sum + u32::from(value[0]), steps + 1);
    ///     while let Some(mut run) = cursor.lend_run(usize::MAX)? {
    ///         let (_beginning_of_keys, records) = run.show(usize::MAX);
    ///         sum += records.map(|(_rest_of_key, value, _)| u32::from(value[0])).sum::<u32>();
    ///     }
    /// }
    /// assert_eq!((sum, steps), (4950, 1));
    ///
    /// // The page of the records that are lent can have more, and is searched without another cursor.
    /// let mut cursor = snapshot.cursor(&table, ..)?;
    /// cursor.next()?;
    /// let mut run = cursor.lend_run(1)?.expect("they lie in a page");
    /// assert_eq!((run.left(), run.extend()), (1, 99));
    /// assert!(run.seek(&[50]) && !run.seek(&[200]));
    /// let (beginning, records) = run.show(2);
    /// let keys: Vec<_> = records.map(|(rest, ..)| [beginning, rest].concat()).collect();
    /// assert_eq!(keys, [[50], [51]]);
    /// # pando::Result::Ok(())
    /// ```
    fn lend_run(&mut self, most: usize) -> Result<Option<LentRun>>;
    /// Skips at most `most` records, and returns their number. The number is less than `most` only at the end of the
    /// span. In a transaction, all of these records count as read. O(pages) for records in pages that no newer records
    /// overlap.
    ///
    /// ```
    /// use pando::RecordCursor;
    ///
    /// let db = pando::Database::builder().in_memory()?;
    /// let table = db.ensure_table("numbers")?;
    /// db.write(|tx| (0..100_u8).try_for_each(|number| tx.put(&table, [number], [])))?;
    /// let snapshot = db.snapshot()?;
    /// let mut cursor = snapshot.cursor(&table, [10]..)?;
    /// assert_eq!((cursor.skip(5)?, cursor.key()), (5, Some(&[14][..])));
    /// assert_eq!(cursor.skip(usize::MAX)?, 85);
    /// # pando::Result::Ok(())
    /// ```
    fn skip(&mut self, most: usize) -> Result<usize> {
        let mut passed = 0;
        while passed < most && self.advance()? {
            passed += 1;
            while let more @ 1.. = skip_in_memory(self, most - passed)? {
                passed += more;
            }
        }
        Ok(passed)
    }
}

/// Moves over records that are in memory. Returns their number, often 0.
fn skip_in_memory(cursor: &mut (impl RecordCursor + ?Sized), most: usize) -> Result<usize> {
    match cursor.lend_run(most)? {
        Some(run) => Ok(run.left()),
        None => cursor.run_on(most, |_, _, _| {}),
    }
}

/// The methods call the type's own methods by path, so that none can call itself.
macro_rules! record_cursor {
    ($type:ty) => {
        impl RecordCursor for $type {
            #[inline]
            fn span(&self) -> &Span {
                <$type>::span(self)
            }
            #[inline]
            fn key(&self) -> Option<&[u8]> {
                <$type>::key(self)
            }
            #[inline]
            fn current(&self) -> Lent<'_> {
                <$type>::current(self)
            }
            #[inline]
            fn value_len(&self) -> Option<u64> {
                <$type>::value_len(self)
            }
            #[inline]
            fn value(&mut self) -> Result<Option<&[u8]>> {
                <$type>::value(self)
            }
            #[inline]
            fn value_reader(&self) -> Result<Option<ValueReader>> {
                <$type>::value_reader(self)
            }
            #[inline]
            fn advance(&mut self) -> Result<bool> {
                <$type>::advance(self)
            }
            #[inline]
            fn retreat(&mut self) -> Result<bool> {
                <$type>::retreat(self)
            }
            #[inline]
            fn next(&mut self) -> Result<Lent<'_>> {
                <$type>::next(self)
            }
            #[inline]
            fn prev(&mut self) -> Result<Lent<'_>> {
                <$type>::prev(self)
            }
            #[inline]
            fn seek(&mut self, key: &[u8]) -> Result<Lent<'_>> {
                <$type>::seek(self, key)
            }
            #[inline]
            fn next_beginning(&mut self) -> Result<Begun<'_>> {
                <$type>::next_beginning(self)
            }
            #[inline]
            fn prev_beginning(&mut self) -> Result<Begun<'_>> {
                <$type>::prev_beginning(self)
            }
            #[inline]
            fn seek_beginning(&mut self, key: &[u8]) -> Result<Begun<'_>> {
                <$type>::seek_beginning(self, key)
            }
            #[inline]
            fn run_on(&mut self, most: usize, each: impl FnMut(&[u8], &[u8], &[u8])) -> Result<usize> {
                <$type>::run_on(self, most, each)
            }
            #[inline]
            fn run_back(&mut self, most: usize, each: impl FnMut(&[u8], &[u8], &[u8])) -> Result<usize> {
                <$type>::run_back(self, most, each)
            }
            #[inline]
            fn lend_run(&mut self, most: usize) -> Result<Option<LentRun>> {
                <$type>::lend_run(self, most)
            }
        }
    };
}

record_cursor!(Cursor<'_>);
record_cursor!(crate::remote::RemoteCursor<'_>);

/// An iterator over copies of records in key order, or in descending order with `.rev()`. It can be consumed from both
/// ends, and ends where they meet. An error ends it.
#[derive(Debug)]
#[must_use = "records are read only as the range is iterated"]
pub struct Range<'a, C = Cursor<'a>> {
    front: C,
    back: C,
    done: bool,
    reader: PhantomData<&'a ()>,
}

/// A key and its value.
type Record = (Vec<u8>, Vec<u8>);

impl<C> Range<'_, C> {
    pub(crate) fn new(cursor: impl Fn(Span) -> Result<C>, span: Span) -> Result<Self> {
        let (front, back) = (cursor(span.clone())?, cursor(span)?);
        Ok(Range { front, back, done: false, reader: PhantomData })
    }

    /// Returns the record that one end has moved to. An end that found nothing, or met the other, ends both.
    fn take(&mut self, moved: Result<Option<Record>>) -> Option<Result<Record>> {
        self.done = !matches!(moved, Ok(Some(_)));
        moved.transpose()
    }
}

impl<C: RecordCursor> Iterator for Range<'_, C> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let end = self.back.current().map(|(key, _)| key);
        let moved = self.front.next().map(|record| {
            let record = record.filter(|(key, _)| end.is_none_or(|end| *key < end));
            record.map(|(key, value)| (key.to_vec(), value.to_vec()))
        });
        self.take(moved)
    }
}

impl<C: RecordCursor> DoubleEndedIterator for Range<'_, C> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let start = self.front.current().map(|(key, _)| key);
        let moved = self.back.prev().map(|record| {
            let record = record.filter(|(key, _)| start.is_none_or(|start| *key > start));
            record.map(|(key, value)| (key.to_vec(), value.to_vec()))
        });
        self.take(moved)
    }
}

impl<C: RecordCursor> FusedIterator for Range<'_, C> {}
