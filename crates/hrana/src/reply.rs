//! The reply to a pipeline, in memory and bounded.
//!
//! 1. A statement that only reads fails with `RESPONSE_TOO_LARGE` at the row that would exceed the bound.
//! 2. A statement that writes has taken effect when its rows arrive, so these are always written; the connection bounds
//!    them. Once the bound is reached, no further statement that returns rows begins.
//! 3. What a failed statement has written is taken back.

use crate::failure::{Failure, Outcome};
use crate::sink::{Sink, write_columns, write_end, write_row};
use crate::value::write_text;
use sql::{ColumnInfo, ValueRef};
use std::fmt;

/// The reply to a pipeline.
pub struct Reply {
    bytes: Vec<u8>,
    most_bytes: usize,
    /// Reserves memory for a reply of so many bytes.
    reserve: Box<dyn FnMut(usize) -> bool + Send>,
    /// The bytes for which memory was reserved last.
    reserved_bytes: usize,
    /// Whether rows or results were written in the innermost array.
    needs_comma: bool,
    /// The failures of the steps of the batch that is running.
    steps: Vec<Option<Failure>>,
    /// The length before the step that is running.
    step_start: usize,
}

/// The step in which memory is reserved.
const RESERVED_BYTES: usize = 64 << 10;

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl Reply {
    /// Begins a reply of about `most_bytes`. `reserve` is called with lengths that the reply is going to have, and
    /// returns false if there is no memory for that.
    pub fn new(most_bytes: usize, reserve: impl FnMut(usize) -> bool + Send + 'static) -> Self {
        Reply {
            bytes: br#"{"results":["#.to_vec(),
            most_bytes,
            reserve: Box::new(reserve),
            reserved_bytes: 0,
            needs_comma: false,
            steps: Vec::new(),
            step_start: 0,
        }
    }

    /// Returns the body. Without a baton, the stream is closed.
    pub fn finish(mut self, baton: Option<&str>) -> Vec<u8> {
        self.bytes.extend_from_slice(br#"],"base_url":null,"baton":"#);
        match baton {
            Some(baton) => write_text(baton, &mut self.bytes),
            None => self.bytes.extend_from_slice(b"null"),
        }
        self.bytes.push(b'}');
        self.bytes
    }

    /// Writes the result of one request: a response of this `kind`, with the members that `write` adds, or an error.
    pub(crate) fn respond(&mut self, kind: &str, write: impl FnOnce(&mut Self) -> Outcome<()>) {
        let start = self.bytes.len();
        let comma = if start > br#"{"results":["#.len() { "," } else { "" };
        self.push(&format!(r#"{comma}{{"type":"ok","response":{{"type":"{kind}""#));
        match write(self) {
            Ok(()) => self.push("}}"),
            Err(failure) => {
                self.bytes.truncate(start);
                self.push(&format!(r#"{comma}{{"type":"error","error":{}}}"#, failure.to_json()));
            }
        }
    }

    /// Writes the result of the only statement of a request.
    pub(crate) fn alone(&mut self, run: impl FnOnce(&mut Self) -> Outcome<()>) -> Outcome<()> {
        self.steps.clear();
        run(self)
    }

    /// Writes the results of a batch, whose steps `run` runs.
    pub(crate) fn batch(&mut self, run: impl FnOnce(&mut Self) -> Outcome<()>) -> Outcome<()> {
        self.push(r#","result":{"step_results":["#);
        (self.steps, self.step_start) = (Vec::new(), self.bytes.len());
        run(self)?;
        self.push(r#"],"step_errors":["#);
        for (place, failure) in std::mem::take(&mut self.steps).into_iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            let failure = failure.map_or("null".to_owned(), |failure| failure.to_json().to_string());
            self.push(&format!("{comma}{failure}"));
        }
        self.push("]}");
        Ok(())
    }

    /// Writes text.
    pub(crate) fn push(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn comma_of_step(&mut self) {
        if !self.steps.is_empty() {
            self.bytes.push(b',');
        }
    }

    fn step_ended(&mut self, failure: Option<Failure>) {
        self.steps.push(failure);
        self.step_start = self.bytes.len();
    }
}

fn too_large(most_bytes: usize) -> Failure {
    Failure::new(
        "RESPONSE_TOO_LARGE",
        format!(
            "the response to a pipeline has at most {most_bytes} bytes: ask for fewer rows, or use a cursor"
        ),
    )
}

/// Takes the result of an `execute`, or of the steps of a batch.
impl Sink for Reply {
    fn begin(&mut self, _step: usize, columns: &[ColumnInfo]) -> Outcome<()> {
        self.comma_of_step();
        self.push(r#"{"cols":"#);
        write_columns(columns, &mut self.bytes);
        self.push(r#","rows":["#);
        self.needs_comma = false;
        Ok(())
    }

    fn row<'v>(&mut self, values: impl Iterator<Item = ValueRef<'v>>, may_refuse: bool) -> Outcome<()> {
        if std::mem::replace(&mut self.needs_comma, true) {
            self.bytes.push(b',');
        }
        let Reply { bytes, most_bytes, reserve, reserved_bytes, .. } = self;
        write_row(values, bytes, |out| {
            if may_refuse && out.len() > *most_bytes {
                return Err(too_large(*most_bytes));
            }
            while *reserved_bytes < out.len() {
                *reserved_bytes += RESERVED_BYTES;
                if !reserve(*reserved_bytes) && may_refuse {
                    return Err(Failure::new(
                        "SERVER_BUSY",
                        "responses that clients have not read yet fill the memory reserved for them",
                    ));
                }
            }
            Ok(())
        })
    }

    fn end(&mut self, changes: u64, last_row_id: i64) -> Outcome<()> {
        self.push("],");
        write_end(changes, last_row_id, &mut self.bytes);
        self.push("}");
        self.step_ended(None);
        Ok(())
    }

    fn fail(&mut self, _step: usize, failure: Failure) {
        self.bytes.truncate(self.step_start);
        self.comma_of_step();
        self.push("null");
        self.step_ended(Some(failure));
    }

    fn skip(&mut self) {
        self.comma_of_step();
        self.push("null");
        self.step_ended(None);
    }

    fn check_room(&self) -> Outcome<()> {
        if self.bytes.len() > self.most_bytes { Err(too_large(self.most_bytes)) } else { Ok(()) }
    }
}
