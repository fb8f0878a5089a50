//! A range of documents, by the primary key or an index, as NDJSON or CSV. In a snapshot the range has no limit and is
//! read in batches. In a transaction it is limited by memory. If there are more documents, the last line is a cursor,
//! which CSV cannot have. With the feature `arrow` the range is also a stream of Arrow (`columns`).

use crate::access::tokens::Scope;
use crate::calls::call::Call;
use crate::calls::meanings::{CONFLICT, MISSING};
use crate::calls::operation::{Access, Operation, on_both};
use crate::calls::query::{flag, limit};
use crate::data::engine::{Engine, Kept};
use crate::data::held::Data;
use crate::data::open::Open;
use crate::data::served::Served;
use crate::limits::handoff::hand_off;
use crate::limits::room::Room;
use crate::operations::documents::address::{Asked, text_of, values_of};
#[cfg(feature = "arrow")]
use crate::operations::documents::columns::Columns;
use crate::operations::documents::described::Described;
use crate::operations::ranges::value_bytes;
use crate::send::records::{Batches, Nothing, Part, RecordsBody};
use crate::watch::observe::Kind;
#[cfg(feature = "arrow")]
use crate::wire::accept::{ARROW_STREAM, is_accepted};
use crate::wire::digits::{from_hex, hex};
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::{NDJSON, typed};
use crate::wire::target::raw_parameter;
use rows::{DynamicTable, KeyRange, Position, RowFormat, RowWriter, Value};
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[on_both!(
    "GET",
    "/v1/databases/{database}/documents/{table}",
    Access::Database(Scope::Read),
    Kind::Range,
    "Get documents as NDJSON or CSV, from a range of the primary key or of an index",
    |parts, call, _| Box::pin(scan(parts.data(), parts.room(), call)),
)
.takes(&[
    "index",
    "first",
    "behind",
    "beginning",
    "reverse",
    "limit",
    "cursor",
    "lines",
    "column_bytes",
    "transaction",
])
.responses(&[
    (200, "One document on each line; with a limit, the last line has a cursor if there are more"),
    MISSING,
    CONFLICT,
])
.sends(SENT)];

/// The types of the response.
#[cfg(feature = "arrow")]
const SENT: &[&str] = &[NDJSON, "text/csv", ARROW_STREAM];
#[cfg(not(feature = "arrow"))]
const SENT: &[&str] = &[NDJSON, "text/csv"];

/// The approximate number of bytes that are read at once. A single document may be longer.
const BATCH_BYTES: usize = 128 << 10;
/// The number of documents in one response of a transaction: the default and the limit.
const USUAL_IN_TRANSACTION: u64 = 1000;
const MOST_IN_TRANSACTION: u64 = 10_000;

/// The documents that the address names.
#[derive(Debug)]
struct Which {
    index: Option<String>,
    start: Option<String>,
    end: Option<String>,
    prefix: Option<String>,
    backwards: bool,
    limit: Option<u64>,
    cursor: Option<Vec<u8>>,
    format: RowFormat,
    /// The length to which values are cut. Each document then comes with its key and its position.
    value_bytes: Option<u64>,
    /// Whether the documents are sent as a stream of Arrow instead.
    #[cfg(feature = "arrow")]
    arrow: bool,
}

/// Returns the form of the rows, if the query sets it.
pub fn format(query: Option<&str>) -> Answer<Option<RowFormat>> {
    match raw_parameter(query, "format") {
        None => Ok(None),
        Some("ndjson") => Ok(Some(RowFormat::Ndjson)),
        Some("csv") => Ok(Some(RowFormat::Csv)),
        Some(_) => Err(Problem::bad_request("`format` must be ndjson or csv")),
    }
}

impl Which {
    fn parse(call: &Call) -> Answer<Self> {
        let target = call.target();
        let query = target.query();
        let word = |name| raw_parameter(query, name).filter(|text| !text.is_empty()).map(str::to_owned);
        let (start, end, prefix) = (word("start"), word("end"), word("prefix"));
        if prefix.is_some() && (start.is_some() || end.is_some()) {
            return Err(Problem::bad_request("`prefix` cannot be combined with `start` or `end`"));
        }
        let no_cursor =
            || Problem::bad_request("`cursor` is not valid; use the one in the last line of the page before");
        let cursor = raw_parameter(query, "cursor");
        let cursor = cursor.map(|digits| from_hex(digits).ok_or_else(no_cursor)).transpose()?;
        let index = word("index").map(|name| text_of(&name)).transpose()?;
        let (backwards, limit) = (flag(query, "reverse")?, limit(query)?);
        let format = format(query)?.unwrap_or(RowFormat::Ndjson);
        // CSV has no line for a cursor.
        if format == RowFormat::Csv && (limit.is_some() || cursor.is_some()) {
            return Err(Problem::bad_request("`limit` and `cursor` are for NDJSON only: CSV has no pages"));
        }
        let value_bytes = value_bytes(query)?;
        if format == RowFormat::Csv && value_bytes.is_some() {
            return Err(Problem::bad_request("`value_bytes` is for NDJSON only: CSV has no lengths"));
        }
        #[cfg(feature = "arrow")]
        let arrow =
            value_bytes.is_none() && is_accepted(&call.headers) && raw_parameter(query, "format").is_none();
        #[cfg(feature = "arrow")]
        if arrow && (limit.is_some() || cursor.is_some()) {
            return Err(Problem::bad_request("`limit` and `cursor` are for NDJSON only: Arrow has no pages"));
        }
        Ok(Which {
            index,
            start,
            end,
            prefix,
            backwards,
            limit,
            cursor,
            format,
            value_bytes,
            #[cfg(feature = "arrow")]
            arrow,
        })
    }
}

/// The documents that are still to be read.
struct Documents {
    table: DynamicTable,
    index: Option<String>,
    low: Bound<Vec<Value<'static>>>,
    high: Bound<Vec<Value<'static>>>,
    backwards: bool,
    /// The position of the last document that was read.
    at: Option<Position>,
    /// The number of documents that may still be read.
    left: u64,
    over: bool,
    format: RowFormat,
    /// The writer of documents with their keys, if values are cut.
    described: Option<Described>,
    /// Whether nothing was read yet.
    is_new: bool,
    /// The stream of Arrow, if that was asked for.
    #[cfg(feature = "arrow")]
    columns: Option<Columns>,
}

impl Documents {
    fn new(table: DynamicTable, which: &Which, left: u64) -> Answer<Self> {
        let schema = table.schema();
        let missing =
            |name: &String| Problem::not_found(format!("table {:?} has no index {name:?}", table.name()));
        let parts = match &which.index {
            Some(name) => schema.index(name).ok_or_else(|| missing(name))?.parts(),
            None => schema.key(),
        };
        let values =
            |text: &Option<String>| text.as_ref().map(|text| values_of(&table, parts, text)).transpose();
        let prefix = values(&which.prefix)?;
        let (low, high) = match prefix {
            Some(prefix) => (Bound::Included(prefix.clone()), Bound::Included(prefix)),
            None => (
                values(&which.start)?.map_or(Bound::Unbounded, Bound::Included),
                values(&which.end)?.map_or(Bound::Unbounded, Bound::Excluded),
            ),
        };
        let (index, backwards) = (which.index.clone(), which.backwards);
        let at = which.cursor.clone().map(Position::from_bytes);
        let format = which.format;
        Ok(Documents {
            index,
            low,
            high,
            backwards,
            at,
            left,
            over: false,
            format,
            described: which.value_bytes.map(|bytes| Described::new(&table, bytes)),
            is_new: true,
            #[cfg(feature = "arrow")]
            columns: which.arrow.then(|| Columns::new(&table)),
            table,
        })
    }

    /// Returns the lines of the next batch; it is empty at the end.
    fn next_lines(&mut self, reader: &impl pando::ReadTables) -> pando::Result<Vec<u8>> {
        if self.over {
            return Ok(Vec::new());
        }
        let mut range = KeyRange::between(
            self.low.as_ref().map(|low| &low[..]),
            self.high.as_ref().map(|high| &high[..]),
        );
        if self.backwards {
            range = range.backwards();
        }
        let mut at = self.at.take();
        if let Some(at) = &at {
            range = range.beyond(at.clone());
        }
        let mut scan = match &self.index {
            Some(index) => self.table.scan_index(reader, index, &range)?,
            None => self.table.scan(reader, &range)?,
        };
        #[cfg(feature = "arrow")]
        if let Some(columns) = &mut self.columns {
            let is_over = columns.fill(BATCH_BYTES, || scan.next_row())?;
            (self.at, self.over) = (scan.position(), is_over);
            return Ok(columns.take());
        }
        let (mut lines, mut cursor) = (Vec::new(), None);
        let mut out = match &self.described {
            Some(described) => Out::Described(described, &mut lines),
            None => Out::Rows(RowWriter::new(&self.table, self.format, &mut lines)),
        };
        if std::mem::take(&mut self.is_new) {
            out.header();
        }
        while !self.over && out.len() < BATCH_BYTES {
            if self.left == 0 {
                // There may be more documents; the cursor continues here.
                let more = scan.next_with(|_| ())?.is_some();
                cursor = at.take().filter(|_| more);
                self.over = true;
                break;
            }
            match scan.next_with(|row| out.row(&row))? {
                Some(()) => {
                    self.left -= 1;
                    at = scan.position();
                    out.end_row(at.as_ref());
                }
                None => self.over = true,
            }
        }
        out.finish();
        if let Some(at) = cursor {
            lines.extend_from_slice(cursor_line(&at).as_bytes());
        }
        if !self.over {
            self.at = at;
        }
        Ok(lines)
    }
}

/// What writes the lines of a batch.
enum Out<'o> {
    Rows(RowWriter<&'o mut Vec<u8>>),
    Described(&'o Described, &'o mut Vec<u8>),
}

impl Out<'_> {
    fn header(&mut self) {
        if let Out::Rows(rows) = self {
            rows.header().expect(ALWAYS);
        }
    }

    fn row(&mut self, row: &[Value<'_>]) {
        match self {
            Out::Rows(rows) => rows.row(row).expect(ALWAYS),
            Out::Described(described, lines) => described.begin(row, lines),
        }
    }

    fn end_row(&mut self, position: Option<&Position>) {
        if let Out::Described(described, lines) = self {
            described.end(position, lines);
        }
    }

    fn len(&self) -> usize {
        match self {
            Out::Rows(rows) => rows.get_ref().len(),
            Out::Described(_, lines) => lines.len(),
        }
    }

    fn finish(self) {
        if let Out::Rows(mut rows) = self {
            rows.flush().expect(ALWAYS);
        }
    }
}

/// The reason why writing rows cannot fail.
const ALWAYS: &str = "a vector takes everything";

fn cursor_line(at: &Position) -> String {
    format!("{{\"cursor\":\"{}\"}}\n", hex(at.as_bytes()))
}

/// The documents of a snapshot, as the source of a body.
struct InSnapshot<E: Engine> {
    snapshot: Kept<E>,
    documents: Documents,
    /// A handle that keeps the database from being closed or dropped.
    _open: Arc<Open<E>>,
}

impl<E: Engine> Batches for InSnapshot<E> {
    fn next_batch(&mut self) -> pando::Result<VecDeque<Part>> {
        let lines = self.documents.next_lines(self.snapshot.get())?;
        Ok(if lines.is_empty() { VecDeque::new() } else { VecDeque::from([Part::Bytes(lines.into())]) })
    }

    fn is_over(&self) -> bool {
        self.documents.over
    }
}

/// Sends the requested documents.
async fn scan<E: Served>(data: Arc<Data<E>>, room: Arc<Room>, call: Call) -> Answer {
    let (asked, which) = (Asked::parse(&call)?, Which::parse(&call)?);
    let content_type = match which.format {
        #[cfg(feature = "arrow")]
        _ if which.arrow => ARROW_STREAM,
        RowFormat::Csv => "text/csv; charset=utf-8",
        RowFormat::Ndjson => NDJSON,
    };
    if let Some(token) = asked.transaction.clone() {
        #[cfg(feature = "arrow")]
        if which.arrow {
            let detail = "within a transaction documents are returned in pages, which Arrow does not have; \
                          ask for NDJSON";
            return Err(Problem::bad_request(detail));
        }
        if which.format == RowFormat::Csv {
            let detail = "within a transaction documents are returned in pages, which CSV does not have; \
                          ask for NDJSON";
            return Err(Problem::bad_request(detail));
        }
        let limit = which.limit.unwrap_or(USUAL_IN_TRANSACTION).min(MOST_IN_TRANSACTION);
        let database = asked.database.clone();
        let look = move |tx: &E::Transaction| {
            let mut documents = Documents::new(asked.open(tx)?, &which, limit)?;
            let mut lines = documents.next_lines(tx)?;
            // The rest is left for the next request.
            if let Some(at) = documents.at.take().filter(|_| !documents.over) {
                lines.extend_from_slice(cursor_line(&at).as_bytes());
            }
            Ok(lines)
        };
        let lines = data.transactions.run(&database, &token, move |_, tx| look(tx)).await?;
        let lines = VecDeque::from([Part::Bytes(lines.into())]);
        return Ok(typed(content_type, RecordsBody::response(&room, Nothing, lines).await?));
    }
    let open = data.database(&asked.database).await?;
    let limit = which.limit.unwrap_or(u64::MAX);
    let begun = hand_off(move || {
        E::read(&open.db, |snapshot| {
            let snapshot = Kept::new(snapshot);
            let documents = Documents::new(asked.open(snapshot.get())?, &which, limit)?;
            let mut reading = InSnapshot::<E> { snapshot, documents, _open: Arc::clone(&open) };
            let first = reading.next_batch()?;
            Ok((reading, first))
        })
    });
    let (reading, first) = begun.await?;
    Ok(typed(content_type, RecordsBody::response(&room, reading, first).await?))
}
