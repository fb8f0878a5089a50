//! Commands about the connection itself.

use super::{MOST_NAME_BYTES, Multi, Session};
use crate::commands::general::REDIS_VERSION;
use crate::commands::keys::database;
use crate::fault::{Done, Fault};
use crate::host::Permission;
use crate::pubsub::Subscriber;
use crate::space::{Source, Space};
use crate::watched::{Seen, watch_bytes};
use crate::wire::numbers::parse_i64;
use crate::wire::reply::Protocol;
use crate::wire::request::Command;
use std::sync::Arc;

const WRONG_PASS: Fault = Fault::fixed("WRONGPASS invalid username-password pair or user is disabled.");

impl Session {
    /// Runs a command about the connection.
    pub(super) fn run_own(&mut self, name: &str, command: &Command) -> Done {
        match name {
            "auth" => self.auth(command),
            "hello" => self.hello(command),
            "client" => self.client(command),
            "select" => self.select(command),
            "multi" => self.multi(),
            "exec" => {
                let multi = self.multi.take().ok_or(Fault::fixed("ERR EXEC without MULTI"))?;
                self.execute(multi)
            }
            "discard" => {
                self.multi.take().ok_or(Fault::fixed("ERR DISCARD without MULTI"))?;
                self.unwatch();
                self.out.ok();
                Ok(())
            }
            "watch" => self.watch(command),
            "unwatch" => {
                self.unwatch();
                self.out.ok();
                Ok(())
            }
            "quit" => {
                self.is_over = true;
                self.out.ok();
                Ok(())
            }
            "reset" => self.reset(),
            _ => self.run_subscription(name, command),
        }
    }

    /// Takes a token, if it is known.
    fn authenticate(&mut self, token: &[u8]) -> Done {
        if !self.shared.host.needs_token() {
            return Err(Fault::fixed(
                "ERR AUTH was called, but this server has no tokens: create one with `pando token create`, \
                 or connect without a password",
            ));
        }
        let permission = self.shared.host.permission(token);
        if permission == Permission::Nothing {
            return Err(WRONG_PASS);
        }
        self.token = Some(token.to_vec());
        self.permission = Some(permission);
        if let Some(mailbox) = &self.mailbox
            && mailbox.subscriber().is_some()
        {
            mailbox.set_subscriber(Some(Subscriber(self.token.clone())));
        }
        Ok(())
    }

    fn auth(&mut self, command: &Command) -> Done {
        // The name of a user is not used: a token says by itself what it allows.
        match command.len() {
            2 | 3 => self.authenticate(&command[command.len() - 1])?,
            _ => return Err(Fault::SYNTAX),
        }
        self.out.ok();
        Ok(())
    }

    fn hello(&mut self, command: &Command) -> Done {
        let protocol = match command.get(1).map(parse_i64) {
            None => self.out.protocol,
            Some(Some(2)) => Protocol::Resp2,
            Some(Some(3)) => Protocol::Resp3,
            Some(_) => return Err(Fault::fixed("NOPROTO unsupported protocol version")),
        };
        let (mut at, mut name) = (2, None);
        while let Some(word) = command.get(at) {
            if word.eq_ignore_ascii_case(b"auth") && at + 2 < command.len() {
                self.authenticate(&command[at + 2])?;
                at += 3;
            } else if word.eq_ignore_ascii_case(b"setname") && at + 1 < command.len() {
                name = Some(command[at + 1].to_vec());
                at += 2;
            } else {
                return Err(Fault::SYNTAX);
            }
        }
        if self.permission() == Permission::Nothing {
            return Err(Fault::fixed(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
                 HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client",
            ));
        }
        if let Some(name) = name {
            self.set_name(&name)?;
        }
        self.set_protocol(protocol);
        self.out.map(7);
        for (key, value) in
            [("server", "redis"), ("version", REDIS_VERSION), ("mode", "standalone"), ("role", "master")]
        {
            self.out.bulk(key.as_bytes());
            self.out.bulk(value.as_bytes());
        }
        self.out.bulk(b"proto");
        self.out.integer(if protocol == Protocol::Resp3 { 3 } else { 2 });
        self.out.bulk(b"id");
        self.out.integer(self.id as i64);
        self.out.bulk(b"modules");
        self.out.array(0);
        Ok(())
    }

    fn set_protocol(&mut self, protocol: Protocol) {
        self.out.protocol = protocol;
        if let Some(mailbox) = &self.mailbox {
            mailbox.set_protocol(protocol);
        }
    }

    fn set_name(&mut self, name: &[u8]) -> Done {
        if name.iter().any(|byte| !byte.is_ascii_graphic()) {
            return Err(Fault::fixed(
                "ERR Client names cannot contain spaces, newlines or special characters.",
            ));
        }
        if name.len() > MOST_NAME_BYTES {
            return Err(Fault::fixed("ERR the name of a client can have at most 65536 bytes"));
        }
        self.kept_bytes -= std::mem::take(&mut self.name).len();
        self.keep(name.len())?;
        self.name = name.to_vec();
        Ok(())
    }

    fn client(&mut self, command: &Command) -> Done {
        let argument = command.get(2);
        match (command[1].to_ascii_lowercase().as_slice(), argument) {
            (b"id", None) => self.out.integer(self.id as i64),
            (b"getname", None) => self.out.bulk(&self.name),
            (b"setname", Some(name)) => {
                self.set_name(name)?;
                self.out.ok();
            }
            (b"info", None) => {
                let (id, database) = (self.id, self.database);
                let name = String::from_utf8_lossy(&self.name).into_owned();
                self.out.verbatim(&format!("id={id} name={name} db={database}\n"));
            }
            // What a library says about itself, and hints about eviction, have no effect here.
            (b"setinfo", Some(_)) | (b"no-evict", Some(_)) | (b"no-touch", Some(_)) => self.out.ok(),
            (subcommand, _) => {
                let subcommand = String::from_utf8_lossy(subcommand).into_owned();
                return Err(Fault::new(format!(
                    "ERR unknown subcommand '{subcommand}' of 'client', or a wrong number of arguments: \
                     there are ID, GETNAME, SETNAME, INFO, SETINFO, NO-EVICT and NO-TOUCH"
                )));
            }
        }
        Ok(())
    }

    fn select(&mut self, command: &Command) -> Done {
        let database = database(&command[1])?;
        self.shared.committer.tables_for(database)?[database].keys(database)?;
        self.database = database;
        self.out.ok();
        Ok(())
    }

    fn multi(&mut self) -> Done {
        if self.multi.is_some() {
            return Err(Fault::fixed("ERR MULTI calls can not be nested"));
        }
        self.multi = Some(Multi::default());
        self.out.ok();
        Ok(())
    }

    fn watch(&mut self, command: &Command) -> Done {
        if self.multi.is_some() {
            return Err(Fault::fixed("ERR WATCH inside MULTI is not allowed"));
        }
        let shared = Arc::clone(&self.shared);
        let (tables, database) = (shared.committer.tables_for(self.database)?, self.database);
        let versions = &shared.committer.versions;
        // They are read before the snapshot: a creation that it does not show is one that they do not count.
        let creations: Vec<u64> = command.from(1).map(|key| versions.creations(database, key)).collect();
        let snapshot = shared.host.database().snapshot()?;
        let space = Space::new(Source::Snapshot(&snapshot), &tables, database, versions);
        for (key, creations) in command.from(1).zip(creations) {
            let version = space.version(key)?;
            let place = (database, key.to_vec());
            // The first look counts: what was seen since then is to be unchanged.
            if !self.watched.contains_key(&place) {
                self.keep(watch_bytes(key))?;
                self.watched.insert(place, Seen { version, creations });
            }
        }
        self.out.ok();
        Ok(())
    }

    fn reset(&mut self) -> Done {
        self.multi = None;
        self.unwatch();
        self.unsubscribe_all();
        self.database = 0;
        self.kept_bytes -= std::mem::take(&mut self.name).len();
        (self.token, self.permission) = (None, None);
        self.set_protocol(Protocol::Resp2);
        self.out.simple("RESET");
        Ok(())
    }
}
