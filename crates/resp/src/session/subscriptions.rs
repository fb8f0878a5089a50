//! Subscriptions to channels and patterns.
//!
//! From its first subscription on, a connection has a mailbox: its replies and messages go through it, and a second
//! thread writes them. That thread asks again whether the client's token is valid, because a client that only listens
//! sends no commands. It asks every [`ASK`], and before a message that comes later than that. An invalid token ends the
//! connection.

use super::{FLUSHED_BYTES, INVALID_TOKEN, MOST_NAME_BYTES, Session};
use crate::fault::{Done, Fault};
use crate::host::{Host, Permission};
use crate::pubsub::{Mailbox, Subscriber, Taken};
use crate::wire::reply::{Out, Protocol};
use crate::wire::request::Command;
use std::collections::BTreeSet;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How often a subscriber's token is checked.
const ASK: Duration = Duration::from_millis(250);
/// The most subscriptions of a connection.
const MOST_SUBSCRIPTIONS: usize = 10_000;
/// What a subscription takes beside the two copies of its name.
const EACH_BYTES: usize = 256;

/// Returns the memory in bytes that a subscription takes.
fn subscription_bytes(name: &[u8]) -> usize {
    2 * name.len() + EACH_BYTES
}

impl Session {
    pub(super) fn run_subscription(&mut self, name: &str, command: &Command) -> Done {
        match name {
            "subscribe" => self.subscribe(command, false),
            "psubscribe" => self.subscribe(command, true),
            "unsubscribe" => self.unsubscribe(command, false),
            "punsubscribe" => self.unsubscribe(command, true),
            _ => Err(Fault::new(format!("ERR unknown command '{name}'"))),
        }
    }

    /// Returns the mailbox; the first call starts the thread that writes from it.
    fn mailbox(&mut self) -> Done<Arc<Mailbox>> {
        if let Some(mailbox) = &self.mailbox {
            return Ok(Arc::clone(mailbox));
        }
        let failed = |error| Fault::Database(pando::Error::io("start to write messages", error));
        self.flush();
        let room = &self.shared.around.replying;
        let mailbox = Arc::new(Mailbox::new(Arc::clone(&self.stream), self.out.protocol, room));
        let (own, stream, shared) =
            (Arc::clone(&mailbox), Arc::clone(&self.stream), Arc::clone(&self.shared));
        let write = move || {
            if !write_from(&own, &stream, &*shared.host) {
                own.close();
                let _ = stream.shutdown(Shutdown::Both);
            }
        };
        let thread = thread::Builder::new().name("pando-redis-push".to_owned()).stack_size(128 << 10);
        self.writer = Some(thread.spawn(write).map_err(failed)?);
        self.mailbox = Some(Arc::clone(&mailbox));
        Ok(mailbox)
    }

    fn subscribe(&mut self, command: &Command, is_pattern: bool) -> Done {
        let mailbox = self.mailbox()?;
        mailbox.set_subscriber(Some(Subscriber(self.token.clone())));
        // Earlier replies come before the confirmation, which goes into the mailbox with the subscription.
        self.flush();
        let is_about_keys = command.from(1).any(|name| name.starts_with(b"__key")) || is_pattern;
        let shared = Arc::clone(&self.shared);
        // The changes are followed before the confirmation, and until the hub has the subscription.
        let _following = match is_about_keys {
            true => Some(shared.notifier.start(shared.host.database(), &shared.around)?),
            false => None,
        };
        for name in command.from(1) {
            if self.channels.len() + self.patterns.len() >= MOST_SUBSCRIPTIONS {
                return Err(Fault::fixed("ERR this connection has too many subscriptions"));
            }
            if name.len() > MOST_NAME_BYTES {
                return Err(Fault::fixed("ERR the name of a channel can have at most 65536 bytes"));
            }
            if !self.names(is_pattern).contains(name) {
                self.keep(subscription_bytes(name))?;
                self.names(is_pattern).insert(name.to_vec());
            }
            if !mailbox.wait_for_space() {
                self.is_over = true;
                return Ok(());
            }
            let confirmation =
                self.confirmation(if is_pattern { "psubscribe" } else { "subscribe" }, Some(name));
            self.shared.around.hub.subscribe(is_pattern, name, self.id, &mailbox, confirmation);
        }
        Ok(())
    }

    fn names(&mut self, is_pattern: bool) -> &mut BTreeSet<Vec<u8>> {
        if is_pattern { &mut self.patterns } else { &mut self.channels }
    }

    fn confirmation(&self, kind: &str, name: Option<&[u8]>) -> Out {
        let mut out = Out::new(self.out.protocol);
        out.push(3);
        out.bulk(kind.as_bytes());
        out.bulk_or_null(name);
        out.count(self.channels.len() + self.patterns.len());
        out
    }

    fn unsubscribe(&mut self, command: &Command, is_pattern: bool) -> Done {
        let kind = if is_pattern { "punsubscribe" } else { "unsubscribe" };
        if command.len() > 1 {
            for name in command.from(1) {
                let was_subscribed = self.names(is_pattern).remove(name);
                self.confirm_end(is_pattern, name, was_subscribed);
            }
            return Ok(());
        }
        if self.names(is_pattern).is_empty() {
            let confirmation = self.confirmation(kind, None);
            self.out.append(confirmation);
        }
        while let Some(name) = self.names(is_pattern).pop_first() {
            self.confirm_end(is_pattern, &name, true);
        }
        Ok(())
    }

    /// Confirms the end of a subscription that the session does not have any more, or has never had.
    fn confirm_end(&mut self, is_pattern: bool, name: &[u8], was_subscribed: bool) {
        if was_subscribed {
            self.end_subscription(is_pattern, name);
        }
        let kind = if is_pattern { "punsubscribe" } else { "unsubscribe" };
        let confirmation = self.confirmation(kind, Some(name));
        self.out.append(confirmation);
        if self.out.len() > FLUSHED_BYTES {
            self.flush();
        }
    }

    fn end_subscription(&mut self, is_pattern: bool, name: &[u8]) {
        self.shared.around.hub.unsubscribe(is_pattern, name, self.id);
        self.kept_bytes -= subscription_bytes(name);
    }

    pub(super) fn unsubscribe_all(&mut self) {
        for is_pattern in [false, true] {
            while let Some(name) = self.names(is_pattern).pop_first() {
                self.end_subscription(is_pattern, &name);
            }
        }
        if let Some(mailbox) = &self.mailbox {
            mailbox.set_subscriber(None);
        }
    }

    /// Replies to PING as a subscriber expects it in version 2.
    pub(super) fn pong_to_listener(&mut self, text: &[u8]) -> bool {
        let is_listening = !self.channels.is_empty() || !self.patterns.is_empty();
        if !is_listening || self.out.protocol == Protocol::Resp3 {
            return false;
        }
        let before = self.out.len();
        self.out.array(2);
        self.out.bulk(b"pong");
        self.out.bulk(text);
        if let Err(fault) = self.out.check() {
            self.out.truncate(before);
            self.out.error(&fault.to_string());
        }
        true
    }
}

/// Writes what comes into the mailbox. Returns false if the connection cannot go on: the client does not read, or may
/// not listen any more.
fn write_from(mailbox: &Mailbox, mut stream: &TcpStream, host: &dyn Host) -> bool {
    let mut asked = Instant::now();
    loop {
        let taken = mailbox.take(ASK);
        if asked.elapsed() >= ASK {
            if !may_listen(mailbox, host) {
                let _ = stream.write_all(format!("-{INVALID_TOKEN}\r\n").as_bytes());
                return false;
            }
            asked = Instant::now();
        }
        match taken {
            Taken::Piece(piece) if stream.write_all(piece.bytes()).is_err() => return false,
            Taken::Piece(_) | Taken::Nothing => {}
            Taken::End => return true,
        }
    }
}

/// Returns whether the subscriber's token is valid, if there are a subscriber and tokens.
fn may_listen(mailbox: &Mailbox, host: &dyn Host) -> bool {
    match mailbox.subscriber() {
        Some(Subscriber(token)) if host.needs_token() => {
            token.is_some_and(|token| host.permission(&token) > Permission::Nothing)
        }
        _ => true,
    }
}
