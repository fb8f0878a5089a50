//! The door for clients of Redis: which database it has, and what its clients may do.

use crate::access::auth::Gatekeeper;
use crate::access::tokens::Scope;
use crate::calls::parts::{IsShipped, Parts};
use crate::config::Config;
use crate::data::open::{Open, SHIPPED_WITHIN, is_of_another};
use crate::wire::problem::Problem;
use pando::{Database, Error, ErrorKind, Result};
use resp::{Door, Host, Permission};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// A database of the server, as the door sees it. It stays open as long as the door does.
#[derive(Debug)]
struct Served {
    name: String,
    open: Arc<Open>,
    keeper: Arc<Gatekeeper>,
    waits_for_bucket: bool,
}

impl Host for Served {
    fn database(&self) -> &Database {
        &self.open.db
    }

    fn needs_token(&self) -> bool {
        self.keeper.is_on_guard()
    }

    fn permission(&self, token: &[u8]) -> Permission {
        match self.keeper.scope_in(token, &self.name) {
            None => Permission::Nothing,
            Some(Scope::Read) => Permission::Read,
            Some(Scope::Write | Scope::Admin) => Permission::Write,
        }
    }

    fn refusal(&self) -> Option<Error> {
        self.open.ship().and_then(|ship| ship.refusal())
    }

    fn after_commit(&self, commit: u64) -> Result<()> {
        let Some(ship) = self.open.ship().filter(|_| self.waits_for_bucket) else { return Ok(()) };
        let (shipped, outcome) = mpsc::channel();
        ship.when_shipped(commit, Box::new(move |done| drop(shipped.send(done))));
        match outcome.recv_timeout(SHIPPED_WITHIN) {
            Ok(Err(error)) if !is_of_another(&error) => Err(error.within("it is not shipped")),
            Ok(done) => done,
            Err(_) => {
                let text = "it was not in the bucket within 30 s; it is shipped when the bucket can be \
                            reached again, and is lost if this machine is lost before";
                Err(Error::new(ErrorKind::WouldWait, text))
            }
        }
    }
}

/// Opens the door if the configuration asks for it.
///
/// # Errors
/// Those of opening the database and of binding the address; `Invalid` if other machines could reach it and there are
/// no tokens, and on a replica.
pub fn open(parts: &Parts, config: &Config) -> Result<()> {
    let Some(redis) = &config.redis else { return Ok(()) };
    if parts.data.databases.replicas().is_some() {
        let message = "a replica does not serve clients of Redis: start it without --redis";
        return Err(Error::invalid(message));
    }
    let listen = redis.options.listen;
    if !listen.ip().is_loopback() && !parts.keeper.is_on_guard() && !config.allow_anyone {
        return Err(Error::invalid(format!(
            "{listen}, where clients of Redis would connect, can be reached from other machines, but there \
             are no tokens: create one with `pando token create`, or start the server with --allow-anyone"
        )));
    }
    let (open, _) = parts.data.databases.create(&redis.database, None).map_err(Problem::into_error)?;
    let served = Served {
        name: redis.database.clone(),
        open,
        keeper: Arc::clone(&parts.keeper),
        waits_for_bucket: parts.shipping == IsShipped::InSync,
    };
    let door = Door::open(Arc::new(served), redis.options.clone())?;
    parts.redis.set(door).expect("the door is opened once");
    Ok(())
}

/// Closes the door, if it is open.
pub fn close(parts: &Parts, patience: Duration) {
    if let Some(door) = parts.redis.get() {
        door.close(patience);
    }
}
