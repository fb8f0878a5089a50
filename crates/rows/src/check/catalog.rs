//! A comparison of the catalog with the tables of the engine.
//!
//! 1. Every record of `rows/catalog` is one that this crate writes (see `catalog.rs`). The number of the next table is
//!    above all that are in use, and the progress of a build belongs to an index that is being built.
//! 2. Every table of the engine with a reserved name is the catalog, or is named by a schema.

use super::CheckReport;
use crate::catalog::{self, Record};
use crate::reserved::{PREFIX, ROW_IDS};
use crate::schema::Schema;
use pando::{ReadSnapshot, RecordCursor, Result, Span};
use std::collections::BTreeSet;

/// Reports problems in the catalog's records; `schemas` are all that can be read.
pub(super) fn records(
    snapshot: &impl ReadSnapshot,
    schemas: &[Schema],
    report: &mut CheckReport,
) -> Result<()> {
    let Some(table) = snapshot.table(catalog::NAME)? else { return Ok(()) };
    let (mut next_id, mut noted_next) = (None, false);
    let mut cursor = snapshot.cursor(&table, Span::all())?;
    while let Some((key, value)) = cursor.next()? {
        let what = match catalog::record(key, value) {
            Record::Schema => continue,
            Record::NextId(Some(id)) => {
                next_id = Some(id);
                continue;
            }
            Record::NextId(None) => {
                noted_next = true;
                "the next table's number is damaged".to_owned()
            }
            Record::Build(id, index) if is_building(schemas, id, index) => continue,
            Record::Build(..) => {
                format!("the record \"{}\" belongs to no index that is being built", key.escape_ascii())
            }
            Record::Unknown => format!("the record \"{}\" is not a record of a catalog", key.escape_ascii()),
        };
        report.note(catalog::NAME, None, what);
    }
    let largest = schemas.iter().map(|schema| schema.id).max();
    match (next_id, largest) {
        (None, Some(_)) if !noted_next => {
            report.note(catalog::NAME, None, "the next table's number is missing");
        }
        (Some(next), Some(largest)) if next <= u64::from(largest) => {
            report.note(
                catalog::NAME,
                None,
                format!("the next table's number is {next}, but table {largest} exists"),
            );
        }
        _ => {}
    }
    Ok(())
}

fn is_building(schemas: &[Schema], id: u32, index: u32) -> bool {
    let of_table = schemas.iter().filter(|schema| schema.id == id);
    of_table.flat_map(Schema::indexes).any(|known| known.id == index && known.building)
}

/// Reports the tables of the engine that have a typed table's name but belong to no schema.
pub(super) fn orphans(
    snapshot: &impl ReadSnapshot,
    schemas: &[Schema],
    report: &mut CheckReport,
) -> Result<()> {
    let mut claimed = BTreeSet::from([catalog::NAME.to_owned(), ROW_IDS.to_owned()]);
    for schema in schemas {
        claimed.insert(catalog::data_name(schema));
        claimed.extend(schema.indexes().iter().map(|index| catalog::index_name(schema, index)));
    }
    for table in snapshot.tables()? {
        if table.name().starts_with(PREFIX) && !claimed.contains(table.name()) {
            report.note(table.name(), None, "no schema in the catalog names this table");
        }
    }
    Ok(())
}
