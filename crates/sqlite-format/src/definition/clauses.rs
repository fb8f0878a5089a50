//! The clauses of a `CREATE TABLE`: columns, their constraints, and constraints of the table.

use super::reader::Reader;
use super::{Column, Generated, Key, Part, Table, Understood, not_understood};
use crate::key::{Collation, Order};

/// What was read of a `CREATE TABLE` so far.
#[derive(Default)]
pub(super) struct Clauses {
    columns: Vec<Column>,
    /// The primary key: names with their collation, if that is given, and whether they are descending.
    primary: Option<Vec<(String, Option<String>, bool)>>,
    /// Whether a single column of the primary key can stand for the rowid.
    may_be_rowid: bool,
}

impl Clauses {
    pub fn column(&mut self, reader: &mut Reader<'_>) -> Understood<()> {
        let name = reader.name()?;
        let declared = reader.declared_type()?;
        let (is_not_null, default, collation, generated) = (false, None, "BINARY".to_owned(), None);
        self.columns.push(Column { name, declared, is_not_null, default, collation, generated });
        while !reader.next_is_mark(',') && !reader.next_is_mark(')') {
            self.column_constraint(reader)?;
        }
        Ok(())
    }

    fn column_constraint(&mut self, reader: &mut Reader<'_>) -> Understood<()> {
        let column = self.columns.last_mut().expect("it was just pushed");
        let Some(token) = reader.next() else { return not_understood("its end is missing") };
        let is = |word: &str| token.is(word);
        if is("CONSTRAINT") {
            reader.name()?;
        } else if is("NOT") {
            if reader.take("DEFERRABLE") {
                return reader.skip_initially();
            }
            reader.expect("NULL")?;
            column.is_not_null = true;
            reader.skip_on_conflict()?;
        } else if is("NULL") {
            reader.skip_on_conflict()?;
        } else if is("DEFAULT") {
            column.default = Some(reader.default()?);
        } else if is("COLLATE") {
            column.collation = reader.name()?;
        } else if is("UNIQUE") {
            reader.skip_on_conflict()?;
        } else if is("CHECK") {
            reader.skip_group()?;
        } else if is("REFERENCES") {
            reader.skip_reference()?;
        } else if is("DEFERRABLE") {
            reader.skip_initially()?;
        } else if is("PRIMARY") {
            reader.expect("KEY")?;
            let descending = !reader.take("ASC") && reader.take("DESC");
            reader.skip_on_conflict()?;
            reader.take("AUTOINCREMENT");
            self.primary = Some(vec![(column.name.clone(), None, descending)]);
            self.may_be_rowid = !descending;
        } else if is("GENERATED") || is("AS") {
            if is("GENERATED") {
                reader.expect("ALWAYS")?;
                reader.expect("AS")?;
            }
            reader.skip_group()?;
            let is_stored = reader.take("STORED");
            if !is_stored {
                reader.take("VIRTUAL");
            }
            column.generated = Some(if is_stored { Generated::Stored } else { Generated::Virtual });
        } else {
            return not_understood(format!("{:?} in column {:?}", token.text, column.name));
        }
        Ok(())
    }

    pub fn table_constraint(&mut self, reader: &mut Reader<'_>) -> Understood<()> {
        let Some(token) = reader.next() else { return not_understood("its end is missing") };
        if token.is("CONSTRAINT") {
            reader.name()?;
        } else if token.is("PRIMARY") {
            reader.expect("KEY")?;
            self.primary = Some(reader.primary_parts()?);
            self.may_be_rowid = true;
            reader.skip_on_conflict()?;
        } else if token.is("UNIQUE") || token.is("CHECK") {
            reader.skip_group()?;
            reader.skip_on_conflict()?;
        } else if token.is("FOREIGN") {
            reader.expect("KEY")?;
            reader.skip_group()?;
            reader.expect("REFERENCES")?;
            reader.skip_reference()?;
        } else if token.is("NOT") {
            reader.expect("DEFERRABLE")?;
            reader.skip_initially()?;
        } else if token.is("DEFERRABLE") {
            reader.skip_initially()?;
        } else {
            return not_understood(format!("{:?} among its constraints", token.text));
        }
        Ok(())
    }

    pub fn finish(self, is_strict: bool, has_no_rowid: bool) -> Understood<Table> {
        let Clauses { columns, primary, may_be_rowid } = self;
        let mut table = Table { columns, key: Key::Rowid(None), is_strict };
        let mut parts = Vec::new();
        for (name, collation, descending) in primary.iter().flatten() {
            let Some(column) = table.place(name) else {
                return not_understood(format!("its primary key names {name:?}"));
            };
            let collation = collation.as_deref().unwrap_or(&table.columns[column].collation);
            parts.push((column, Collation::of_name(collation), *descending));
        }
        if !has_no_rowid {
            if let [(column, _, _)] = parts[..]
                && may_be_rowid
                && table.columns[column].declared.eq_ignore_ascii_case("INTEGER")
            {
                table.key = Key::Rowid(Some(column));
            }
            return Ok(table);
        }
        let mut key: Vec<Part> = Vec::new();
        for (column, collation, descending) in parts {
            let Some(collation) = collation else {
                return not_understood(format!("the collation of {:?}", table.columns[column].name));
            };
            match key.iter().find(|part| part.column == column) {
                Some(part) if part.order.collation == collation => {}
                Some(_) => return not_understood("a primary key with a column in two collations"),
                None => key.push(Part { column, order: Order { collation, descending } }),
            }
        }
        if key.is_empty() {
            return not_understood("a WITHOUT ROWID table without a primary key");
        }
        table.key = Key::Primary(key);
        Ok(table)
    }
}
