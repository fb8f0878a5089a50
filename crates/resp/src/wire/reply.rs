//! Replies, in version 2 or 3 of the protocol.

use super::numbers::show_f64;
use crate::fault::{Done, Fault};
use crate::room::{Room, Share};
use std::sync::Arc;

/// The longest reply in bytes. A command that would exceed it fails.
const MOST_BYTES: usize = 256 << 20;

/// The length from which on memory for a byte string is taken before it is copied.
const LONG_BYTES: usize = 256 << 10;

/// The version of the protocol that a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Version 2: every client knows it.
    #[default]
    Resp2,
    /// Version 3, which `HELLO 3` asks for: maps, sets, doubles, pushed messages.
    Resp3,
}

/// Replies as bytes, in order.
#[derive(Debug, Default)]
pub struct Out {
    bytes: Vec<u8>,
    /// The part of the memory for long replies; `None` if all replies are short.
    share: Option<Share>,
    /// Whether a long byte string was left out because there was no memory for it. The next check fails.
    is_cut: bool,
    /// The version of the replies that are added.
    pub protocol: Protocol,
}

impl Out {
    /// Creates an empty buffer for short replies.
    pub fn new(protocol: Protocol) -> Self {
        Out { bytes: Vec::new(), share: None, is_cut: false, protocol }
    }

    /// Creates an empty buffer for replies of any length, which take memory of `room`.
    pub fn within(room: &Arc<Room>, protocol: Protocol) -> Self {
        Out { bytes: Vec::new(), share: Some(Share::new(room)), is_cut: false, protocol }
    }

    /// Fails if the replies have become too long, or those of all clients together have.
    pub fn check(&mut self) -> Done {
        if self.bytes.len() > MOST_BYTES {
            return Err(Fault::TOO_LONG_REPLY);
        }
        let fits = !self.is_cut && self.share.as_mut().is_none_or(|share| share.set(self.bytes.len()));
        if fits { Ok(()) } else { Err(Fault::TOO_MANY_REPLIES) }
    }

    /// Returns whether something was left out, so that [`Out::check`] fails.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Removes what was added after the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
        self.is_cut = false;
        self.shrink_share();
    }

    /// Gives memory back that is no longer needed.
    fn shrink_share(&mut self) {
        if let Some(share) = &mut self.share {
            share.shrink(self.bytes.len());
        }
    }

    /// Removes everything, and frees memory that a long reply has left.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(64 << 10);
        self.is_cut = false;
        self.shrink_share();
    }

    /// Adds other replies, with the memory that they have.
    pub fn append(&mut self, other: Out) {
        self.is_cut |= other.is_cut;
        if self.bytes.is_empty() {
            self.bytes = other.bytes;
        } else {
            self.bytes.extend_from_slice(&other.bytes);
        }
        match (&mut self.share, other.share) {
            (Some(own), Some(other)) => own.join(other),
            (own @ None, other) => *own = other,
            (Some(_), None) => {}
        }
    }

    /// Returns the replies with the memory that they have, and is empty afterwards.
    pub fn take(&mut self) -> Out {
        let share = self.share.as_ref().map(Share::empty);
        let empty = Out { bytes: Vec::new(), share, is_cut: false, protocol: self.protocol };
        std::mem::replace(self, empty)
    }

    fn has_room_for(&mut self, more_bytes: usize) -> bool {
        let len = self.bytes.len();
        self.share.as_mut().is_none_or(|share| share.set(len + more_bytes))
    }

    fn head(&mut self, kind: u8, number: i64) {
        use std::io::Write as _;
        self.bytes.push(kind);
        let _ = write!(self.bytes, "{number}\r\n");
    }

    fn is_3(&self) -> bool {
        self.protocol == Protocol::Resp3
    }

    /// Adds a short status.
    pub fn simple(&mut self, text: &str) {
        self.bytes.push(b'+');
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Adds `+OK`.
    pub fn ok(&mut self) {
        self.simple("OK");
    }

    /// Adds an error. Its text is one line.
    pub fn error(&mut self, text: &str) {
        self.bytes.push(b'-');
        let line = text.bytes().map(|byte| if byte.is_ascii_control() { b' ' } else { byte });
        self.bytes.extend(line);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Adds an integer.
    pub fn integer(&mut self, number: i64) {
        self.head(b':', number);
    }

    /// Adds a count.
    pub fn count(&mut self, count: usize) {
        self.integer(count as i64);
    }

    /// Adds a truth value as the integer 1 or 0.
    pub fn flag(&mut self, is_true: bool) {
        self.integer(i64::from(is_true));
    }

    /// Adds a byte string. A long one is left out if there is no memory for it, and the next [`Out::check`] fails.
    pub fn bulk(&mut self, bytes: &[u8]) {
        if bytes.len() > LONG_BYTES && !self.has_room_for(bytes.len()) {
            self.is_cut = true;
            return;
        }
        self.head(b'$', bytes.len() as i64);
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Adds a byte string, or null.
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// Adds a null in place of a byte string.
    pub fn null(&mut self) {
        self.bytes.extend_from_slice(if self.is_3() { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// Adds a null in place of an array.
    pub fn null_array(&mut self) {
        self.bytes.extend_from_slice(if self.is_3() { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// Begins an array of so many replies.
    pub fn array(&mut self, count: usize) {
        self.head(b'*', count as i64);
    }

    /// Begins a set of so many replies.
    pub fn set(&mut self, count: usize) {
        self.head(if self.is_3() { b'~' } else { b'*' }, count as i64);
    }

    /// Begins a map of so many pairs.
    pub fn map(&mut self, pairs: usize) {
        if self.is_3() { self.head(b'%', pairs as i64) } else { self.array(pairs * 2) }
    }

    /// Begins a message of so many parts that no command asked for.
    pub fn push(&mut self, count: usize) {
        self.head(if self.is_3() { b'>' } else { b'*' }, count as i64);
    }

    /// Adds a number with a fraction.
    pub fn double(&mut self, number: f64) {
        let text = show_f64(number);
        if !self.is_3() {
            return self.bulk(text.as_bytes());
        }
        self.bytes.push(b',');
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Adds a text that people read.
    pub fn verbatim(&mut self, text: &str) {
        if !self.is_3() {
            return self.bulk(text.as_bytes());
        }
        self.head(b'=', text.len() as i64 + 4);
        self.bytes.extend_from_slice(b"txt:");
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }
}
