//! The reply to a cursor: a line with the baton, then a line for each part of a result, handed on in pieces.
//!
//! 1. A piece ends with a whole line, unless a line is longer than a piece.
//! 2. A piece that is refused is kept, because more lines follow it: the failure of the step, and what later steps say.
//!    The row in whose middle the refusal came is taken back. If its beginning was sent already, that line ends there,
//!    and is the only one that is not JSON.

use crate::failure::{Failure, Outcome};
use crate::sink::{Sink, write_columns, write_end, write_row};
use serde_json::json;
use sql::{ColumnInfo, ValueRef};
use std::fmt;
use std::io::Write as _;

/// The length from which a piece is handed on.
const PIECE_BYTES: usize = 64 << 10;

/// The reply to a cursor.
pub struct Lines {
    piece: Vec<u8>,
    /// Whether the last piece that was sent ended within a line.
    is_within_line: bool,
    send: Box<Sender>,
}

/// Hands a piece on, or gives it back.
type Sender = dyn FnMut(Vec<u8>) -> Result<(), Vec<u8>> + Send;

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lines")
    }
}

impl Lines {
    /// Begins a reply with the baton that the stream has afterwards. `send` hands a piece on, and gives it back as the
    /// error if no further piece is wanted.
    pub fn new(
        baton: Option<&str>,
        send: impl FnMut(Vec<u8>) -> Result<(), Vec<u8>> + Send + 'static,
    ) -> Self {
        let mut piece = json!({ "baton": baton, "base_url": null }).to_string().into_bytes();
        piece.push(b'\n');
        Lines { piece, is_within_line: false, send: Box::new(send) }
    }

    /// Returns the last piece.
    pub fn finish(self) -> Vec<u8> {
        self.piece
    }

    /// Writes the failure of the whole batch, which is the last line.
    pub(crate) fn fail_all(&mut self, failure: &Failure) {
        self.end_line();
        let _ = writeln!(self.piece, "{}", json!({ "type": "error", "error": failure.to_json() }));
    }

    /// Takes back a line that is not complete, or ends it if its beginning was sent.
    fn end_line(&mut self) {
        let whole_bytes = whole_lines(&self.piece);
        self.piece.truncate(whole_bytes);
        if whole_bytes == 0 && std::mem::take(&mut self.is_within_line) {
            self.piece.push(b'\n');
        }
    }
}

/// Returns the length of the whole lines at the beginning of `piece`.
fn whole_lines(piece: &[u8]) -> usize {
    piece.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)
}

/// Hands a piece on if it is full.
fn hand_on(piece: &mut Vec<u8>, is_within_line: &mut bool, send: &mut Sender) -> Outcome<()> {
    if piece.len() < PIECE_BYTES {
        return Ok(());
    }
    let rest = match whole_lines(piece) {
        // A line that is longer than a piece goes on in the next one.
        0 => Vec::new(),
        whole_bytes => piece.split_off(whole_bytes),
    };
    let ends_within_line = !piece.ends_with(b"\n");
    match send(std::mem::replace(piece, rest)) {
        Ok(()) => {
            *is_within_line = ends_within_line;
            Ok(())
        }
        Err(mut refused) => {
            refused.append(piece);
            *piece = refused;
            Err(Failure::new(
                "SQLITE_INTERRUPT",
                "the statements, including the transfer of their rows, took too long and were stopped",
            ))
        }
    }
}

impl Sink for Lines {
    fn begin(&mut self, step: usize, columns: &[ColumnInfo]) -> Outcome<()> {
        let _ = write!(self.piece, r#"{{"type":"step_begin","step":{step},"cols":"#);
        write_columns(columns, &mut self.piece);
        self.piece.extend_from_slice(b"}\n");
        hand_on(&mut self.piece, &mut self.is_within_line, &mut *self.send)
    }

    fn row<'v>(&mut self, values: impl Iterator<Item = ValueRef<'v>>, _may_refuse: bool) -> Outcome<()> {
        let Lines { piece, is_within_line, send } = self;
        piece.extend_from_slice(br#"{"type":"row","row":"#);
        write_row(values, piece, |piece| hand_on(piece, is_within_line, &mut **send))?;
        piece.extend_from_slice(b"}\n");
        Ok(())
    }

    fn end(&mut self, changes: u64, last_row_id: i64) -> Outcome<()> {
        self.piece.extend_from_slice(br#"{"type":"step_end","#);
        write_end(changes, last_row_id, &mut self.piece);
        self.piece.extend_from_slice(b"}\n");
        Ok(())
    }

    fn fail(&mut self, step: usize, failure: Failure) {
        self.end_line();
        let entry = json!({ "type": "step_error", "step": step, "error": failure.to_json() });
        let _ = writeln!(self.piece, "{entry}");
    }

    fn skip(&mut self) {}

    fn check_room(&self) -> Outcome<()> {
        Ok(())
    }
}
