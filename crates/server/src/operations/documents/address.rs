//! The parts of an address that name documents: a table, and the values of a key.

use crate::calls::call::Call;
use crate::wire::problem::{Answer, Problem};
use crate::wire::target::decode;
use rows::{Column, DynamicTable, Part, Value};

/// The parts of a path.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The database.
    pub database: String,
    /// The table.
    pub table: String,
    /// The key, not decoded: its types depend on the table.
    pub key: String,
    /// The token of the transaction that the request belongs to.
    pub transaction: Option<String>,
}

impl Asked {
    /// Reads the parts from a request.
    pub fn parse(call: &Call) -> Answer<Self> {
        let target = call.target();
        Ok(Asked {
            database: target.database().to_owned(),
            table: text_of(target.second())?,
            key: target.raw_key().to_owned(),
            transaction: call.transaction()?,
        })
    }

    /// Opens the table as `reader` sees it.
    pub fn open(&self, reader: &impl pando::ReadTables) -> Answer<DynamicTable> {
        Ok(DynamicTable::expect(reader, &self.table)?)
    }
}

/// Decodes a part of an address as text.
pub fn text_of(segment: &str) -> Answer<String> {
    let wrong = |_| Problem::bad_request("names and values in an address must be UTF-8");
    String::from_utf8(decode(segment)?.into_owned()).map_err(wrong)
}

/// Returns the column of a part of a key or an index.
fn column_of<'t>(table: &'t DynamicTable, part: &Part) -> &'t Column {
    table.schema().columns().find(|column| column.name() == part.column()).expect("parts are of columns")
}

/// Parses the values of the first parts of a key, with slashes between them.
pub fn values_of(table: &DynamicTable, parts: &[Part], text: &str) -> Answer<Vec<Value<'static>>> {
    let texts: Vec<&str> = text.split('/').collect();
    if texts.len() > parts.len() {
        let (is, most) = (texts.len(), parts.len());
        let detail =
            format!("table {:?}: the key in the address has {is} values, but {most} parts", table.name());
        return Err(Problem::bad_request(detail));
    }
    let value = |(text, part): (&str, &Part)| {
        let column = column_of(table, part);
        // A path into a document can lead to a value of any type.
        let kind = if part.pointer().is_some() { rows::ColumnType::Any } else { column.column_type() };
        let name = column.name();
        let wrong = |what| Problem::bad_request(format!("table {:?}, column {name:?}: {what}", table.name()));
        kind.parse(&text_of(text)?).map_err(wrong)
    };
    texts.into_iter().zip(parts).map(value).collect()
}
