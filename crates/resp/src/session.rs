//! One connection, on a thread of its own.
//!
//! 1. The thread reads what has arrived, runs all complete commands, and writes the replies, in order.
//! 2. Commands that write are collected while more commands are at hand, and committed together
//!    ([`crate::commit`]); quick reads among them run in the same transaction. Other reads run at once, in a snapshot.
//! 3. No reply is written before the commit that it speaks of is as durable as the door promises.
//! 4. What is held for a client is bounded. Replies are written when there are 64 KiB of them; while the client does
//!    not read, nothing more of what it sends is read, and after a minute the connection is closed.
//! 5. What a client sent and the session still holds is counted in the memory that all connections share: commands that
//!    are incomplete, run or wait for EXEC, and names and keys that stay ([`Session::keep`]).
//! 6. A client that needs a token and does not send one is disconnected after a time.

mod connection;
mod subscriptions;
mod waiting;

use crate::commands::{self, COMMANDS, Effect};
use crate::commit::{Job, Work, has_writes};
use crate::fault::Fault;
use crate::host::Permission;
use crate::pubsub::Mailbox;
use crate::room::Share;
use crate::shared::Shared;
use crate::space::{Source, Space};
use crate::watched::{self, Watches, watch_bytes};
use crate::wire::reply::{Out, Protocol};
use crate::wire::request::{Command, Limits, Parser};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// The length of replies from which on they are written.
const FLUSHED_BYTES: usize = 64 << 10;
/// The most commands, and bytes of them, that are committed together for one connection.
const MOST_PENDING: usize = 1024;
const MOST_PENDING_BYTES: usize = 1 << 20;
/// The longest name of a channel, of a pattern or of a client.
const MOST_NAME_BYTES: usize = 64 << 10;
const _: () = assert!(MOST_NAME_BYTES == 65536, "the errors say so");
/// What a command takes beside its bytes while it waits for EXEC.
const QUEUED_BYTES: usize = 128;
/// The number of bytes that are read at a time.
const READ_BYTES: usize = 16 << 10;
/// The last reply to a client whose token became invalid while it waited or listened.
const INVALID_TOKEN: &str = "NOAUTH the token of this connection is no longer valid";
/// The shortest time between two warnings about requests of HTTP.
const HTTP_WARNINGS: Duration = Duration::from_secs(60);
/// What a connection is refused if all of them together hold too much of what clients sent.
const TOO_MANY_COMMANDS: Fault =
    Fault::fixed("ERR the server is receiving too many long commands; try again later");
/// How often a command is tried whose snapshot expired, or whose table was dropped.
const ATTEMPTS: usize = 3;

/// The commands after MULTI.
#[derive(Debug, Default)]
struct Multi {
    commands: Vec<(usize, Command)>,
    bytes: usize,
    /// Whether one of them was refused, so that EXEC fails.
    is_broken: bool,
}

/// A connection.
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
    stream: Arc<TcpStream>,
    id: u64,
    parser: Parser,
    /// The part of the memory for commands that are being received.
    receiving: Share,
    out: Out,
    token: Option<Vec<u8>>,
    /// What the client may do; it is asked again for each group of commands.
    permission: Option<Permission>,
    /// When the client was last known to be allowed something, or connected.
    permitted_at: Instant,
    name: Vec<u8>,
    /// The bytes of names and keys that stay: of the client, of subscriptions, of WATCH.
    kept_bytes: usize,
    database: usize,
    /// The length of the command that runs.
    running_bytes: usize,
    pending: Vec<(usize, Command)>,
    pending_bytes: usize,
    multi: Option<Multi>,
    watched: Watches,
    channels: BTreeSet<Vec<u8>>,
    patterns: BTreeSet<Vec<u8>>,
    mailbox: Option<Arc<Mailbox>>,
    writer: Option<std::thread::JoinHandle<()>>,
    is_over: bool,
}

impl Session {
    /// Creates the session of an accepted connection.
    pub fn new(shared: Arc<Shared>, stream: Arc<TcpStream>, id: u64) -> Self {
        Session {
            receiving: Share::new(&shared.receiving),
            out: Out::within(&shared.around.replying, Protocol::default()),
            shared,
            stream,
            id,
            parser: Parser::default(),
            token: None,
            permission: None,
            permitted_at: Instant::now(),
            name: Vec::new(),
            kept_bytes: 0,
            database: 0,
            running_bytes: 0,
            pending: Vec::new(),
            pending_bytes: 0,
            multi: None,
            watched: Watches::new(),
            channels: BTreeSet::new(),
            patterns: BTreeSet::new(),
            mailbox: None,
            writer: None,
            is_over: false,
        }
    }

    /// Serves the connection until its end.
    pub fn run(mut self) {
        let mut piece = vec![0; READ_BYTES];
        while !self.is_over && !self.shared.is_ending.load(Ordering::SeqCst) {
            let count = match (&*self.stream).read(&mut piece) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // Nothing came for a while, see `welcome`.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    self.permission = None;
                    self.check_patience();
                    self.flush();
                    continue;
                }
                Err(_) => break,
            };
            self.parser.feed(&piece[..count]);
            self.permission = None;
            let done = self.run_commands();
            self.finish_pending();
            if let Err(fault) = done {
                self.out.error(&fault.to_string());
                self.is_over = true;
            }
            self.check_patience();
            self.flush();
            self.parser.shrink(FLUSHED_BYTES);
            self.out.clear();
        }
        self.end();
    }

    fn end(&mut self) {
        self.unsubscribe_all();
        if let Some(mailbox) = &self.mailbox {
            mailbox.close();
        }
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }

    /// Runs the commands that have arrived completely.
    fn run_commands(&mut self) -> Result<(), Fault> {
        while !self.is_over {
            let limits = Limits {
                command_bytes: self.shared.options.command_bytes,
                is_trusted: self.permission() > Permission::Nothing,
            };
            let next = self.parser.next(limits)?;
            self.running_bytes = next.as_ref().map_or(0, Command::size_bytes);
            if !self.receiving.set(self.held_bytes()) {
                return Err(TOO_MANY_COMMANDS);
            }
            let Some(command) = next else { break };
            self.take(command);
            if self.out.len() > FLUSHED_BYTES {
                self.flush();
            }
        }
        Ok(())
    }

    /// Returns the bytes that the client sent and that are held.
    fn held_bytes(&self) -> usize {
        let queued = self.multi.as_ref().map_or(0, |multi| multi.bytes);
        self.parser.held_bytes() + self.running_bytes + self.pending_bytes + queued + self.kept_bytes
    }

    /// Counts bytes of names and keys that stay. The session takes them off again when it drops the names.
    ///
    /// # Errors
    /// If all connections together hold too much.
    fn keep(&mut self, bytes: usize) -> Result<(), Fault> {
        if !self.receiving.set(self.held_bytes() + bytes) {
            return Err(TOO_MANY_COMMANDS);
        }
        self.kept_bytes += bytes;
        Ok(())
    }

    /// Ends the connection of a client that needs a token, and has had the time to send one.
    fn check_patience(&mut self) {
        if self.is_over {
            return;
        }
        if self.permission() > Permission::Nothing {
            self.permitted_at = Instant::now();
        } else if self.permitted_at.elapsed() >= self.shared.options.authentication {
            self.out.error("NOAUTH this connection has not sent a valid token in time");
            self.is_over = true;
        }
    }

    fn permission(&mut self) -> Permission {
        if let Some(permission) = self.permission {
            return permission;
        }
        let host = &self.shared.host;
        let permission = match &self.token {
            _ if !host.needs_token() => Permission::Write,
            Some(token) => host.permission(token),
            None => Permission::Nothing,
        };
        self.permission = Some(permission);
        permission
    }

    /// Ends the connection of a client of HTTP, without a reply.
    fn refuse_http(&mut self) {
        self.is_over = true;
        let mut warned = self.shared.warned_of_http.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.is_none_or(|at| at.elapsed() >= HTTP_WARNINGS) {
            *warned = Some(Instant::now());
            let peer = self.stream.peer_addr().map_or_else(|_| "unknown".to_owned(), |peer| peer.to_string());
            tracing::warn!(
                peer,
                "a request of HTTP came to the address of Redis' clients: the connection was closed, and \
                 nothing of the request was run. A page in a browser may have sent it"
            );
        }
    }

    /// Adds an error after the replies of what came before.
    fn refuse(&mut self, fault: &Fault) {
        self.finish_pending();
        if let Some(multi) = &mut self.multi {
            multi.is_broken = true;
        }
        self.out.error(&fault.to_string());
    }

    /// Runs a command, or puts it to those that will be committed together.
    fn take(&mut self, command: Command) {
        if command.is_http() {
            return self.refuse_http();
        }
        let Some(index) = commands::find(&command[0]) else {
            // Relaxed: this is a counter.
            self.shared.around.figures.unknown.fetch_add(1, Ordering::Relaxed);
            return self.refuse(&commands::unknown(&command));
        };
        let spec = &COMMANDS[index];
        if let Err(fault) = self.check(index, &command) {
            return self.refuse(&fault);
        }
        let is_control = matches!(spec.name, "exec" | "discard" | "multi" | "watch" | "quit" | "reset");
        if let Some(multi) = &mut self.multi
            && !is_control
        {
            if spec.effect == Effect::Connection && spec.name != "select" {
                let name = spec.name;
                return self.refuse(&Fault::new(format!("ERR {name} is not supported inside MULTI")));
            }
            multi.bytes += command.size_bytes() + QUEUED_BYTES;
            if multi.bytes > self.shared.options.command_bytes {
                return self.refuse(&Fault::fixed("ERR the transaction is too long"));
            }
            multi.commands.push((index, command));
            return self.out.simple("QUEUED");
        }
        match spec.effect {
            Effect::Connection => {
                self.finish_pending();
                let begun = Instant::now();
                let before = self.out.len();
                let done = self.run_own(spec.name, &command);
                if let Err(fault) = &done {
                    self.out.truncate(before.min(self.out.len()));
                    self.out.error(&fault.to_string());
                }
                self.shared.around.figures.note(index, begun.elapsed(), done.is_err());
            }
            Effect::Read
                if spec.name == "ping" && self.pong_to_listener(command.get(1).unwrap_or_default()) => {}
            Effect::Read | Effect::Publish if self.pending.is_empty() || !spec.is_quick => {
                self.finish_pending();
                self.read(&[(index, command)], None);
            }
            Effect::Block => {
                self.finish_pending();
                self.wait_for(index, command);
            }
            Effect::Read | Effect::Publish | Effect::Write => {
                self.pending_bytes += command.size_bytes();
                self.pending.push((index, command));
                if self.pending.len() >= MOST_PENDING || self.pending_bytes >= MOST_PENDING_BYTES {
                    self.finish_pending();
                }
            }
        }
    }

    /// Fails if the client may not send the command now.
    fn check(&mut self, index: usize, command: &Command) -> Result<(), Fault> {
        let spec = &COMMANDS[index];
        let is_public = matches!(spec.name, "auth" | "hello" | "quit" | "reset");
        let permission = self.permission();
        if permission == Permission::Nothing && !is_public {
            return Err(Fault::fixed("NOAUTH Authentication required."));
        }
        spec.check(command.len())?;
        let needs_write = spec.writes() || spec.effect == Effect::Publish;
        if needs_write && permission < Permission::Write {
            let name = spec.name;
            return Err(Fault::new(format!(
                "NOPERM this token has no permission to run the '{name}' command"
            )));
        }
        let is_listening = !self.channels.is_empty() || !self.patterns.is_empty();
        let is_allowed =
            spec.name.ends_with("subscribe") || matches!(spec.name, "ping" | "quit" | "reset" | "hello");
        if is_listening && self.out.protocol == Protocol::Resp2 && !is_allowed {
            let name = spec.name;
            return Err(Fault::new(format!(
                "ERR Can't execute '{name}': only (P)SUBSCRIBE / (P)UNSUBSCRIBE / PING / QUIT / RESET are \
                 allowed in this context"
            )));
        }
        Ok(())
    }

    /// Commits the commands that were collected, and adds their replies.
    fn finish_pending(&mut self) {
        let commands = Arc::new(std::mem::take(&mut self.pending));
        self.pending_bytes = 0;
        let mut from = 0;
        while from < commands.len() {
            let work = Work::Commands(Arc::clone(&commands), from);
            let job = Job::new(self.database, self.out.protocol, work);
            match self.shared.committer.run(&job, &self.shared.around) {
                Ok(outcome) => {
                    self.out.append(outcome.replies);
                    from += outcome.ran;
                }
                Err(reply) => {
                    commands[from..].iter().for_each(|_| self.out.error(&reply));
                    return;
                }
            }
            if self.out.len() > FLUSHED_BYTES {
                self.flush();
            }
        }
    }

    /// Runs commands that only read in a snapshot, and adds their replies. If there are watched keys, the replies are
    /// an array, or null if one of the keys has changed.
    fn read(&mut self, commands: &[(usize, Command)], unit: Option<&Watches>) {
        let before = self.out.len();
        for attempt in 1..=ATTEMPTS {
            match self.try_read(commands, unit) {
                Ok(()) => return,
                Err(Fault::Database(error)) if attempt < ATTEMPTS => {
                    self.out.truncate(before);
                    if error.kind() == pando::ErrorKind::Missing {
                        let _ = self.shared.committer.find_tables();
                    }
                }
                Err(fault) => {
                    self.out.truncate(before);
                    return self.out.error(&fault.to_string());
                }
            }
        }
    }

    fn try_read(&mut self, commands: &[(usize, Command)], unit: Option<&Watches>) -> Result<(), Fault> {
        let (tables, around) = (self.shared.committer.tables_for(self.database)?, &self.shared.around);
        let snapshot = self.shared.host.database().snapshot()?;
        let source = Source::Snapshot(&snapshot);
        let mut space = Space::new(source, &tables, self.database, &self.shared.committer.versions);
        if let Some(watched) = unit {
            if !watched::are_unchanged(watched, &mut space)? {
                self.out.null_array();
                return Ok(());
            }
            self.out.array(commands.len());
        }
        for (index, command) in commands {
            commands::run(*index, command, &mut space, &mut self.out, around)?;
        }
        self.database = space.database;
        for (channel, text) in &space.messages {
            let (_, lost) = around.hub.publish(channel, text);
            around.figures.overflowed.fetch_add(lost, Ordering::Relaxed); // Relaxed: this is a counter.
        }
        Ok(())
    }

    /// Forgets the watched keys, and returns them.
    fn unwatch(&mut self) -> Watches {
        let watched = std::mem::take(&mut self.watched);
        self.kept_bytes -= watched.keys().map(|(_, key)| watch_bytes(key)).sum::<usize>();
        watched
    }

    /// Runs the commands after MULTI.
    fn execute(&mut self, multi: Multi) -> Result<(), Fault> {
        let watched = self.unwatch();
        if multi.is_broken {
            return Err(Fault::fixed("EXECABORT Transaction discarded because of previous errors."));
        }
        if !has_writes(&multi.commands) {
            self.read(&multi.commands, Some(&watched));
            return Ok(());
        }
        let job = Job::new(self.database, self.out.protocol, Work::Unit(multi.commands, watched));
        match self.shared.committer.run(&job, &self.shared.around) {
            Ok(outcome) => {
                self.database = outcome.database;
                self.out.append(outcome.replies);
            }
            Err(reply) => self.out.error(&reply),
        }
        Ok(())
    }

    /// Writes the replies.
    fn flush(&mut self) {
        if self.out.len() == 0 {
            return;
        }
        let is_written = match &self.mailbox {
            Some(mailbox) => mailbox.reply(self.out.take()),
            None => (&*self.stream).write_all(self.out.bytes()).is_ok(),
        };
        self.out.truncate(0);
        self.is_over |= !is_written;
    }
}
