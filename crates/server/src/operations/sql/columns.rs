//! Writes the rows of one statement as a stream of Arrow.
//!
//! 1. A stream begins with the types of its columns, and SQL's values have types of their own. So the first rows are
//!    kept, up to [`SAMPLE_ROWS`] and about [`SAMPLE_BYTES`], and their values decide. A column that has only nulls
//!    there has its declared type.
//! 2. A value of another type is an error. After the first piece was sent, the stream breaks off: it then ends within a
//!    message ([`sendable`]), so that no client takes a part for the whole.
//! 3. Everything that can fail has happened at the end of a statement's rows, before a transaction of several
//!    statements is committed. What is sent after that is less than a piece.
//! 4. The memory is that of the kept rows, of a batch of Arrow, and of its encoded form. A row has at most
//!    [`ROW_BYTES`].

use super::output::Failed;
use crate::wire::accept::sendable;
use crate::wire::pipe::Writer;
use crate::wire::problem::{Answer, Problem};
use arrow::{Format, GuessedType, Shape, fitted};
use axum::http::StatusCode;
use bytes::Bytes;
use sql::{ColumnInfo, Value, ValueRef};

/// How many rows decide the types of the columns.
const SAMPLE_ROWS: usize = 4096;
/// How many bytes they have at most, but for the last row.
const SAMPLE_BYTES: usize = 1 << 20;
/// The longest texts and blobs of one row, in bytes.
const ROW_BYTES: usize = 4 << 20;
/// The size of a piece in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// The stream that is being written.
pub struct Columns {
    pipe: Writer,
    stream: Stream,
    rows: u64,
}

enum Stream {
    /// No statement has begun to return rows.
    Before,
    /// The first rows.
    Sample(Sample),
    /// The types are sent.
    Begun { out: arrow::Writer<Vec<u8>>, names: Vec<String> },
}

struct Sample {
    columns: Vec<ColumnInfo>,
    types: Vec<GuessedType>,
    rows: Vec<Vec<Value>>,
    bytes: usize,
}

impl Columns {
    /// Creates a writer of a stream into a pipe.
    pub fn new(pipe: Writer) -> Self {
        Columns { pipe, stream: Stream::Before, rows: 0 }
    }

    /// Begins the rows of a statement with these columns.
    pub fn begin(&mut self, columns: Vec<ColumnInfo>) -> Result<(), Failed> {
        if !matches!(self.stream, Stream::Before) {
            let detail = "a stream of Arrow has the rows of one statement, and here two return rows: ask for \
                          NDJSON or JSON, or send one of them by itself";
            return Err(Problem::bad_request(detail).into());
        }
        let types = vec![GuessedType::default(); columns.len()];
        self.stream = Stream::Sample(Sample { columns, types, rows: Vec::new(), bytes: 0 });
        Ok(())
    }

    /// Writes a row.
    pub fn row<'v>(&mut self, values: impl Iterator<Item = ValueRef<'v>>) -> Result<(), Failed> {
        self.rows += 1;
        let values: Vec<_> = values.collect();
        let bytes: usize = values.iter().map(len_bytes).sum();
        if bytes > ROW_BYTES {
            return Err(misfit(&format!(
                "row {} has {bytes} bytes, and {ROW_BYTES} are the most",
                self.rows
            ))
            .into());
        }
        match &mut self.stream {
            Stream::Before => unreachable!("rows come after their columns"),
            Stream::Sample(sample) => {
                sample.row(self.rows, &values)?;
                sample.bytes += bytes + values.len() * size_of::<Value>();
                if sample.rows.len() < SAMPLE_ROWS && sample.bytes < SAMPLE_BYTES {
                    return Ok(());
                }
                self.start()?;
            }
            Stream::Begun { out, names } => write(out, names, self.rows, values.into_iter())?,
        }
        self.hand_on()
    }

    /// Ends the rows of the statement.
    pub fn end(&mut self) -> Result<(), Failed> {
        if matches!(self.stream, Stream::Sample(_)) {
            self.start()?;
        }
        if let Stream::Begun { out, .. } = &mut self.stream {
            out.flush().map_err(|error| misfit(&error.to_string()))?;
        }
        self.hand_on()
    }

    /// Writes the end of the stream, or fails.
    pub fn finish(mut self, outcome: Answer<()>) {
        match outcome.and_then(|()| self.rest()) {
            Ok(rest) => self.pipe.finish(Bytes::from(rest)),
            Err(problem) => self.pipe.fail(problem),
        }
    }

    /// Ends the stream, and returns what of it was not sent.
    fn rest(&mut self) -> Answer<Vec<u8>> {
        if !matches!(self.stream, Stream::Begun { .. }) {
            self.start().map_err(Failed::problem)?;
        }
        match std::mem::replace(&mut self.stream, Stream::Before) {
            Stream::Begun { out, .. } => out.finish().map_err(|error| misfit(&error.to_string())),
            _ => unreachable!("it was started"),
        }
    }

    /// Decides the types, and writes the rows that were kept.
    fn start(&mut self) -> Result<(), Failed> {
        let sample = match std::mem::replace(&mut self.stream, Stream::Before) {
            Stream::Sample(sample) => sample,
            // No statement returns rows: a stream without columns.
            _ => Sample { columns: Vec::new(), types: Vec::new(), rows: Vec::new(), bytes: 0 },
        };
        let mut typed = Vec::new();
        for (column, guessed) in sample.columns.iter().zip(sample.types) {
            let found = guessed.finish(column.declared.as_deref());
            typed.push(found.map_err(|what| mixed(&column.name, &format!("it has {what}")))?);
        }
        let names: Vec<_> = sample.columns.into_iter().map(|column| column.name).collect();
        let columns = names.iter().zip(&typed).map(|(name, kind)| (name.as_str(), *kind, true));
        let shape = Shape::of_columns(columns);
        let out = arrow::Writer::new(Vec::new(), Format::ArrowStream, shape)
            .map_err(|error| misfit(&error.to_string()))?;
        self.stream = Stream::Begun { out, names };
        for (number, row) in (1..).zip(sample.rows) {
            if let Stream::Begun { out, names } = &mut self.stream {
                write(out, names, number, row.iter().map(ValueRef::from))?;
            }
            self.hand_on()?;
        }
        Ok(())
    }

    /// Hands on what is written, in pieces, if there is enough for one.
    fn hand_on(&mut self) -> Result<(), Failed> {
        let Stream::Begun { out, .. } = &mut self.stream else { return Ok(()) };
        let Some(written) = out.stream_mut().filter(|written| written.len() > PIECE_BYTES) else {
            return Ok(());
        };
        let mut rest = Bytes::from(sendable(written));
        while !rest.is_empty() {
            self.pipe.write(rest.split_to(rest.len().min(PIECE_BYTES)))?;
        }
        Ok(())
    }
}

impl Sample {
    fn row(&mut self, number: u64, values: &[ValueRef<'_>]) -> Result<(), Failed> {
        for ((value, column), guessed) in values.iter().zip(&self.columns).zip(&mut self.types) {
            let noted = guessed.note(&borrowed(*value));
            noted.map_err(|what| mixed(&column.name, &format!("row {number} has {what}")))?;
        }
        self.rows.push(values.iter().map(|value| super::script::owned(*value)).collect());
        Ok(())
    }
}

fn write<'v>(
    out: &mut arrow::Writer<Vec<u8>>,
    names: &[String],
    number: u64,
    values: impl Iterator<Item = ValueRef<'v>>,
) -> Result<(), Failed> {
    let mut row = Vec::with_capacity(names.len());
    for ((value, &kind), name) in values.zip(out.shape().types()).zip(names) {
        let what = || format!("row {number} has a value that is not of type {kind}, as those before it are");
        row.push(fitted(borrowed(value), kind).ok_or_else(|| mixed(name, &what()))?);
    }
    out.row(&row).map_err(|error| misfit(&error.to_string()).into())
}

/// Returns a value as Arrow's columns have it. Text that is not valid UTF-8 is bytes.
fn borrowed(value: ValueRef<'_>) -> rows::Value<'_> {
    match value {
        ValueRef::Null => rows::Value::Null,
        ValueRef::Integer(number) => rows::Value::Int(number),
        ValueRef::Real(number) => rows::Value::Float(number),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => rows::Value::Text(text.into()),
            Err(_) => rows::Value::Bytes(text.into()),
        },
        ValueRef::Blob(bytes) => rows::Value::Bytes(bytes.into()),
    }
}

fn len_bytes(value: &ValueRef<'_>) -> usize {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
        _ => 0,
    }
}

/// Returns the problem of a column without a single type.
#[cold]
fn mixed(column: &str, what: &str) -> Problem {
    let advice = "CAST it in the statement, or ask for NDJSON";
    let detail = format!("column `{column}` has no single type, which Arrow needs: {what}; {advice}");
    Problem::new(StatusCode::BAD_REQUEST, "sql", detail)
}

/// Returns the problem of a value that a batch cannot hold.
#[cold]
fn misfit(what: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "sql", format!("a row does not fit into a batch of Arrow: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::pipe::pipe;
    use arrow::Batches;
    use std::time::{Duration, Instant};

    type Row = Vec<Value>;

    fn columns(names: &[(&str, Option<&str>)]) -> Vec<ColumnInfo> {
        let info = |&(name, declared): &(&str, Option<&str>)| {
            ColumnInfo::new(name.to_owned(), declared.map(ToOwned::to_owned))
        };
        names.iter().map(info).collect()
    }

    /// Writes rows, and returns the bytes, or the problem and what was sent before.
    fn written(
        names: &[(&str, Option<&str>)],
        rows: impl IntoIterator<Item = Row> + Send + 'static,
    ) -> Result<Vec<u8>, (Problem, Vec<u8>)> {
        let (writer, mut reader) = pipe(Instant::now() + Duration::from_secs(20));
        let infos = columns(names);
        let writing = std::thread::spawn(move || {
            let mut columns = Columns::new(writer);
            let write = || {
                columns.begin(infos)?;
                rows.into_iter().try_for_each(|row| columns.row(row.iter().map(ValueRef::from)))?;
                columns.end()
            };
            let done = write();
            columns.finish(done.map_err(Failed::problem));
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut all = Vec::new();
        while let Some(piece) = runtime.block_on(reader.next()) {
            match piece {
                Ok(piece) => all.extend_from_slice(&piece),
                Err(problem) => return Err((problem, all)),
            }
        }
        writing.join().unwrap();
        Ok(all)
    }

    /// Returns the types of a stream's columns, and how many rows it has.
    fn read(stream: &[u8]) -> (Vec<String>, usize) {
        let mut batches = Batches::stream(stream).unwrap();
        let types = batches.schema().fields().iter().map(|field| field.data_type().to_string()).collect();
        let rows = std::iter::from_fn(|| batches.next()).map(|batch| batch.unwrap().num_rows()).sum();
        (types, rows)
    }

    #[test]
    fn types_follow_the_values_and_else_the_declaration() {
        let names = [("a", None), ("b", Some("INTEGER")), ("c", None), ("d", None), ("e", None)];
        let text = |text: &str| Value::Text(text.to_owned());
        let rows = [
            vec![Value::Integer(1), Value::Null, text("x"), Value::Blob(vec![1]), Value::Null],
            vec![Value::Real(0.5), Value::Null, Value::Null, Value::Null, Value::Null],
        ];
        let (types, count) = read(&written(&names, rows).unwrap());
        assert_eq!((types.join(" "), count), ("Float64 Int64 Utf8 Binary Utf8".to_owned(), 2));
        assert_eq!(read(&written(&names[..2], []).unwrap()), (vec!["Utf8".into(), "Int64".into()], 0));
        // A statement without rows.
        let (writer, mut reader) = pipe(Instant::now() + Duration::from_secs(20));
        Columns::new(writer).finish(Ok(()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let whole = runtime.block_on(reader.next()).unwrap().unwrap();
        assert_eq!(read(&whole), (Vec::new(), 0));
    }

    #[test]
    fn rows_after_the_sample_are_sent_in_pieces() {
        let rows = (0..20_000).map(|n| vec![Value::Integer(n), Value::Text("x".repeat(100))]);
        let (types, count) = read(&written(&[("n", None), ("t", None)], rows).unwrap());
        assert_eq!((types.join(" "), count), ("Int64 Utf8".to_owned(), 20_000));
    }

    #[test]
    fn wide_rows_are_kept_by_their_bytes_and_the_last_piece_is_short() {
        let names: Vec<_> = (0..500).map(|n| format!("c{n}")).collect();
        let names: Vec<_> = names.iter().map(|name| (name.as_str(), None)).collect();
        let (writer, mut reader) = pipe(Instant::now() + Duration::from_secs(20));
        let infos = columns(&names);
        let writing = std::thread::spawn(move || {
            let mut stream = Columns::new(writer);
            stream.begin(infos).unwrap();
            for n in 0..1_000 {
                stream.row((0..500).map(|_| ValueRef::Integer(n))).unwrap();
                let kept = if let Stream::Sample(sample) = &stream.stream { sample.rows.len() } else { 0 };
                assert!(kept < 100, "{kept} rows are kept");
            }
            stream.end().unwrap();
            stream.finish(Ok(()));
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let pieces: Vec<_> =
            std::iter::from_fn(|| runtime.block_on(reader.next())).map(Result::unwrap).collect();
        writing.join().unwrap();
        assert!(pieces.iter().all(|piece| piece.len() <= PIECE_BYTES + 1024), "a long piece");
        assert_eq!(read(&pieces.concat()).1, 1_000);
    }

    #[test]
    fn a_column_of_several_types_is_refused_or_breaks_the_stream_off() {
        let mixed_at = |at: i64, other: Value| {
            let of = move |n| if n == at { other.clone() } else { Value::Integer(n) };
            written(&[("n", None)], (0..20_000).map(move |n| vec![of(n)])).unwrap_err()
        };
        let (problem, sent) = mixed_at(3, Value::Text("three".into()));
        assert!(sent.is_empty() && problem.status == StatusCode::BAD_REQUEST, "{problem:?}");
        assert!(problem.detail.contains("`n`") && problem.detail.contains("row 4 has"), "{}", problem.detail);
        let (problem, sent) = mixed_at(19_000, Value::Real(0.5));
        assert!(problem.detail.contains("row 19001 has"), "{}", problem.detail);
        // It does not look like a stream that has ended.
        let mut batches = Batches::stream(&sent[..]).unwrap();
        let read: Vec<_> = std::iter::from_fn(|| batches.next()).collect();
        assert!(!sent.is_empty() && read.iter().any(Result::is_err), "{} batches", read.len());
        // An integer that is no floating-point number.
        let rows = [vec![Value::Real(0.5)], vec![Value::Integer((1 << 53) + 1)]];
        let (problem, _) = written(&[("x", None)], rows).unwrap_err();
        assert!(problem.detail.contains("none of them equals"), "{}", problem.detail);
        let (problem, _) = written(&[("b", None)], [vec![Value::Blob(vec![0; 5 << 20])]]).unwrap_err();
        assert!(problem.detail.contains("5242880 bytes"), "{}", problem.detail);
    }

    #[test]
    fn a_stream_has_the_rows_of_one_statement() {
        let (writer, _reader) = pipe(Instant::now() + Duration::from_secs(20));
        let mut stream = Columns::new(writer);
        stream.begin(columns(&[("a", None)])).unwrap();
        let problem = stream.begin(columns(&[("a", None)])).unwrap_err().problem();
        assert!(problem.detail.contains("one statement"), "{}", problem.detail);
    }
}
