//! The parts of a server that handlers receive. Each handler names those that it uses.

use crate::access::auth::Gatekeeper;
use crate::config::Setting;
#[cfg(feature = "remote")]
use crate::data::engine::Remote;
use crate::data::engine::{Engine, Native};
use crate::data::followers::Followers;
use crate::data::held::Data;
use crate::data::hrana_streams::HranaStreams;
use crate::data::schedule::worker::Schedule;
use crate::data::v0::EntityTable;
use crate::limits::connections::Connections;
use crate::limits::room::Room;
use crate::watch::watcher::Watch;
use std::sync::Arc;

/// Whether the databases are shipped to a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsShipped {
    /// The databases are not shipped.
    No,
    /// The databases are shipped after writes got their response.
    Later,
    /// The databases are shipped before writes get their response.
    InSync,
}

/// All parts. Those that belong to Pando's own engine are empty with another one.
#[derive(Debug)]
pub struct Parts<E: Engine = Native> {
    /// Databases and transactions.
    pub data: Arc<Data<E>>,
    /// The table of `/v0`.
    pub entity: Arc<EntityTable<E>>,
    /// The streams of Hrana that clients hold.
    pub hrana: Arc<HranaStreams>,
    /// The bounds that requests share.
    pub room: Arc<Room>,
    /// The connections.
    pub connections: Arc<Connections>,
    /// The authorization of requests.
    pub keeper: Arc<Gatekeeper>,
    /// The counts and slow requests of the server.
    pub watch: Arc<Watch>,
    /// The scheduled backups, if there are any.
    pub schedule: Option<Arc<Schedule>>,
    /// The options with which the server was started.
    pub settings: Vec<Setting>,
    /// Whether the databases are shipped.
    pub shipping: IsShipped,
    /// The door for clients of Redis.
    #[cfg(feature = "redis")]
    pub redis: Arc<std::sync::OnceLock<resp::Door>>,
    /// The threads of a replica.
    pub followers: Option<Arc<Followers>>,
    /// The OpenAPI document.
    pub document: fn() -> &'static str,
}

impl<E: Engine> Parts<E> {
    /// Returns a handle to the databases and transactions.
    pub fn data(&self) -> Arc<Data<E>> {
        Arc::clone(&self.data)
    }

    /// Returns a handle to the table of `/v0`.
    pub fn entity(&self) -> Arc<EntityTable<E>> {
        Arc::clone(&self.entity)
    }

    /// Returns a handle to the streams of Hrana.
    pub fn hrana(&self) -> Arc<HranaStreams> {
        Arc::clone(&self.hrana)
    }

    /// Returns a handle to the bounds that requests share.
    pub fn room(&self) -> Arc<Room> {
        Arc::clone(&self.room)
    }

    /// Returns a handle to the connections.
    pub fn connections(&self) -> Arc<Connections> {
        Arc::clone(&self.connections)
    }

    /// Returns a handle to the authorization.
    pub fn keeper(&self) -> Arc<Gatekeeper> {
        Arc::clone(&self.keeper)
    }

    /// Returns a handle to the counts of requests.
    pub fn watch(&self) -> Arc<Watch> {
        Arc::clone(&self.watch)
    }
}

/// The parts of a server with one engine or another.
#[derive(Clone, Debug)]
pub enum AnyParts {
    /// Those of a server with Pando's own engine.
    Native(Arc<Parts>),
    /// Those of a server over a remote store.
    #[cfg(feature = "remote")]
    Remote(Arc<Parts<Remote>>),
}

impl AnyParts {
    /// Returns the parts of a server with Pando's own engine.
    #[inline]
    pub fn native(&self) -> Option<&Arc<Parts>> {
        match self {
            AnyParts::Native(parts) => Some(parts),
            #[cfg(feature = "remote")]
            AnyParts::Remote(_) => None,
        }
    }

    /// Returns a handle to the bounds that requests share.
    pub fn room(&self) -> Arc<Room> {
        match self {
            AnyParts::Native(parts) => parts.room(),
            #[cfg(feature = "remote")]
            AnyParts::Remote(parts) => parts.room(),
        }
    }

    /// Returns a handle to the connections.
    pub fn connections(&self) -> Arc<Connections> {
        match self {
            AnyParts::Native(parts) => parts.connections(),
            #[cfg(feature = "remote")]
            AnyParts::Remote(parts) => parts.connections(),
        }
    }

    /// Returns a handle to the authorization.
    pub fn keeper(&self) -> Arc<Gatekeeper> {
        match self {
            AnyParts::Native(parts) => parts.keeper(),
            #[cfg(feature = "remote")]
            AnyParts::Remote(parts) => parts.keeper(),
        }
    }

    /// Returns a handle to the counts of requests.
    pub fn watch(&self) -> Arc<Watch> {
        match self {
            AnyParts::Native(parts) => parts.watch(),
            #[cfg(feature = "remote")]
            AnyParts::Remote(parts) => parts.watch(),
        }
    }
}
