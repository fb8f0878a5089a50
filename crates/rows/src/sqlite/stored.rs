//! Rows and entries of SQLite's tables as they are written.
//!
//! A row is first a list of fields by the places of its columns, from values that are put, or from a record that is
//! there. From the fields follow the key, the record and the entries of the indexes, so that an entry is removed by the
//! same rule by which it was made. Fields have the form that the column's affinity gives them, in entries, too.

use super::{IndexStorage, PrimaryKey, Problem, Source, Storage, check_length, values};
use crate::value::Value;
use sqlite_format::key;
use sqlite_format::record::{self, Field};

/// The length of the longest row that SQLite reads (`SQLITE_MAX_LENGTH`).
pub(crate) const MOST_RECORD_BYTES: usize = 1_000_000_000;

/// The fields of a row by the places of its columns. `None`: the row was written before the column was added, with a
/// default that only SQLite can compute.
pub(crate) type Fields<'r> = Vec<Option<Field<'r>>>;

/// An entry of an index.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The whole key.
    pub key: Vec<u8>,
    pub record: Vec<u8>,
    /// How many bytes of the key no other entry may begin with; `None`: no value has to be unique.
    pub unique_bytes: Option<usize>,
}

impl Storage {
    /// Returns the place of the column that is the rowid.
    pub fn rowid_place(&self) -> Option<usize> {
        self.columns.iter().position(|column| matches!(column.source, Source::Rowid))
    }

    /// Returns the fields of a row that is put.
    pub fn fields_of<'v>(&self, row: &'v [Value<'_>]) -> Result<Fields<'v>, Problem> {
        let columns = self.columns.iter().zip(row).enumerate();
        let stored = columns.map(|(place, (column, value))| {
            let field = values::stored(value, column.affinity);
            field.map(Some).map_err(|what| Problem::Unstorable(place, what))
        });
        stored.collect()
    }

    /// Returns the fields of a row that is there. They are not checked against the types of their columns: SQLite
    /// stores others, and their entries must be found.
    pub fn fields_at<'r>(&'r self, key: &[u8], row: &'r [u8]) -> Result<Fields<'r>, Problem> {
        let mut stored = record::fields(row)?;
        let mut fields: Fields<'r> = vec![None; self.columns.len()];
        for place in &self.record {
            let field = stored.next().transpose()?;
            let Some(place) = *place else { continue };
            fields[place] = match (field, &self.columns[place].source) {
                (None, Source::Field(_, Some(default))) => values::field_of(default),
                (field, _) => field,
            };
        }
        if let Some(place) = self.rowid_place() {
            fields[place] = Some(Field::Integer(key::rowid_of(key, &[]).ok_or(Problem::Key)?));
        }
        match stored.next() {
            None => Ok(fields),
            Some(_) => Err(Problem::Row),
        }
    }

    /// Returns the key of a row.
    pub fn key_of(&self, fields: &Fields<'_>) -> Result<Vec<u8>, Problem> {
        let Some(PrimaryKey { shape, places }) = &self.key else {
            let rowid = self.rowid_place().and_then(|place| fields[place]);
            let Some(Field::Integer(rowid)) = rowid else { return Err(Problem::Key) };
            return Ok(key::of_rowid(rowid).to_vec());
        };
        let mut key = Vec::with_capacity(32);
        for (number, &place) in places.iter().enumerate() {
            shape.push(&mut key, number, &known(fields, place)?);
        }
        check_length(&key)?;
        Ok(key)
    }

    /// Returns the record of a row.
    pub fn record_of(&self, fields: &Fields<'_>) -> Result<Vec<u8>, Problem> {
        let stored = self.record.iter().map(|place| place.map_or(Ok(Field::Null), |at| known(fields, at)));
        let stored = stored.collect::<Result<Vec<_>, _>>()?;
        let mut record = Vec::with_capacity(64);
        record::push(&mut record, &stored);
        if record.len() > MOST_RECORD_BYTES { Err(Problem::LongRow) } else { Ok(record) }
    }
}

impl IndexStorage {
    /// Returns the entry of a row.
    pub fn entry(&self, fields: &Fields<'_>, is_unique: bool) -> Result<Entry, Problem> {
        let mut stored = Vec::with_capacity(self.places.len());
        let mut key = Vec::with_capacity(48);
        let mut unique_bytes = is_unique.then_some(0);
        for (number, &place) in self.places.iter().enumerate() {
            let field = known(fields, place)?;
            self.shape.push(&mut key, number, &field);
            if number < self.own_fields {
                // Nulls are all different.
                unique_bytes = unique_bytes.filter(|_| field != Field::Null).map(|_| key.len());
            }
            stored.push(field);
        }
        let mut record = Vec::with_capacity(48);
        record::push(&mut record, &stored);
        Ok(Entry { key, record, unique_bytes })
    }
}

fn known<'r>(fields: &Fields<'r>, place: usize) -> Result<Field<'r>, Problem> {
    fields[place].ok_or(Problem::Unfit(place, values::Misfit::NoDefault))
}
