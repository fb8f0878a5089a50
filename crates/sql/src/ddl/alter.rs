//! `ALTER TABLE` of a typed table: SQLite runs it on an empty table of the same definition, and the difference is made.

use super::{Ddl, Scratch, enforces_foreign_keys, is_reserved, reserved};
use crate::catalog::{Catalog, SqlTable};
use crate::column::{ColumnNote, TableNote};
use crate::connection::Connection;
use crate::error::{Error, Result};
use pando::any::AnyTransaction;
use rows::{Column, DynamicTable};

/// One change of a typed table.
pub(super) enum Alteration {
    Rename(String),
    RenameColumn(String, String),
    AddColumn(Column),
    DropColumn(String),
    Note(String),
}

impl Alteration {
    /// Returns whether it adds a column whose default is not the same for all rows, so that existing rows would lack
    /// it.
    pub fn leaves_rows_without(&self) -> bool {
        let Alteration::AddColumn(column) = self else { return false };
        let note: ColumnNote = serde_json::from_str(column.note_text()).unwrap_or_default();
        let is_null = |default: String| default.trim().eq_ignore_ascii_case("NULL");
        column.default_value().is_none() && note.default.is_some_and(|default| !is_null(default))
    }

    /// Returns whether a name that a view or a trigger can use is gone after it.
    pub fn takes_a_name_away(&self) -> bool {
        matches!(self, Alteration::Rename(_) | Alteration::RenameColumn(..) | Alteration::DropColumn(_))
    }

    pub fn apply(&self, rows: DynamicTable, tx: &mut AnyTransaction) -> Result<DynamicTable> {
        Ok(match self {
            Alteration::Rename(name) => rows.rename(tx, name)?,
            Alteration::RenameColumn(old, new) => rows.rename_column(tx, old, new)?,
            Alteration::AddColumn(column) => rows.add_column(tx, column.clone())?,
            Alteration::DropColumn(name) => rows.drop_column(tx, name)?,
            Alteration::Note(note) => rows.set_note(tx, note)?,
        })
    }
}

/// The name of the only table, beside the one that SQLite makes for `AUTOINCREMENT`.
const RENAMED: &str = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'sqlite_sequence'";

/// Returns the changes of an `ALTER TABLE`: the differences of the table after SQLite has run it.
pub(super) fn alter(
    connection: &Connection,
    ddl: &Ddl,
    table: &SqlTable,
    catalog: &Catalog,
) -> Result<Vec<Alteration>> {
    let scratch = Scratch::with(table)?;
    scratch.run(&ddl.sql)?;
    let name: String = scratch.0.query_row(RENAMED, [], |row| row.get(0))?;
    let mut read = scratch.read_table(&name)?;
    read.refuse_left_out()?;
    if enforces_foreign_keys(connection)? {
        read.refuse_foreign_keys(table.note.foreign_keys.len())?;
    }
    read.refuse_too_wide()?;
    let mut changes = Vec::new();
    if name != table.name() {
        if is_reserved(&name) {
            return Err(reserved(&name));
        }
        if catalog.find(&name).is_some_and(|other| other.name() != table.name()) {
            return Err(Error::new(format!(
                "there is already another table or index with this name: {name}"
            )));
        }
        changes.push(Alteration::Rename(name));
    }
    let before: Vec<_> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let after: Vec<_> = read.columns.iter().map(|column| column.name().to_owned()).collect();
    if after.len() > before.len() {
        changes.push(Alteration::AddColumn(read.columns.swap_remove(before.len())));
    } else if let Some(at) = (0..before.len()).find(|&at| after.get(at).is_none_or(|name| name != before[at]))
    {
        changes.push(match after.len() < before.len() {
            true => Alteration::DropColumn(before[at].to_owned()),
            false => Alteration::RenameColumn(before[at].to_owned(), after[at].clone()),
        });
    }
    let note = TableNote { row_id: table.note.row_id, ..read.note };
    let as_text = |note: &TableNote| serde_json::to_string(note).expect("a note is plain data");
    if as_text(&note) != as_text(&table.note) {
        changes.push(Alteration::Note(as_text(&note)));
    }
    Ok(changes)
}
