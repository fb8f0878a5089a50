//! Writes the results of statements to the client.
//!
//! NDJSON is written line by line. The last line is `{"done":true}` or an error:
//!
//! | line | meaning |
//! |---|---|
//! | `{"columns":["id","name"]}` | the beginning of a query: the names of its columns |
//! | `[1,"apple"]` | a row of the query |
//! | `{"rows":1}` | the end of the query; with `"changes"` if it also changed rows |
//! | `{"changes":3}` | a statement without rows, and how many it changed |
//! | `{"done":true}` | all statements have run, and their changes are committed |
//! | `{"error":{...}}` | an error, as a problem; nothing was changed, except with the problem `committed` |
//!
//! JSON is the same as one document, `{"results":[{"columns":[...],"rows":[[...]]},{"changes":3}]}`. CSV has the rows
//! of one statement after a line of names. After an error these two break off, so that no client takes a part for the
//! whole.
//!
//! Pieces are handed on when they are full, even within a long value. The memory is that of a piece, not of a row.

use crate::wire::digits::write_digits;
use crate::wire::form::write_escaped;
use crate::wire::pipe::{Stopped, Writer};
use crate::wire::problem::{Answer, Problem};
use bytes::Bytes;
use sql::ValueRef;
use std::io::Write;

/// The size of a piece in bytes.
const PIECE_BYTES: usize = 64 << 10;
/// The step in which long values are written.
const STEP_BYTES: usize = 16 << 10;

/// The form of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One line for each row.
    Ndjson,
    /// One JSON document.
    Json,
    /// A CSV table.
    Csv,
}

/// The response that is being written.
#[derive(Debug)]
pub struct Results {
    format: Format,
    writer: Writer,
    piece: Vec<u8>,
    /// Whether a piece was handed on, so that the status is fixed.
    has_begun: bool,
    /// The number of results, and of rows of the current one.
    results: u64,
    rows: u64,
}

type Written = Result<(), Stopped>;

impl Results {
    /// Creates a writer of results into a pipe.
    pub fn new(format: Format, writer: Writer) -> Self {
        Results { format, writer, piece: Vec::new(), has_begun: false, results: 0, rows: 0 }
    }

    /// Writes the beginning of a query.
    pub fn begin(&mut self, columns: &[String]) -> Written {
        self.next_result();
        self.rows = 0;
        match self.format {
            Format::Csv => return self.list(columns.iter().map(|name| ValueRef::Text(name.as_bytes()))),
            Format::Ndjson | Format::Json => self.piece.extend_from_slice(b"{\"columns\":["),
        }
        for (at, name) in columns.iter().enumerate() {
            self.comma(at > 0);
            self.string(name.as_bytes())?;
        }
        self.piece.extend_from_slice(if self.format == Format::Json { b"],\"rows\":[" } else { b"]}\n" });
        Ok(())
    }

    /// Writes a row of the query.
    pub fn row<'v>(&mut self, values: impl Iterator<Item = ValueRef<'v>>) -> Written {
        self.comma(self.format == Format::Json && self.rows > 0);
        self.rows += 1;
        self.list(values)?;
        self.hand_on()
    }

    /// Writes the end of the query, and how many rows it has changed.
    pub fn end(&mut self, changes: u64) {
        let text = match (self.format, changes) {
            (Format::Csv, _) => return,
            (Format::Json, 0) => "]}".to_owned(),
            (Format::Json, _) => format!("],\"changes\":{changes}}}"),
            (Format::Ndjson, 0) => format!("{{\"rows\":{}}}\n", self.rows),
            (Format::Ndjson, _) => format!("{{\"rows\":{},\"changes\":{changes}}}\n", self.rows),
        };
        self.piece.extend_from_slice(text.as_bytes());
    }

    /// Writes the result of a statement without rows, and how many it has changed.
    pub fn changes(&mut self, changes: u64) -> Written {
        self.next_result();
        let end = match self.format {
            Format::Csv => return Ok(()),
            Format::Json => "",
            Format::Ndjson => "\n",
        };
        let _ = write!(self.piece, "{{\"changes\":{changes}}}{end}");
        self.hand_on()
    }

    /// Writes the end of all results, or the error.
    pub fn finish(mut self, outcome: Answer<()>) {
        match (outcome, self.format) {
            (Err(problem), Format::Ndjson) if self.has_begun => {
                // If the error came within a row, the incomplete line ends here.
                if !self.piece.ends_with(b"\n") {
                    self.piece.push(b'\n');
                }
                let _ = writeln!(self.piece, "{{\"error\":{}}}", problem.to_json());
            }
            (Err(problem), _) => return self.writer.fail(problem),
            (Ok(()), Format::Ndjson) => self.piece.extend_from_slice(b"{\"done\":true}\n"),
            (Ok(()), Format::Json) if self.results == 0 => {
                self.piece.extend_from_slice(b"{\"results\":[]}\n")
            }
            (Ok(()), Format::Json) => self.piece.extend_from_slice(b"]}\n"),
            (Ok(()), Format::Csv) => {}
        }
        self.writer.finish(Bytes::from(self.piece));
    }

    fn next_result(&mut self) {
        if self.format == Format::Json {
            let before: &[u8] = if self.results == 0 { b"{\"results\":[" } else { b"," };
            self.piece.extend_from_slice(before);
        }
        self.results += 1;
    }

    fn comma(&mut self, wanted: bool) {
        if wanted {
            self.piece.push(b',');
        }
    }

    fn list<'v>(&mut self, values: impl Iterator<Item = ValueRef<'v>>) -> Written {
        if self.format != Format::Csv {
            self.piece.push(b'[');
        }
        for (at, value) in values.enumerate() {
            self.comma(at > 0);
            match self.format {
                Format::Csv => self.field(value)?,
                Format::Ndjson | Format::Json => self.value(value)?,
            }
        }
        self.piece.extend_from_slice(match self.format {
            Format::Ndjson => b"]\n",
            Format::Json => b"]",
            Format::Csv => b"\n",
        });
        Ok(())
    }

    /// Writes a value in JSON; `parameters` reads it back.
    fn value(&mut self, value: ValueRef<'_>) -> Written {
        match value {
            ValueRef::Null => self.piece.extend_from_slice(b"null"),
            ValueRef::Integer(number) => {
                let _ = write!(self.piece, "{number}");
            }
            ValueRef::Real(number) if number.is_finite() => {
                let _ = write!(self.piece, "{number:?}");
            }
            ValueRef::Real(number) => {
                let _ = write!(self.piece, "{{\"float\":\"{number:?}\"}}");
            }
            ValueRef::Text(text) if std::str::from_utf8(text).is_ok() => return self.string(text),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                self.piece.extend_from_slice(b"{\"bytes\":\"");
                for step in bytes.chunks(STEP_BYTES) {
                    write_digits(step, &mut self.piece);
                    self.hand_on()?;
                }
                self.piece.extend_from_slice(b"\"}");
            }
        }
        Ok(())
    }

    /// Writes a text in quotes.
    fn string(&mut self, text: &[u8]) -> Written {
        self.piece.push(b'"');
        for step in text.chunks(STEP_BYTES) {
            write_escaped(step, &mut self.piece);
            self.hand_on()?;
        }
        self.piece.push(b'"');
        Ok(())
    }

    /// Writes a field of CSV: nothing for a null, `""` for an empty text, and bytes without encoding.
    fn field(&mut self, value: ValueRef<'_>) -> Written {
        let bytes = match value {
            ValueRef::Null => return Ok(()),
            ValueRef::Integer(_) | ValueRef::Real(_) => {
                let _ = match value {
                    ValueRef::Integer(number) => write!(self.piece, "{number}"),
                    ValueRef::Real(number) => write!(self.piece, "{number:?}"),
                    _ => Ok(()),
                };
                return Ok(());
            }
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes,
        };
        let quoted = bytes.is_empty() || bytes.iter().any(|byte| b",\"\r\n".contains(byte));
        self.piece.extend(quoted.then_some(b'"'));
        for step in bytes.chunks(STEP_BYTES) {
            for &byte in step {
                self.piece.extend((byte == b'"').then_some(b'"'));
                self.piece.push(byte);
            }
            self.hand_on()?;
        }
        self.piece.extend(quoted.then_some(b'"'));
        Ok(())
    }

    /// Hands the piece on if it is full.
    fn hand_on(&mut self) -> Written {
        if self.piece.len() < PIECE_BYTES {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_BYTES + STEP_BYTES));
        self.has_begun = true;
        self.writer.write(Bytes::from(piece))
    }
}

/// Returns the problem of a writer that was stopped.
pub fn stopped(time: std::time::Duration) -> Problem {
    let detail = format!(
        "the statements, including the transfer of their rows, took longer than {} ms and were stopped; \
         nothing was changed",
        time.as_millis()
    );
    Problem::new(axum::http::StatusCode::UNPROCESSABLE_ENTITY, "time-limit", detail)
}

/// Returns the problem of a writer that was stopped after its statement was committed.
pub fn cut(time: std::time::Duration) -> Problem {
    let detail = format!(
        "the statement is committed, but not all of its rows were sent within {} ms; do not run it again: \
         read the rows with a SELECT",
        time.as_millis()
    );
    Problem::new(axum::http::StatusCode::UNPROCESSABLE_ENTITY, "committed", detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::pipe::pipe;
    use std::time::{Duration, Instant};

    fn written(format: Format, write: impl FnOnce(&mut Results)) -> Vec<u8> {
        let (writer, mut reader) = pipe(Instant::now() + Duration::from_secs(20));
        let mut results = Results::new(format, writer);
        write(&mut results);
        results.finish(Ok(()));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut all = Vec::new();
        while let Some(piece) = runtime.block_on(reader.next()) {
            all.extend_from_slice(&piece.unwrap());
        }
        all
    }

    #[test]
    fn texts_are_the_json_that_others_read() {
        let all: String = (0..0x300).filter_map(char::from_u32).collect();
        let read = written(Format::Ndjson, |results| results.string(all.as_bytes()).unwrap());
        let line = read.strip_suffix(b"{\"done\":true}\n").unwrap();
        assert_eq!(serde_json::from_slice::<String>(line).unwrap(), all);
    }

    #[test]
    fn each_format_is_well_formed_without_rows() {
        let nothing = |format| String::from_utf8(written(format, |_| {})).unwrap();
        assert_eq!(nothing(Format::Json), "{\"results\":[]}\n");
        assert_eq!(nothing(Format::Csv), "");
        let columns = ["a".to_owned(), "b,".to_owned()];
        let no_rows = |format| {
            let all = written(format, |results| {
                results.begin(&columns).unwrap();
                results.end(0);
            });
            String::from_utf8(all).unwrap()
        };
        assert_eq!(no_rows(Format::Json), "{\"results\":[{\"columns\":[\"a\",\"b,\"],\"rows\":[]}]}\n");
        assert_eq!(no_rows(Format::Csv), "a,\"b,\"\n");
        assert_eq!(no_rows(Format::Ndjson), "{\"columns\":[\"a\",\"b,\"]}\n{\"rows\":0}\n{\"done\":true}\n");
    }
}
