//! Copies of databases that take the place of those that are there.

use super::{DROP_PATIENCE, DROPPED, Databases, check_name};
use crate::data::inside::remove;
use crate::data::open::Open;
use crate::wire::problem::Answer;
use pando::{Error, Result};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

/// The prefix of the directory of a copy that is not complete.
pub(super) const COPYING: &str = ".copying-";

impl Databases {
    /// Returns the directory into which the database `name` is copied. It does not exist.
    pub fn copying(&self, name: &str) -> Result<PathBuf> {
        let path = self.dir.join(format!("{COPYING}{name}"));
        if path.exists() {
            remove(&path)?;
        }
        Ok(path)
    }

    /// Puts the complete copy in [`Databases::copying`] in the place of the database `name`, and opens it. Returns
    /// `None` if requests use the database for too long: try again.
    pub fn replace(&self, name: &str) -> Answer<Option<Arc<Open>>> {
        check_name(name)?;
        let copy = self.dir.join(format!("{COPYING}{name}"));
        let failed = |error| Error::io(format!("replace the database {name}"), error);
        self.at_gate(name, |place| {
            if !place.close(DROP_PATIENCE)? {
                return Ok(None);
            }
            let path = self.dir.join(name);
            let aside = self.dir.join(format!("{DROPPED}{name}-{}", self.places.tick()));
            let has_old = path.is_dir();
            if has_old {
                fs::rename(&path, &aside).map_err(failed)?;
            }
            fs::rename(&copy, &path).map_err(failed)?;
            fs::File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(failed)?;
            if has_old {
                remove(&aside)?;
            }
            let db = self.with_room(|| self.builder().open(&path))?;
            self.install(place, db).map(Some)
        })
    }
}
