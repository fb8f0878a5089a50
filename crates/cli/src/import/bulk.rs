//! `import --bulk`: imports the whole input as one load ([`pando::Database::bulk_load`]).

use super::items::{Item, Items, Loaded, Record};
use crate::failure::{Failure, Outcome};
use indicatif::ProgressBar;
use pando::{Database, Error, Table};

/// The number of records between updates of the progress bar.
const PROGRESS_RECORDS: u64 = 4096;

const NO_TTL: &str = "--bulk loads no records with `ttl_ms`; leave out --bulk";

/// Loads all of `items`, or nothing.
pub(super) fn load(db: &Database, table: &Table, items: Items, bar: &ProgressBar) -> Outcome<Loaded> {
    let mut loaded = Loaded { commits: 1, ..Loaded::default() };
    // The load accepts only the library's errors. It ends at the first one, and ours is reported instead.
    let mut failure: Option<Failure> = None;
    let records = items.map(|item| {
        let record = item.and_then(|item| match item {
            Item::Record(Record { ttl: Some(_), .. }) => Err(Failure::Usage(NO_TTL.to_owned())),
            Item::Record(Record { key, value, ttl: None }) => Ok((key, value)),
            Item::File(_) => unreachable!("a tree is not loaded in bulk"),
        });
        record
            .inspect(|(key, value)| {
                loaded.records += 1;
                loaded.bytes += (key.len() + value.len()) as u64;
                if loaded.records.is_multiple_of(PROGRESS_RECORDS) {
                    bar.set_position(loaded.records);
                }
            })
            .map_err(|cause| {
                failure = Some(cause);
                Error::invalid("a record could not be read")
            })
    });
    let result = db.bulk_load(table, records);
    match failure {
        Some(failure) => Err(failure),
        None => Ok(result.map(|_| loaded)?),
    }
}
