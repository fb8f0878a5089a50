//! The storage of the rows of an import: the options of a new table, or the required ones of an existing table.

use crate::definition::Definition;
use crate::table::DynamicTable;
use pando::{Compression, Error, ErrorKind, Layout, Result};
use std::time::Duration;

/// The storage options of a table's rows. `None` leaves a choice to the default or to the existing table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// The layout of the rows and the indexes.
    pub layout: Option<Layout>,
    /// The time that rows live after they were last written.
    pub ttl: Option<Duration>,
    /// The compression of the pages of an LSM table.
    pub compression: Option<Compression>,
}

impl Storage {
    /// Returns the definition with these options.
    pub(super) fn applied_to(self, mut definition: Definition) -> Definition {
        if let Some(layout) = self.layout {
            definition = definition.layout(layout);
        }
        if let Some(ttl) = self.ttl {
            definition = definition.ttl(ttl);
        }
        match self.compression {
            Some(compression) => definition.compression(compression),
            None => definition,
        }
    }

    /// Checks that an existing table has these options; returns `Mismatch` if not.
    pub(super) fn check(self, table: &DynamicTable) -> Result<()> {
        let data = table.data();
        let differs = |what: &str, there: String, asked: String| {
            let name = table.name();
            let message = format!("typed table {name:?} has {what} {there}, but {asked} was asked for");
            Err(Error::new(ErrorKind::Mismatch, message))
        };
        match self {
            Storage { layout: Some(asked), .. } if asked != data.layout() => {
                differs("layout", data.layout().to_string(), asked.to_string())
            }
            Storage { ttl: Some(asked), .. } if data.ttl() != Some(asked) => {
                let there = data.ttl().map_or("none".to_owned(), |ttl| format!("{ttl:?}"));
                differs("TTL", there, format!("{asked:?}"))
            }
            Storage { compression: Some(asked), .. } if asked != data.compression() => {
                differs("compression", data.compression().to_string(), asked.to_string())
            }
            _ => Ok(()),
        }
    }
}
