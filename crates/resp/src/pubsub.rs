//! Channels, and who listens to them.
//!
//! 1. A subscriber has a mailbox, from which a thread of its connection writes. A publisher waits for no subscriber.
//! 2. A mailbox is bounded, and all messages that wait take part of the memory of long replies. A subscriber for whose
//!    messages there is no space is disconnected; it does not miss messages silently. A message is made only if there
//!    is space for it.
//! 3. A mailbox has the token with which its connection subscribed, because a subscriber sends no further commands with
//!    which the token would be checked again.

use crate::fault::Done;
use crate::glob;
use crate::room::{Room, Share};
use crate::wire::reply::{Out, Protocol};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most bytes that wait in a mailbox.
const MOST_WAITING_BYTES: usize = 8 << 20;
/// What each piece takes beside its bytes.
const EACH_BYTES: usize = 48;
/// The most bytes of a message beside its channel, pattern and text.
const FRAME_BYTES: usize = 128;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What waits to be written to a connection.
#[derive(Debug)]
pub struct Mailbox {
    state: Mutex<Waiting>,
    changed: Condvar,
    stream: Arc<TcpStream>,
}

#[derive(Debug)]
struct Waiting {
    pieces: VecDeque<Piece>,
    bytes: usize,
    /// The part of `bytes` that messages have, and their memory. Replies bring theirs.
    message_bytes: usize,
    share: Share,
    is_closed: bool,
    protocol: Protocol,
    /// Who subscribed; `None` while nobody has.
    subscriber: Option<Subscriber>,
}

/// Replies, or a message.
#[derive(Debug)]
struct Piece {
    out: Out,
    bytes: usize,
    is_message: bool,
}

/// The token of a client that has subscribed, if it has one.
#[derive(Clone, Debug)]
pub struct Subscriber(pub Option<Vec<u8>>);

/// What a look into a mailbox finds.
#[derive(Debug)]
pub enum Taken {
    /// The next piece.
    Piece(Out),
    /// Nothing came in time.
    Nothing,
    /// Nothing will come any more.
    End,
}

impl Mailbox {
    /// Creates the mailbox of a connection.
    pub fn new(stream: Arc<TcpStream>, protocol: Protocol, room: &Arc<Room>) -> Self {
        let state = Waiting {
            pieces: VecDeque::new(),
            bytes: 0,
            message_bytes: 0,
            share: Share::new(room),
            is_closed: false,
            protocol,
            subscriber: None,
        };
        Mailbox { state: Mutex::new(state), changed: Condvar::new(), stream }
    }

    /// Changes the version of messages.
    pub fn set_protocol(&self, protocol: Protocol) {
        locked(&self.state).protocol = protocol;
    }

    /// Changes who has subscribed.
    pub fn set_subscriber(&self, subscriber: Option<Subscriber>) {
        locked(&self.state).subscriber = subscriber;
    }

    /// Returns who has subscribed.
    pub fn subscriber(&self) -> Option<Subscriber> {
        locked(&self.state).subscriber.clone()
    }

    /// Adds replies, once there is space for them. Returns false if the connection has ended.
    pub fn reply(&self, replies: Out) -> bool {
        let mut state = self.with_space();
        if !state.is_closed {
            let bytes = replies.len() + EACH_BYTES;
            state.bytes += bytes;
            state.pieces.push_back(Piece { out: replies, bytes, is_message: false });
            self.changed.notify_all();
        }
        !state.is_closed
    }

    /// Waits until there is space. Returns false if the connection has ended.
    pub fn wait_for_space(&self) -> bool {
        !self.with_space().is_closed
    }

    fn with_space(&self) -> MutexGuard<'_, Waiting> {
        let is_full = |state: &mut Waiting| state.bytes > MOST_WAITING_BYTES / 2 && !state.is_closed;
        self.changed.wait_while(locked(&self.state), is_full).unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a message of at most `bytes` without waiting. Returns false if there was no space for it, and so the
    /// subscriber was disconnected; the message is not made then.
    fn deliver(&self, bytes: usize, message: impl FnOnce(Protocol) -> Out) -> bool {
        let mut state = locked(&self.state);
        if state.is_closed {
            return true;
        }
        let bytes = bytes + EACH_BYTES;
        let message_bytes = state.message_bytes + bytes;
        if state.bytes + bytes > MOST_WAITING_BYTES || !state.share.set(message_bytes) {
            drop(state);
            self.close();
            let _ = self.stream.shutdown(Shutdown::Both);
            return false;
        }
        let out = message(state.protocol);
        state.bytes += bytes;
        state.message_bytes = message_bytes;
        state.pieces.push_back(Piece { out, bytes, is_message: true });
        self.changed.notify_all();
        true
    }

    /// Returns the next piece, and waits for it for at most `time`.
    pub fn take(&self, time: Duration) -> Taken {
        let is_idle = |state: &mut Waiting| state.pieces.is_empty() && !state.is_closed;
        let waited = self.changed.wait_timeout_while(locked(&self.state), time, is_idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let Some(piece) = state.pieces.pop_front() else {
            return if state.is_closed { Taken::End } else { Taken::Nothing };
        };
        state.bytes -= piece.bytes;
        if piece.is_message {
            state.message_bytes -= piece.bytes;
            let message_bytes = state.message_bytes;
            state.share.shrink(message_bytes);
        }
        self.changed.notify_all();
        Taken::Piece(piece.out)
    }

    /// Accepts nothing more. What waits is still written.
    pub fn close(&self) {
        locked(&self.state).is_closed = true;
        self.changed.notify_all();
    }
}

/// The subscribers of all channels and patterns.
#[derive(Debug, Default)]
pub struct Hub {
    topics: Mutex<Topics>,
}

type Listeners = HashMap<u64, Arc<Mailbox>>;

#[derive(Debug, Default)]
struct Topics {
    channels: BTreeMap<Vec<u8>, Listeners>,
    patterns: BTreeMap<Vec<u8>, Listeners>,
}

impl Topics {
    fn of(&mut self, is_pattern: bool) -> &mut BTreeMap<Vec<u8>, Listeners> {
        if is_pattern { &mut self.patterns } else { &mut self.channels }
    }
}

impl Hub {
    /// Subscribes the connection `id` to a channel or a pattern. The confirmation comes before the first message.
    pub fn subscribe(
        &self,
        is_pattern: bool,
        name: &[u8],
        id: u64,
        mailbox: &Arc<Mailbox>,
        confirmation: Out,
    ) {
        let mut topics = locked(&self.topics);
        mailbox.deliver(confirmation.len(), |_| confirmation);
        topics.of(is_pattern).entry(name.to_vec()).or_default().insert(id, Arc::clone(mailbox));
    }

    /// Ends the subscription of the connection `id` to a channel or a pattern.
    pub fn unsubscribe(&self, is_pattern: bool, name: &[u8], id: u64) {
        let mut topics = locked(&self.topics);
        let topics = topics.of(is_pattern);
        if let Some(listeners) = topics.get_mut(name) {
            listeners.remove(&id);
            if listeners.is_empty() {
                topics.remove(name);
            }
        }
    }

    /// Returns to how many subscriptions a message on this channel would go.
    pub fn listeners(&self, channel: &[u8]) -> usize {
        let topics = locked(&self.topics);
        let exact = topics.channels.get(channel).map_or(0, HashMap::len);
        let matching = topics.patterns.iter().filter(|(pattern, _)| glob::matches(pattern, channel));
        exact + matching.map(|(_, listeners)| listeners.len()).sum::<usize>()
    }

    /// Delivers a message to all subscribers of the channel. Returns to how many, and how many of them were
    /// disconnected because they do not read.
    pub fn publish(&self, channel: &[u8], text: &[u8]) -> (usize, u64) {
        let topics = locked(&self.topics);
        let (mut reached, mut lost) = (0, 0);
        let mut deliver = |mailbox: &Mailbox, pattern: Option<&[u8]>| {
            reached += 1;
            let bytes = channel.len() + pattern.map_or(0, <[u8]>::len) + text.len() + FRAME_BYTES;
            let is_alive = mailbox.deliver(bytes, |protocol| message(protocol, channel, pattern, text));
            lost += u64::from(!is_alive);
        };
        for mailbox in topics.channels.get(channel).into_iter().flat_map(HashMap::values) {
            deliver(mailbox, None);
        }
        for (pattern, listeners) in &topics.patterns {
            if glob::matches(pattern, channel) {
                listeners.values().for_each(|mailbox| deliver(mailbox, Some(pattern)));
            }
        }
        (reached, lost)
    }

    /// Calls `each` on the channels that have subscribers and match the pattern.
    ///
    /// # Errors
    /// That of `each`.
    pub fn each_channel(&self, pattern: &[u8], each: impl FnMut(&[u8]) -> Done) -> Done {
        let topics = locked(&self.topics);
        let names = topics.channels.keys().map(Vec::as_slice);
        names.filter(|name| glob::matches(pattern, name)).try_for_each(each)
    }

    /// Returns the number of subscribers of a channel, without those of patterns.
    pub fn subscribers(&self, channel: &[u8]) -> usize {
        locked(&self.topics).channels.get(channel).map_or(0, HashMap::len)
    }

    /// Returns the number of patterns with subscribers.
    pub fn patterns(&self) -> usize {
        locked(&self.topics).patterns.len()
    }

    /// Returns whether anybody may listen to changes of keys.
    pub fn wants_changes(&self) -> bool {
        let topics = locked(&self.topics);
        let is_about_keys = |name: &Vec<u8>| name.starts_with(b"__key");
        // A pattern that begins otherwise can match, too, if it begins with a wildcard.
        let can_match = |pattern: &Vec<u8>| {
            is_about_keys(pattern) || pattern.first().is_some_and(|first| b"*?[_\\".contains(first))
        };
        topics.channels.keys().any(is_about_keys) || topics.patterns.keys().any(can_match)
    }
}

fn message(protocol: Protocol, channel: &[u8], pattern: Option<&[u8]>, text: &[u8]) -> Out {
    let mut out = Out::new(protocol);
    out.push(if pattern.is_some() { 4 } else { 3 });
    out.bulk(if pattern.is_some() { b"pmessage" } else { b"message" });
    if let Some(pattern) = pattern {
        out.bulk(pattern);
    }
    out.bulk(channel);
    out.bulk(text);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn mailbox() -> Arc<Mailbox> {
        mailbox_in(&Room::new(64 << 20))
    }

    fn mailbox_in(room: &Arc<Room>) -> Arc<Mailbox> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        Arc::new(Mailbox::new(Arc::new(stream), Protocol::Resp2, room))
    }

    fn taken(mailbox: &Mailbox) -> Option<Out> {
        match mailbox.take(Duration::ZERO) {
            Taken::Piece(piece) => Some(piece),
            Taken::Nothing | Taken::End => None,
        }
    }

    fn ok() -> Out {
        let mut out = Out::new(Protocol::Resp2);
        out.ok();
        out
    }

    #[test]
    fn messages_reach_channels_and_patterns() {
        let (hub, one, other) = (Hub::default(), mailbox(), mailbox());
        hub.subscribe(false, b"news", 1, &one, ok());
        hub.subscribe(true, b"n*", 2, &other, ok());
        assert_eq!(hub.listeners(b"news"), 2);
        assert_eq!(hub.publish(b"news", b"x"), (2, 0));
        for mailbox in [&one, &other] {
            assert_eq!(taken(mailbox).unwrap().bytes(), b"+OK\r\n");
        }
        assert_eq!(taken(&one).unwrap().bytes(), b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\nx\r\n");
        assert_eq!(
            taken(&other).unwrap().bytes(),
            b"*4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n$1\r\nx\r\n"
        );
        hub.unsubscribe(false, b"news", 1);
        assert_eq!((hub.publish(b"news", b"y").0, hub.publish(b"other", b"y").0), (1, 0));
        assert!(!hub.wants_changes());
        hub.subscribe(true, b"__keyevent@*", 2, &other, ok());
        assert!(hub.wants_changes());
    }

    #[test]
    fn a_subscriber_that_does_not_read_is_disconnected() {
        let (hub, one) = (Hub::default(), mailbox());
        hub.subscribe(false, b"c", 1, &one, ok());
        let lost: u64 = (0..20).map(|_| hub.publish(b"c", &vec![0; 1 << 20]).1).sum();
        assert_eq!(lost, 1);
        assert!(locked(&one.state).bytes <= MOST_WAITING_BYTES);
        while taken(&one).is_some() {}
        assert!(!one.reply(ok()));
    }

    #[test]
    fn messages_that_wait_share_a_bound_with_each_other() {
        let room = Room::new(4 << 20);
        let (hub, one, other) = (Hub::default(), mailbox_in(&room), mailbox_in(&room));
        hub.subscribe(false, b"one", 1, &one, ok());
        hub.subscribe(false, b"other", 2, &other, ok());
        assert_eq!(hub.publish(b"one", &vec![0; 3 << 20]), (1, 0));
        assert!(room.used_bytes() >= 3 << 20);
        assert_eq!(hub.publish(b"other", &vec![0; 3 << 20]), (1, 1), "no memory is left for it");
        while taken(&one).is_some() {}
        assert_eq!(room.used_bytes(), 0);
        assert_eq!(hub.publish(b"one", &vec![0; 3 << 20]), (1, 0));
    }

    #[test]
    fn a_message_that_does_not_fit_is_not_made() {
        let one = mailbox();
        let is_made = std::cell::Cell::new(false);
        let message = |_| {
            is_made.set(true);
            ok()
        };
        assert!(!one.deliver(MOST_WAITING_BYTES + 1, message) && !is_made.get());
        // What a message has beside its parts is not more than what is counted for it.
        let (channel, text) = (vec![b'c'; 10_000], vec![b't'; 1_000_000]);
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let made = message_bytes_beside(protocol, &channel, &text);
            assert!(made <= FRAME_BYTES, "{made}");
        }
    }

    fn message_bytes_beside(protocol: Protocol, channel: &[u8], text: &[u8]) -> usize {
        message(protocol, channel, Some(channel), text).len() - 2 * channel.len() - text.len()
    }
}
