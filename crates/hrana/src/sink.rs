//! What takes the results of statements while they run.

use crate::failure::{Failure, Outcome};
use crate::value::{write, write_text};
use sql::{ColumnInfo, ValueRef};
use std::io::Write as _;

/// Takes the results of statements: for each its columns, each row and its end; or that it failed, or was skipped.
pub(crate) trait Sink {
    /// Takes the columns of the statement at place `step` of a batch.
    fn begin(&mut self, step: usize, columns: &[ColumnInfo]) -> Outcome<()>;

    /// Takes a row. With `may_refuse`, an error leaves nothing changed, because the statement only reads.
    fn row<'v>(&mut self, values: impl Iterator<Item = ValueRef<'v>>, may_refuse: bool) -> Outcome<()>;

    /// Takes how many rows were changed, and the id of the row that the connection inserted last.
    fn end(&mut self, changes: u64, last_row_id: i64) -> Outcome<()>;

    /// Takes the failure of a step, of which a part may have been taken.
    fn fail(&mut self, step: usize, failure: Failure);

    /// Notes that a step is skipped.
    fn skip(&mut self);

    /// Refuses a statement that returns rows if there is no room for them.
    fn check_room(&self) -> Outcome<()>;
}

/// Writes columns as an array.
pub(crate) fn write_columns(columns: &[ColumnInfo], out: &mut Vec<u8>) {
    out.push(b'[');
    for (place, column) in columns.iter().enumerate() {
        out.extend_from_slice(if place > 0 { br#",{"name":"# } else { br#"{"name":"# });
        write_text(&column.name, out);
        out.extend_from_slice(br#","decltype":"#);
        match &column.declared {
            Some(declared) => write_text(declared, out),
            None => out.extend_from_slice(b"null"),
        }
        out.push(b'}');
    }
    out.push(b']');
}

/// Writes a row as an array; `hand_on` is called after each value, and within long ones.
pub(crate) fn write_row<'v>(
    values: impl Iterator<Item = ValueRef<'v>>,
    out: &mut Vec<u8>,
    mut hand_on: impl FnMut(&mut Vec<u8>) -> Outcome<()>,
) -> Outcome<()> {
    out.push(b'[');
    for (place, value) in values.enumerate() {
        if place > 0 {
            out.push(b',');
        }
        write(value, out, &mut hand_on)?;
        hand_on(out)?;
    }
    out.push(b']');
    Ok(())
}

/// Writes the members that end a result. A connection that inserted nothing has no last row.
pub(crate) fn write_end(changes: u64, last_row_id: i64, out: &mut Vec<u8>) {
    let _ = match last_row_id {
        0 => write!(out, r#""affected_row_count":{changes},"last_insert_rowid":null"#),
        id => write!(out, r#""affected_row_count":{changes},"last_insert_rowid":"{id}""#),
    };
}
