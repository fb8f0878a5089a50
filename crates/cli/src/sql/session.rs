//! Where statements run: in this process, or on a server.

use super::remote;
use super::script::failure;
use crate::failure::Outcome;
use crate::output::Cell;
use crate::remote::Remote;
use sql::{Connection, ValueRef};

/// What takes the rows of a statement.
pub trait Receiver {
    /// Takes the names of the columns, before the first row. It is not called for a statement that has no rows.
    fn columns(&mut self, names: &[String]) -> Outcome;

    /// Takes a row, a cell for each column.
    fn row(&mut self, cells: &[Cell<'_>]) -> Outcome;
}

/// Where statements run.
pub enum Session {
    /// On a connection of this process.
    Here(Connection),
    /// On a server. Each statement is one request, and therefore one transaction.
    There { remote: Remote, read_only: bool },
}

impl Session {
    /// Runs a statement. Returns how many rows it changed.
    pub fn run(&self, sql: &str, to: &mut dyn Receiver) -> Outcome<u64> {
        match self {
            Session::Here(connection) => run_here(connection, sql, to),
            Session::There { remote, read_only } => remote::run(remote, *read_only, sql, to),
        }
    }

    /// Runs a statement of few rows, and returns them as texts: a null is an empty one.
    pub fn texts(&self, sql: &str) -> Outcome<Vec<Vec<String>>> {
        let mut texts = Texts(Vec::new());
        self.run(sql, &mut texts)?;
        Ok(texts.0)
    }

    /// Returns the connection if it is one of this process.
    pub fn connection(&self) -> Option<&Connection> {
        match self {
            Session::Here(connection) => Some(connection),
            Session::There { .. } => None,
        }
    }

    /// Returns the names of tables, views and columns, sorted.
    pub fn names(&self) -> Vec<String> {
        let tables = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') \
                      UNION SELECT c.name FROM sqlite_schema t, pragma_table_info(t.name) c \
                      WHERE t.type IN ('table', 'view') ORDER BY 1";
        self.texts(tables).unwrap_or_default().into_iter().flatten().collect()
    }
}

fn run_here(connection: &Connection, sql: &str, to: &mut dyn Receiver) -> Outcome<u64> {
    let mut statement = connection.prepare(sql).map_err(failure)?;
    let mut rows = statement.query(&[]).map_err(failure)?;
    if rows.columns().is_empty() {
        return Ok(rows.changes());
    }
    let names = rows.columns().to_vec();
    let mut is_first = true;
    loop {
        let row = rows.next().map_err(failure)?;
        // After the first row: a statement that fails before it shows no header.
        if std::mem::take(&mut is_first) {
            to.columns(&names)?;
        }
        let Some(row) = row else { return Ok(0) };
        let cells: Vec<Cell<'_>> = (0..row.len()).map(|column| cell(row.get(column))).collect();
        to.row(&cells)?;
    }
}

/// Returns a value as a cell.
pub fn cell(value: ValueRef<'_>) -> Cell<'_> {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(number) => Cell::Integer(number),
        ValueRef::Real(number) => Cell::Real(number),
        ValueRef::Text(text) => Cell::Bytes(text),
        ValueRef::Blob(bytes) => Cell::Blob(bytes),
    }
}

/// Keeps rows as texts.
struct Texts(Vec<Vec<String>>);

impl Receiver for Texts {
    fn columns(&mut self, _: &[String]) -> Outcome {
        Ok(())
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> Outcome {
        let text = |cell: &Cell<'_>| match cell {
            Cell::Null => String::new(),
            Cell::Integer(number) => number.to_string(),
            Cell::Number(number) => number.to_string(),
            Cell::Real(number) => number.to_string(),
            Cell::Bytes(bytes) | Cell::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        };
        self.0.push(cells.iter().map(text).collect());
        Ok(())
    }
}

/// Takes no rows.
pub struct Nothing;

impl Receiver for Nothing {
    fn columns(&mut self, _: &[String]) -> Outcome {
        Ok(())
    }

    fn row(&mut self, _: &[Cell<'_>]) -> Outcome {
        Ok(())
    }
}
