//! Changes as lines of JSON, one for each operation, and one for the end of each commit.
//!
//! ```json
//! {"commit":7,"op":"put","table":"fruit","key":"apple","value":"red"}
//! {"commit":7,"op":"commit","time_ms":1767225600000,"operations":1}
//! ```
//! Keys and values that are not text are written under their name with the suffix `_hex`. A value of more than
//! [`LONGEST_BYTES`] is left out, and `value_bytes` gives its length. The memory of a line is therefore bounded.

use crate::wire::digits::write_digits;
use crate::wire::form::{without_cut_character, write_escaped};
use pando::changes::{ChangeValue, TableChange, TableInfo};
use pando::{Change, Operation};
use std::io::Write as _;

/// The longest value that a line holds, in bytes.
pub const LONGEST_BYTES: u64 = 1 << 20;

/// The error that ended the lines before their change ended.
#[derive(Debug)]
pub enum Ended<E> {
    /// The change could not be read.
    Unread(pando::Error),
    /// The lines could not be written.
    Unwritten(E),
}

impl<E> From<pando::Error> for Ended<E> {
    fn from(error: pando::Error) -> Self {
        Ended::Unread(error)
    }
}

/// Calls `write` on each line of `change`, without its line feed, and with whether the line is the last one, that of
/// the commit.
///
/// ```
/// # fn main() -> pando::Result<()> {
/// let db = pando::Database::builder().in_memory()?;
/// let mut changes = db.changes(0)?;
/// let fruit = db.ensure_table("fruit")?;
/// db.put(&fruit, b"apple", b"red")?;
/// changes.next()?;
/// let change = changes.next()?.expect("the put");
/// let mut lines = Vec::new();
/// pando_server::change_lines(&change, |line, _is_last| -> Result<(), ()> {
///     lines.push(String::from_utf8_lossy(line).into_owned());
///     Ok(())
/// })
/// .unwrap();
/// assert_eq!(lines[0], r#"{"commit":2,"op":"put","table":"fruit","key":"apple","value":"red"}"#);
/// assert!(lines[1].starts_with(r#"{"commit":2,"op":"commit","time_ms":"#));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// An error of reading the change or of `write`.
pub fn change_lines<E>(
    change: &Change<'_>,
    write: impl FnMut(&[u8], bool) -> Result<(), E>,
) -> Result<(), Ended<E>> {
    cut_change_lines(change, None, write)
}

/// Calls `write` on each line of `change`, as [`change_lines`] does, with at most `most_bytes` of each value. A longer
/// value has its length as `value_bytes`.
pub(crate) fn cut_change_lines<E>(
    change: &Change<'_>,
    most_bytes: Option<u64>,
    write: impl FnMut(&[u8], bool) -> Result<(), E>,
) -> Result<(), Ended<E>> {
    let each = |operation: Operation<'_>, line: &mut Vec<u8>| {
        write_operation(operation, most_bytes, line)?;
        Ok(true)
    };
    lines_of(change, true, each, write).map(drop)
}

/// Calls `write` on a line for each operation for which `each` writes members of an object and returns true, and then
/// on that of the commit: without any other line only if `has_empty`. Returns whether there was a line.
pub(super) fn lines_of<E>(
    change: &Change<'_>,
    has_empty: bool,
    mut each: impl FnMut(Operation<'_>, &mut Vec<u8>) -> pando::Result<bool>,
    mut write: impl FnMut(&[u8], bool) -> Result<(), E>,
) -> Result<bool, Ended<E>> {
    let (mut line, mut count) = (Vec::new(), 0_u64);
    let mut operations = change.operations()?;
    while let Some(operation) = operations.next()? {
        line.clear();
        let _ = write!(line, "{{\"commit\":{},\"op\":", change.commit_number());
        if each(operation, &mut line)? {
            line.push(b'}');
            count += 1;
            write(&line, false).map_err(Ended::Unwritten)?;
        }
    }
    if count == 0 && !has_empty {
        return Ok(false);
    }
    line.clear();
    let (commit, time_ms) = (change.commit_number(), change.time_ms());
    let _ = write!(line, "{{\"commit\":{commit},\"op\":\"commit\"");
    if let Some(time_ms) = time_ms {
        let _ = write!(line, ",\"time_ms\":{time_ms}");
    }
    let _ = write!(line, ",\"operations\":{count}}}");
    write(&line, true).map_err(Ended::Unwritten)?;
    Ok(true)
}

pub(super) fn write_operation(
    operation: Operation<'_>,
    most_bytes: Option<u64>,
    line: &mut Vec<u8>,
) -> pando::Result<()> {
    match operation {
        Operation::Table(change) => write_table_change(change, line),
        Operation::Put { table, key, value } => {
            begin("put", table.name(), line);
            member("key", key, line);
            write_value(value, table.has_ttl_by_key(), most_bytes, line)?;
        }
        Operation::Delete { table, key } => {
            begin("delete", table.name(), line);
            member("key", key, line);
        }
        Operation::DeleteRange { table, start, end } => {
            begin("delete_range", table.name(), line);
            member("start", start, line);
            if let Some(end) = end {
                member("end", end, line);
            }
        }
    }
    Ok(())
}

/// Writes at most `most_bytes` of a value, and the time at which it was put, or with `by_key` expires.
fn write_value(
    value: ChangeValue<'_>,
    by_key: bool,
    most_bytes: Option<u64>,
    line: &mut Vec<u8>,
) -> pando::Result<()> {
    write_date(&value, by_key, line);
    match value.inline() {
        _ if value.len_bytes() > LONGEST_BYTES => {
            let _ = write!(line, ",\"value_bytes\":{}", value.len_bytes());
        }
        Some(value) => write_beginning(value, most_bytes, line),
        None => write_beginning(&value.to_vec()?, most_bytes, line),
    }
    Ok(())
}

/// Writes the time at which a value was put, or with `by_key` expires, if its table has a TTL.
pub(super) fn write_date(value: &ChangeValue<'_>, by_key: bool, line: &mut Vec<u8>) {
    match value.date_ms() {
        Some(u64::MAX) if by_key => {}
        Some(expires_ms) if by_key => drop(write!(line, ",\"expires_ms\":{expires_ms}")),
        Some(put_ms) => drop(write!(line, ",\"put_ms\":{put_ms}")),
        None => {}
    }
}

fn write_beginning(value: &[u8], most_bytes: Option<u64>, line: &mut Vec<u8>) {
    match most_bytes.filter(|most| value.len() as u64 > *most) {
        None => member("value", value, line),
        Some(most) => {
            member("value", without_cut_character(&value[..most as usize]), line);
            let _ = write!(line, ",\"value_bytes\":{}", value.len());
        }
    }
}

fn write_table_change(change: &TableChange, line: &mut Vec<u8>) {
    match change {
        TableChange::Created(table) => {
            begin("create_table", table.name(), line);
            write_options(table, line);
        }
        TableChange::Dropped { name, .. } => begin("drop_table", name, line),
        TableChange::Renamed { from, table } => {
            begin("rename_table", table.name(), line);
            member("from", from.as_bytes(), line);
            write_options(table, line);
        }
        TableChange::Altered(table) => {
            begin("alter_table", table.name(), line);
            write_options(table, line);
        }
    }
}

fn write_options(table: &TableInfo, line: &mut Vec<u8>) {
    let _ = write!(line, ",\"layout\":\"{}\",\"compression\":\"{}\"", table.layout(), table.compression());
    if let Some(ttl) = table.ttl() {
        let _ = write!(line, ",\"ttl_ms\":{}", ttl.as_millis());
    }
    if table.has_ttl_by_key() {
        line.extend_from_slice(b",\"ttl_by_key\":true");
    }
}

pub(super) fn begin(op: &str, table: &str, line: &mut Vec<u8>) {
    let _ = write!(line, "\"{op}\"");
    member("table", table.as_bytes(), line);
}

/// Writes a member that holds text, or hexadecimal digits under another name.
pub(super) fn member(name: &str, bytes: &[u8], line: &mut Vec<u8>) {
    if std::str::from_utf8(bytes).is_ok() {
        let _ = write!(line, ",\"{name}\":\"");
        write_escaped(bytes, line);
    } else {
        let _ = write!(line, ",\"{name}_hex\":\"");
        write_digits(bytes, line);
    }
    line.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use pando::{Database, Layout, TableOptions};
    use std::time::Duration;

    #[test]
    fn every_line_is_an_object_that_says_what_was_done() -> pando::Result<()> {
        let db = Database::builder().in_memory()?;
        let mut changes = db.changes(0)?;
        let options = TableOptions::with_layout(Layout::Lsm).ttl(Duration::from_secs(9));
        let table = db.create_table("a \"b\"", &options)?;
        db.write(|tx| {
            tx.put(&table, b"k\n", b"\xff\x00")?;
            tx.put(&table, b"long", vec![7; (1 << 20) + 1])?;
            tx.delete(&table, b"\xfe")?;
            tx.delete_range(&table, "x".."y")
        })?;
        db.write(|tx| tx.rename_table(&table, "t").map(drop))?;
        let mut lines = Vec::new();
        while let Some(change) = changes.next()? {
            let keep =
                |line: &[u8], _| serde_json::from_slice(line).map(|line: serde_json::Value| lines.push(line));
            change_lines(&change, keep).expect("every line is JSON");
        }
        let ops: Vec<_> = lines.iter().map(|line| line["op"].as_str().unwrap()).collect();
        let expected = [
            "create_table",
            "commit",
            "delete_range",
            "put",
            "put",
            "delete",
            "commit",
            "rename_table",
            "commit",
        ];
        assert_eq!(ops, expected);
        assert_eq!((&lines[0]["table"], &lines[0]["ttl_ms"]), (&"a \"b\"".into(), &9000.into()));
        assert_eq!((&lines[2]["start"], &lines[2]["end"]), (&"x".into(), &"y".into()));
        assert_eq!((&lines[3]["key"], &lines[3]["value_hex"]), (&"k\n".into(), &"ff00".into()));
        assert!(lines[3]["put_ms"].as_u64() > Some(1_600_000_000_000));
        assert_eq!((&lines[4]["value_bytes"], lines[4].get("value")), (&((1 << 20) + 1).into(), None));
        assert_eq!(lines[5]["key_hex"], "fe");
        assert_eq!((&lines[6]["operations"], &lines[6]["commit"]), (&4.into(), &2.into()));
        assert_eq!((&lines[7]["from"], &lines[7]["table"]), (&"a \"b\"".into(), &"t".into()));
        Ok(())
    }

    #[test]
    fn a_longer_value_has_its_beginning_and_its_length() -> pando::Result<()> {
        let db = Database::builder().in_memory()?;
        let table = db.ensure_table("t")?;
        let mut changes = db.changes(1)?;
        db.write(|tx| {
            tx.put(&table, b"a", "aä€")?;
            tx.put(&table, b"b", b"ab")?;
            tx.put(&table, b"c", vec![b'x'; 600_000])
        })?;
        let change = changes.next()?.expect("the puts");
        let mut lines = Vec::new();
        let keep =
            |line: &[u8], _| serde_json::from_slice(line).map(|line: serde_json::Value| lines.push(line));
        cut_change_lines(&change, Some(4), keep).expect("every line is JSON");
        assert_eq!((&lines[0]["value"], &lines[0]["value_bytes"]), (&"aä".into(), &6.into()));
        assert_eq!((&lines[1]["value"], lines[1].get("value_bytes")), (&"ab".into(), None));
        assert_eq!((&lines[2]["value"], &lines[2]["value_bytes"]), (&"xxxx".into(), &600_000.into()));
        Ok(())
    }
}
