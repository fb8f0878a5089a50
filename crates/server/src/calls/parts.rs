//! The parts of a server that handlers are given: each names those that it works with.

use crate::access::auth::Gatekeeper;
use crate::data::held::Data;
use crate::data::v0::EntityTable;
use crate::limits::connections::Connections;
use crate::limits::room::Room;
use crate::watch::watcher::Watch;
use std::sync::Arc;

/// Whether the databases are shipped to a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsShipped {
    /// They are not.
    No,
    /// They are, after writes were answered.
    Later,
    /// They are, before writes are answered.
    InSync,
}

/// All parts.
#[derive(Debug)]
pub struct Parts {
    /// Databases and transactions.
    pub data: Arc<Data>,
    /// The table of `/v0`.
    pub entity: Arc<EntityTable>,
    /// What requests may take.
    pub room: Arc<Room>,
    /// The connections.
    pub connections: Arc<Connections>,
    /// Who may do what.
    pub keeper: Arc<Gatekeeper>,
    /// What is counted and kept of requests.
    pub watch: Arc<Watch>,
    /// Whether the databases are shipped.
    pub shipping: IsShipped,
    /// The OpenAPI document.
    pub document: fn() -> &'static str,
}

impl Parts {
    /// Databases and transactions, to be kept.
    pub fn data(&self) -> Arc<Data> {
        Arc::clone(&self.data)
    }

    /// The table of `/v0`, to be kept.
    pub fn entity(&self) -> Arc<EntityTable> {
        Arc::clone(&self.entity)
    }

    /// What requests may take, to be kept.
    pub fn room(&self) -> Arc<Room> {
        Arc::clone(&self.room)
    }

    /// The connections, to be kept.
    pub fn connections(&self) -> Arc<Connections> {
        Arc::clone(&self.connections)
    }

    /// Who may do what, to be kept.
    pub fn keeper(&self) -> Arc<Gatekeeper> {
        Arc::clone(&self.keeper)
    }

    /// What is counted of requests, to be kept.
    pub fn watch(&self) -> Arc<Watch> {
        Arc::clone(&self.watch)
    }
}
