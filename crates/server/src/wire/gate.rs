//! Checks the bytes of a connection before the HTTP library reads them, for errors that cannot be detected afterwards.
//!
//! 1. [`Gate::look`] follows the heads and bodies of requests through pieces of any size. Of a head it reads the
//!    beginning and the end of each line; it skips bodies.
//! 2. It refuses forms of a head that two programs may understand differently, so that one of them takes for a body
//!    what the other takes for the next request (RFC 9112, 6.1 and 11.2): `content-length` beside `transfer-encoding`,
//!    lines that end in a line feed alone, and header lines that continue in the next line.
//! 3. Most reads return one whole head, of a request without a body. [`is_plain_head`] recognizes it in one pass, and
//!    the gate stays as it was.
//! 4. It makes a refused head unreadable for the library, which then refuses it and closes the connection as for any
//!    malformed bytes. The library's refusals have no body: [`Refusal`] adds one.

use crate::wire::problem::Problem;
use axum::http::StatusCode;
use memchr::memchr;

/// The number of bytes of a line that are kept if it arrives in several pieces: enough for the headers that matter.
const KEPT_LINE_BYTES: usize = 256;
/// A byte that no valid head contains.
const UNREADABLE: u8 = 0;

/// The bytes that replace a head that cannot be understood. The library parses a head again only when it has ended.
pub const UNREADABLE_END: &[u8] = b"\0\r\n\r\n";

/// The position of the next byte in the stream of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the request line.
    Between,
    /// Within a head, after the request line.
    Head,
    /// Within a body: the number of bytes that are left of the body.
    Body(u64),
    /// Within a chunk: the number of bytes that are left of it. The length of the next chunk follows.
    Chunk(u64),
    /// At the length of a chunk.
    ChunkLength,
    /// After the last chunk.
    Trailers,
    /// After a refusal: no further byte is checked.
    Refused,
}

/// Checks the bytes that are read from one connection.
#[derive(Debug)]
pub struct Gate {
    place: Place,
    /// The beginning of a line that has not ended, and the last byte of it.
    line: Vec<u8>,
    last: u8,
    length: Option<u64>,
    is_chunked: bool,
    refusal: Option<&'static str>,
}

impl Gate {
    /// Creates a gate for a new connection.
    pub fn new() -> Self {
        let place = Place::Between;
        Gate { place, line: Vec::new(), last: 0, length: None, is_chunked: false, refusal: None }
    }

    /// Returns whether a head has begun and not ended.
    pub fn is_within_head(&self) -> bool {
        self.place == Place::Head || (self.place == Place::Between && !self.line.is_empty())
    }

    /// Returns whether the gate has refused a head.
    pub fn is_closed(&self) -> bool {
        self.place == Place::Refused
    }

    /// Returns why a head was refused, if one was.
    pub fn refusal(&self) -> Option<&'static str> {
        self.refusal
    }

    /// Checks bytes that were read. Returns how many of them to hand on. If they are refused, the last of those is made
    /// unreadable.
    pub fn look(&mut self, bytes: &mut [u8]) -> usize {
        if self.place == Place::Between && self.line.is_empty() && is_plain_head(bytes) {
            return bytes.len();
        }
        let mut at = 0;
        while at < bytes.len() {
            match self.place {
                Place::Refused => return at,
                Place::Body(left) | Place::Chunk(left) => {
                    let step = left.min((bytes.len() - at) as u64);
                    at += step as usize;
                    self.skipped(left - step);
                }
                _ => {
                    let Some(length) = memchr(b'\n', &bytes[at..]) else {
                        self.keep(&bytes[at..]);
                        break;
                    };
                    let end = at + length;
                    if let Err(why) = self.line_ends(&bytes[at..end]) {
                        self.refusal = Some(why);
                        self.place = Place::Refused;
                        bytes[end] = UNREADABLE;
                        return end + 1;
                    }
                    at = end + 1;
                }
            }
        }
        bytes.len()
    }

    fn skipped(&mut self, left: u64) {
        self.place = match self.place {
            Place::Body(_) if left == 0 => Place::Between,
            Place::Body(_) => Place::Body(left),
            _ if left == 0 => Place::ChunkLength,
            _ => Place::Chunk(left),
        };
    }

    fn keep(&mut self, piece: &[u8]) {
        let room = KEPT_LINE_BYTES.saturating_sub(self.line.len());
        self.line.extend_from_slice(&piece[..piece.len().min(room)]);
        self.last = piece.last().copied().unwrap_or(self.last);
    }

    /// Handles the end of a line. `piece` is its last piece, without the line feed.
    fn line_ends(&mut self, piece: &[u8]) -> Result<(), &'static str> {
        if self.line.is_empty() {
            // Usually a line arrives in one piece.
            return self.line_is(piece, piece.last().copied().unwrap_or_default());
        }
        self.keep(piece);
        let (line, last) = (std::mem::take(&mut self.line), self.last);
        self.line_is(&line, last)
    }

    fn line_is(&mut self, line: &[u8], last: u8) -> Result<(), &'static str> {
        let is_empty = line == b"\r";
        match self.place {
            // The library reports a malformed chunk length. What follows it cannot be interpreted.
            Place::ChunkLength => self.chunk(line),
            Place::Trailers if is_empty => self.place = Place::Between,
            Place::Trailers => {}
            _ if last != b'\r' => {
                return Err("a line of the head ends in a line feed without a carriage return");
            }
            Place::Between if !is_empty => {
                self.place = Place::Head;
                (self.length, self.is_chunked) = (None, false);
            }
            Place::Head if is_empty => self.head_ends(),
            Place::Head => self.header(line)?,
            _ => {}
        }
        Ok(())
    }

    fn header(&mut self, line: &[u8]) -> Result<(), &'static str> {
        match line.first() {
            Some(b' ' | b'\t') => return Err("a header continues in the next line, which is not allowed"),
            Some(b'c' | b'C') => {
                if let Some(value) = value_of(line, b"content-length") {
                    let digits = std::str::from_utf8(value).ok();
                    self.length = Some(digits.and_then(|digits| digits.parse().ok()).unwrap_or_default());
                }
            }
            Some(b't' | b'T') => self.is_chunked |= value_of(line, b"transfer-encoding").is_some(),
            _ => return Ok(()),
        }
        match self.is_chunked && self.length.is_some() {
            true => Err("`content-length` cannot be combined with `transfer-encoding`"),
            false => Ok(()),
        }
    }

    fn head_ends(&mut self) {
        self.place = match self.length {
            _ if self.is_chunked => Place::ChunkLength,
            Some(length) if length > 0 => Place::Body(length),
            _ => Place::Between,
        };
    }

    fn chunk(&mut self, line: &[u8]) {
        let digits: &[u8] = line.split(|byte| !byte.is_ascii_hexdigit()).next().unwrap_or_default();
        let length = std::str::from_utf8(digits).ok().and_then(|digits| u64::from_str_radix(digits, 16).ok());
        self.place = match length {
            Some(0) => Place::Trailers,
            // The two bytes after the chunk are included.
            Some(length) => Place::Chunk(length.saturating_add(2)),
            None => Place::Refused,
        };
    }
}

/// Returns whether `bytes` are one head in which there is nothing to refuse, and after which no body follows. `false`
/// means that the lines have to be looked at one by one.
#[inline]
fn is_plain_head(bytes: &[u8]) -> bool {
    if !bytes.ends_with(b"\r\n\r\n") {
        return false;
    }
    let (words, rest) = bytes.as_chunks::<8>();
    for (number, word) in words.iter().enumerate() {
        let mut ends = line_feeds(u64::from_le_bytes(*word));
        while ends != 0 {
            if !is_plain_end(bytes, number * 8 + (ends.trailing_zeros() / 8) as usize) {
                return false;
            }
            ends &= ends - 1;
        }
    }
    let from = bytes.len() - rest.len();
    rest.iter().zip(from..).all(|(byte, at)| *byte != b'\n' || is_plain_end(bytes, at))
}

/// Returns a word in which the highest bit of each byte says whether that byte of `word` is a line feed (Warren,
/// Hacker's Delight, 6-1).
#[inline]
fn line_feeds(word: u64) -> u64 {
    const LINE_FEEDS: u64 = u64::from_le_bytes([b'\n'; 8]);
    const LOW_BITS: u64 = u64::from_le_bytes([0x7f; 8]);
    let zero = word ^ LINE_FEEDS;
    !(((zero & LOW_BITS) + LOW_BITS) | zero | LOW_BITS)
}

/// Returns whether the line that ends at `end` is a whole one, and the next line neither continues it, nor could
/// declare a body, nor ends the head before the end of `bytes`.
#[inline]
fn is_plain_end(bytes: &[u8], end: usize) -> bool {
    let is = |at: usize, letter: u8| bytes.get(at).is_some_and(|byte| byte.eq_ignore_ascii_case(&letter));
    end > 0
        && bytes[end - 1] == b'\r'
        && match bytes.get(end + 1) {
            Some(b'\r') => end + 3 == bytes.len(),
            Some(b' ' | b'\t') => false,
            // The fourth letter of `content-length`, and the fifth of `transfer-encoding`.
            Some(b'c' | b'C') => !is(end + 4, b't'),
            Some(b't' | b'T') => !is(end + 5, b's'),
            _ => true,
        }
}

/// Returns the value of a header line if the header has that name.
fn value_of<'l>(line: &'l [u8], name: &[u8]) -> Option<&'l [u8]> {
    let (found, rest) = line.split_at_checked(name.len())?;
    let value = rest.strip_prefix(b":")?;
    found.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

/// A refusal of the HTTP library, with a body.
#[derive(Debug)]
pub struct Refusal {
    reason: &'static str,
    bytes: Vec<u8>,
    sent: usize,
}

impl Refusal {
    /// Returns the response that replaces `head` if that is a refusal of the library: a head without a body. `why` is
    /// the reason of the gate; `is_late` says that the rest of a head did not arrive in time.
    pub fn instead_of(head: &[u8], why: Option<&'static str>, is_late: bool) -> Option<Self> {
        let status = head.strip_prefix(b"HTTP/1.1 4")?.first_chunk::<2>()?;
        let has_no_body = head.windows(19).any(|text| text == b"content-length: 0\r\n");
        let (status, kind, detail) = match status {
            _ if !has_no_body => return None,
            b"00" if is_late => (
                StatusCode::REQUEST_TIMEOUT,
                "timeout",
                "the head of the request was not received completely in time",
            ),
            b"00" => {
                let detail = why.unwrap_or("the request is not HTTP/1.1, or its head is malformed");
                (StatusCode::BAD_REQUEST, "bad-request", detail)
            }
            b"14" => (StatusCode::URI_TOO_LONG, "uri-too-long", "the address of the request is too long"),
            b"31" => {
                let detail = "the head of the request is longer than --max-head, or has too many headers";
                (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "head-too-large", detail)
            }
            _ => return None,
        };
        let body = Problem::new(status, kind, detail).to_json().to_string();
        let reason = status.canonical_reason().unwrap_or_default();
        let head = format!(
            "HTTP/1.1 {} {reason}\r\ncontent-type: application/problem+json\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n",
            status.as_u16(),
            body.len()
        );
        Some(Refusal { reason: kind, bytes: [head, body].concat().into_bytes(), sent: 0 })
    }

    /// Returns the name of the problem.
    pub fn reason(&self) -> &'static str {
        self.reason
    }

    /// Returns the bytes that are still to be sent.
    pub fn left(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Notes that `bytes` more were sent.
    pub fn sent(&mut self, bytes: usize) {
        self.sent += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes `text` to a gate in pieces of that length. Returns the reason of a refusal, the number of bytes handed
    /// on, and the gate.
    fn refused_by_gate(text: &str, piece: usize) -> (Option<&'static str>, usize, Gate) {
        let (mut gate, mut handed_on) = (Gate::new(), 0);
        for bytes in text.as_bytes().chunks(piece) {
            let mut bytes = bytes.to_vec();
            handed_on += gate.look(&mut bytes);
        }
        (gate.refusal(), handed_on, gate)
    }

    #[test]
    fn requests_are_followed_through_whatever_pieces_they_come_in() {
        let lines = "content-length: 7\r\ntransfer-encoding: chunked\r\n a\n";
        let text = format!(
            "\r\nPUT /a HTTP/1.1\r\nhost: a\r\nContent-Length: {}\r\n\r\n{lines}\
             GET /b HTTP/1.1\r\nhost: a\r\n\r\nPUT /c HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n\
             {:x};x=y\r\n{lines}\r\n0\r\na: b\r\n\r\n\
             GET /d HTTP/1.1\r\nhost: a\r\n\r\n",
            lines.len(),
            lines.len()
        );
        for piece in [1, 2, 3, 7, 64, 10_000] {
            let (refusal, handed_on, gate) = refused_by_gate(&text, piece);
            assert_eq!((refusal, handed_on, gate.place), (None, text.len(), Place::Between), "{piece}");
            assert!(!gate.is_within_head());
        }
        assert!(
            refused_by_gate("GET", 1).2.is_within_head()
                && refused_by_gate("GET / HTTP/1.1\r\nhost", 5).2.is_within_head()
        );
    }

    #[test]
    fn what_may_be_understood_in_two_ways_is_refused() {
        let put = "GET /b HTTP/1.1\r\nhost: a\r\n\r\nPUT /a HTTP/1.1\r\nhost: a\r\n";
        for (head, why) in [
            ("content-length: 4\r\nx: y\r\nTransfer-Encoding: chunked\r\n", "cannot be combined"),
            ("transfer-encoding: chunked\r\ncontent-length: 4\r\n", "cannot be combined"),
            ("transfer-encoding: identity\r\ncontent-length: x\r\n", "cannot be combined"),
            ("a: b\r\n c\r\n", "continues in the next line"),
            ("a: b\nc: d\r\n", "line feed"),
        ] {
            let text = format!("{put}{head}\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n");
            for piece in [1, 5, 10_000] {
                let (refusal, handed_on, _) = refused_by_gate(&text, piece);
                assert!(refusal.is_some_and(|said| said.contains(why)), "{head} {piece}: {refusal:?}");
                assert!(handed_on <= put.len() + head.len(), "{head} {piece}");
            }
        }
        assert!(refused_by_gate("GET / HTTP/1.1\nhost: a\n\n", 3).0.is_some());
    }

    #[test]
    fn a_head_in_one_piece_is_understood_as_one_in_many() {
        let pieces = [
            "GET /a HTTP/1.1\r\n",
            "\r\n",
            "\n",
            "\r",
            "host: a\r\n",
            "Cookie: x\r\n",
            "Content-Length: 3\r\n",
            "abc",
            "Connection: close\r\n",
            " folded\r\n",
            "\tfolded\r\n",
            "TE: trailers\r\n",
            "traceparent: 0\r\n",
            "c",
            "t",
            "transfer-encoding: chunked\r\n",
            "0\r\n\r\n",
            "x: \u{8a}\u{b}\r\n",
            "CONTENT-LENGTH:0\r\n",
            "\r\n\r\n",
        ];
        let mut random = 7_u64;
        let mut plain = 0;
        for _ in 0..200_000 {
            let mut text = if random & 8 == 0 { "GET /a HTTP/1.1\r\n" } else { "" }.to_owned();
            for _ in 0..1 + random % 5 {
                // Xorshift (Marsaglia 2003).
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                text.push_str(pieces[(random >> 32) as usize % pieces.len()]);
            }
            if random & 16 == 0 {
                text.push_str("\r\n");
            }
            let ((whole, handed_on, gate), (one, of_one, by_one)) =
                (refused_by_gate(&text, 10_000), refused_by_gate(&text, 1));
            assert_eq!((whole, handed_on, gate.place), (one, of_one, by_one.place), "{text:?}");
            assert_eq!(gate.is_within_head(), by_one.is_within_head(), "{text:?}");
            plain += u32::from(is_plain_head(text.as_bytes()));
        }
        assert!(plain > 10_000, "{plain}");
    }

    #[test]
    fn a_refusal_gets_a_body_and_nothing_else_does() {
        let head = |status: &str| format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\ndate: x\r\n\r\n");
        let body = |status: &str, is_late| {
            let refusal = Refusal::instead_of(head(status).as_bytes(), Some("for a reason"), is_late)?;
            Some(String::from_utf8(refusal.left().to_vec()).unwrap())
        };
        assert!(body("400 Bad Request", false).unwrap().contains("\"detail\":\"for a reason\""));
        assert!(body("400 Bad Request", true).unwrap().starts_with("HTTP/1.1 408 Request Timeout\r\n"));
        assert!(body("431 Too Large", false).unwrap().contains("--max-head"));
        assert!(body("404 Not Found", false).is_none(), "a key is absent");
        let own = "HTTP/1.1 400 Bad Request\r\ncontent-length: 10\r\n\r\n{...}";
        assert!(Refusal::instead_of(own.as_bytes(), None, false).is_none());
    }
}
