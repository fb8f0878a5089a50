//! Dropping databases. The bucket to which a database is shipped has its drop before the directory is removed: see the
//! rules of `databases`.

use super::{DEFAULT_DATABASE, DROP_PATIENCE, DROPPED, Databases, check_name, missing, other_files};
use crate::data::inside::{Inside, remove};
use crate::data::places::Place;
use crate::wire::problem::{Answer, Problem};
use axum::http::StatusCode;
use pando::Error;
use std::fs;

impl Databases {
    /// Removes a database with all its data once no request uses it.
    pub fn drop_database(&self, name: &str) -> Answer<()> {
        check_name(name)?;
        if name == DEFAULT_DATABASE {
            let detail = "the default database cannot be dropped: `/v0` uses it";
            return Err(Problem::new(StatusCode::CONFLICT, "in-use", detail));
        }
        let path = self.dir.join(name);
        let inside = Inside::read(&path)?;
        if !inside.ours {
            return Err(missing(name));
        }
        if inside.others {
            return Err(other_files(name));
        }
        self.at_gate(name, |place| self.drop_at(place))
    }

    fn drop_at(&self, place: &Place) -> Answer<()> {
        let set_leaving = |is_leaving| {
            if let Some(open) = place.open() {
                open.set_leaving(is_leaving);
            }
        };
        if place.open().is_none() && self.shipping.is_some() {
            // The bucket has the drop before the directory is removed.
            self.open_at(place)?;
        }
        set_leaving(true);
        let Some(taken) = place.take(DROP_PATIENCE) else {
            set_leaving(false);
            return Err(in_use(&place.name));
        };
        if let Some(open) = taken {
            let shipped = open.ship_drop();
            open.db.close()?;
            drop(open);
            if let Err(problem) = shipped {
                // It goes on, and is shipped again.
                if let Err(cause) = self.open_at(place) {
                    tracing::error!(database = %place.name, "it cannot be opened again: {}", cause.detail);
                }
                return Err(problem);
            }
        }
        self.remove_at(place)
    }

    /// Removes the directory of a database that is closed.
    fn remove_at(&self, place: &Place) -> Answer<()> {
        let name = &*place.name;
        let failed = |error| Error::io(format!("drop the database {name}"), error);
        let aside = self.dir.join(format!("{DROPPED}{name}-{}", self.places.tick()));
        fs::rename(self.dir.join(name), &aside).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => missing(name),
            _ => failed(error).into(),
        })?;
        fs::File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(failed)?;
        remove(&aside)?;
        Ok(())
    }

    /// Removes the copy of a database that its source has dropped.
    ///
    /// # Errors
    /// 409 `in-use` if requests use the database for too long.
    pub fn remove_copy(&self, name: &str) -> Answer<()> {
        check_name(name)?;
        self.at_gate(name, |place| {
            if !place.close(DROP_PATIENCE)? {
                return Err(in_use(name));
            }
            self.remove_at(place)
        })
    }
}

fn in_use(name: &str) -> Problem {
    let detail =
        format!("database {name:?} is in use by a transaction or a request; end it, or try again later");
    Problem::new(StatusCode::CONFLICT, "in-use", detail)
}
