//! The clauses of a `CREATE TABLE`: columns, their constraints, and constraints of the table.

use super::reader::{Named, Reader};
use super::{Column, Generated, Index, Key, Part, Table, Understood, not_understood};
use crate::key::{Collation, Order};

/// What was read of a `CREATE TABLE` so far.
#[derive(Default)]
pub(super) struct Clauses {
    columns: Vec<Column>,
    /// `PRIMARY KEY` and `UNIQUE`, in their order.
    uniques: Vec<Unique>,
    enforced: Vec<&'static str>,
    parents: Vec<String>,
}

/// A constraint that makes values unique.
struct Unique {
    parts: Vec<Named>,
    is_primary: bool,
    /// Whether a single column of it can stand for the rowid.
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
            self.on_conflict(reader)?;
        } else if is("NULL") {
            // Without a `NOT`, there is nothing to conflict with.
            reader.skip_on_conflict()?;
        } else if is("DEFAULT") {
            column.default = Some(reader.default()?);
        } else if is("COLLATE") {
            column.collation = reader.name()?;
        } else if is("UNIQUE") {
            let parts = vec![Named { name: column.name.clone(), collation: None, descending: false }];
            self.uniques.push(Unique { parts, is_primary: false, may_be_rowid: false });
            self.on_conflict(reader)?;
        } else if is("CHECK") {
            self.enforced.push(CHECK);
            reader.skip_group()?;
        } else if is("REFERENCES") {
            self.reference(reader)?;
        } else if is("DEFERRABLE") {
            reader.skip_initially()?;
        } else if is("PRIMARY") {
            reader.expect("KEY")?;
            let descending = !reader.take("ASC") && reader.take("DESC");
            let parts = vec![Named { name: column.name.clone(), collation: None, descending }];
            self.uniques.push(Unique { parts, is_primary: true, may_be_rowid: !descending });
            self.on_conflict(reader)?;
            if reader.take("AUTOINCREMENT") {
                self.enforced.push(AUTOINCREMENT);
            }
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
            self.enforced.push("a generated column");
            column.generated = Some(if is_stored { Generated::Stored } else { Generated::Virtual });
        } else {
            return not_understood(format!("{:?} in column {:?}", token.text, column.name));
        }
        Ok(())
    }

    fn on_conflict(&mut self, reader: &mut Reader<'_>) -> Understood<()> {
        if reader.skip_on_conflict()? {
            self.enforced.push("an ON CONFLICT clause");
        }
        Ok(())
    }

    fn reference(&mut self, reader: &mut Reader<'_>) -> Understood<()> {
        self.enforced.push("a foreign key");
        self.parents.push(reader.skip_reference()?);
        Ok(())
    }

    pub fn table_constraint(&mut self, reader: &mut Reader<'_>) -> Understood<()> {
        let Some(token) = reader.next() else { return not_understood("its end is missing") };
        if token.is("CONSTRAINT") {
            reader.name()?;
        } else if token.is("PRIMARY") || token.is("UNIQUE") {
            let is_primary = token.is("PRIMARY");
            if is_primary {
                reader.expect("KEY")?;
            }
            let (parts, is_autoincrement) = reader.key_parts()?;
            self.uniques.push(Unique { parts, is_primary, may_be_rowid: is_primary });
            if is_autoincrement {
                self.enforced.push(AUTOINCREMENT);
            }
            self.on_conflict(reader)?;
        } else if token.is("CHECK") {
            self.enforced.push(CHECK);
            reader.skip_group()?;
            self.on_conflict(reader)?;
        } else if token.is("FOREIGN") {
            reader.expect("KEY")?;
            reader.skip_group()?;
            reader.expect("REFERENCES")?;
            self.reference(reader)?;
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
        let Clauses { columns, uniques, enforced, parents } = self;
        let (key, automatic) = (Key::Rowid(None), Vec::new());
        let mut table = Table { columns, key, is_strict, automatic, enforced, parents };
        let mut resolved = Vec::new();
        for unique in &uniques {
            let parts = unique.parts.iter().map(|part| ResolvedPart::of(&table, part));
            resolved.push((parts.collect::<Understood<Vec<_>>>()?, unique));
        }
        if has_no_rowid {
            let primary = resolved.iter().find(|(_, unique)| unique.is_primary);
            let parts = primary.map(|(parts, _)| &parts[..]).unwrap_or_default();
            table.key = Key::Primary(primary_key(&table, parts)?);
        }
        let of_primary = resolved.iter().filter(|(_, unique)| unique.is_primary);
        let primary: Vec<_> =
            of_primary.flat_map(|(parts, _)| parts.iter().map(|part| part.column)).collect();
        let mut indexes: Vec<(Vec<ResolvedPart>, bool)> = Vec::new();
        for (parts, unique) in resolved {
            if let [part] = &parts[..]
                && unique.may_be_rowid
                && !has_no_rowid
                && table.columns[part.column].declared.eq_ignore_ascii_case("INTEGER")
            {
                table.key = Key::Rowid(Some(part.column));
                continue;
            }
            // Of two constraints on the same columns, SQLite keeps the first. Directions make no difference.
            let is_same = |known: &&mut (Vec<ResolvedPart>, bool)| {
                known.0.len() == parts.len() && known.0.iter().zip(&parts).all(|(a, b)| a.is_same(b))
            };
            match indexes.iter_mut().find(is_same) {
                Some((_, is_primary)) => *is_primary |= unique.is_primary,
                None => indexes.push((parts, unique.is_primary)),
            }
        }
        if is_strict && !matches!(table.key, Key::Rowid(Some(_))) {
            // Elsewhere a primary key may be null, a mistake that SQLite keeps for its old files.
            primary.iter().for_each(|&column| table.columns[column].is_not_null = true);
        }
        // The primary key of a table without a rowid is the table itself.
        let kept = indexes.into_iter().filter(|(_, is_primary)| !(has_no_rowid && *is_primary));
        table.automatic = kept.map(|(parts, _)| as_index(&parts)).collect();
        Ok(table)
    }
}

const CHECK: &str = "a CHECK constraint";
const AUTOINCREMENT: &str = "AUTOINCREMENT";

/// A part of a key.
struct ResolvedPart {
    column: usize,
    /// The collation's name, which may be one of a program's own.
    collation: String,
    descending: bool,
}

impl ResolvedPart {
    fn of(table: &Table, part: &Named) -> Understood<ResolvedPart> {
        let Some(column) = table.place(&part.name) else {
            return not_understood(format!("its key names {:?}", part.name));
        };
        let collation = part.collation.clone().unwrap_or_else(|| table.columns[column].collation.clone());
        Ok(ResolvedPart { column, collation, descending: part.descending })
    }

    fn is_same(&self, other: &ResolvedPart) -> bool {
        self.column == other.column && self.collation.eq_ignore_ascii_case(&other.collation)
    }

    fn known(&self) -> Option<Part> {
        let collation = Collation::of_name(&self.collation)?;
        Some(Part { column: self.column, order: Order { collation, descending: self.descending } })
    }
}

/// Returns the primary key of a table without a rowid, each column once.
fn primary_key(table: &Table, parts: &[ResolvedPart]) -> Understood<Vec<Part>> {
    let mut key: Vec<Part> = Vec::new();
    for part in parts {
        let Some(part) = part.known() else {
            return not_understood(format!("the collation of {:?}", table.columns[part.column].name));
        };
        match key.iter().find(|known| known.column == part.column) {
            Some(known) if known.order.collation == part.order.collation => {}
            Some(_) => return not_understood("a primary key with a column in two collations"),
            None => key.push(part),
        }
    }
    match key.is_empty() {
        true => not_understood("a WITHOUT ROWID table without a primary key"),
        false => Ok(key),
    }
}

/// Returns the index that keeps a constraint. `None`: a collation of it is unknown.
fn as_index(parts: &[ResolvedPart]) -> Option<Index> {
    let parts = parts.iter().map(ResolvedPart::known).collect::<Option<_>>()?;
    Some(Index { parts, is_unique: true })
}
