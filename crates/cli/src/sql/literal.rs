//! Values and names in the words of SQL.

use crate::output::Cell;
use crate::text;
use std::io::{self, Write};

/// Returns a text as a literal of SQL.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Returns the condition that a name matches a pattern, if there is one.
pub fn matches(column: &str, pattern: Option<&str>) -> String {
    pattern.map_or("1".to_owned(), |pattern| format!("{column} LIKE {}", literal(pattern)))
}

/// Writes values as literals of SQL.
pub fn write_literals(out: &mut impl Write, cells: &[Cell<'_>], separator: &str) -> io::Result<()> {
    for (index, cell) in cells.iter().enumerate() {
        if index > 0 {
            out.write_all(separator.as_bytes())?;
        }
        write_literal(out, *cell)?;
    }
    Ok(())
}

fn write_literal(out: &mut impl Write, cell: Cell<'_>) -> io::Result<()> {
    match cell {
        Cell::Null => out.write_all(b"NULL"),
        Cell::Number(number) => write!(out, "{number}"),
        Cell::Integer(number) => write!(out, "{number}"),
        Cell::Real(number) if number.is_nan() => out.write_all(b"NULL"),
        Cell::Real(number) if number.is_infinite() => {
            out.write_all(if number > 0.0 { b"9e999" } else { b"-9e999" })
        }
        Cell::Real(number) => write_real(out, number),
        Cell::Bytes(bytes) if bytes.contains(&0) || std::str::from_utf8(bytes).is_err() => {
            write!(out, "CAST(X'{}' AS TEXT)", text::to_hex(bytes))
        }
        Cell::Bytes(bytes) => {
            out.write_all(b"'")?;
            for piece in bytes.split_inclusive(|&byte| byte == b'\'') {
                out.write_all(piece)?;
                if piece.ends_with(b"'") {
                    out.write_all(b"'")?;
                }
            }
            out.write_all(b"'")
        }
        Cell::Blob(bytes) => write!(out, "X'{}'", text::to_hex(bytes)),
    }
}

/// Writes a float so that SQLite reads the same one: the shortest digits if they are few, or else as many as SQLite
/// writes, because it may round the shortest ones in another way.
fn write_real(out: &mut impl Write, number: f64) -> io::Result<()> {
    const EXACT_DIGITS: usize = 15;
    let short = format!("{number:?}");
    let mantissa = short.split('e').next().unwrap_or_default();
    let digits = mantissa.chars().filter(char::is_ascii_digit).skip_while(|&digit| digit == '0').count();
    if digits <= EXACT_DIGITS { out.write_all(short.as_bytes()) } else { write!(out, "{number:.20e}") }
}

/// Returns a name in quotes.
pub fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
