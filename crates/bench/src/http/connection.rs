//! A non-blocking connection to a server: it writes a request, and reads the response as it arrives.
//!
//! It implements only the part of HTTP/1.1 that single records need: heads whose lines end in CR LF, and bodies with a
//! `content-length`. Any other response fails the workload.

use crate::{Failure, Outcome};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

const HEAD_END: &[u8] = b"\r\n\r\n";
/// The position of the status in `HTTP/1.1 200 OK`.
const STATUS_AT: std::ops::Range<usize> = 9..12;
const READ_BYTES: usize = 16 << 10;

/// A connection that stays open from request to request.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    /// The bytes that the socket has not accepted yet.
    unsent: Vec<u8>,
    received: Vec<u8>,
}

/// A response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The status of the response.
    pub status: u16,
    /// The body of the response.
    pub body: &'a [u8],
}

impl Connection {
    /// Opens a connection.
    pub fn open(address: SocketAddr) -> Outcome<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Connection { stream, unsent: Vec::new(), received: Vec::new() })
    }

    /// Sends a request after the response to the one before. The bytes that the socket does not accept are sent by the
    /// next [`Connection::receive`].
    pub fn send(&mut self, request: &[u8]) -> Outcome<()> {
        debug_assert!(self.unsent.is_empty(), "the request before was sent");
        self.unsent.extend_from_slice(request);
        self.flush()
    }

    /// Returns whether bytes wait for the socket.
    pub fn is_sending(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Reads what has arrived, and passes the response to `take` once it is complete. Returns whether it was.
    pub fn receive(&mut self, take: impl FnOnce(Reply<'_>) -> Outcome<()>) -> Outcome<bool> {
        self.flush()?;
        loop {
            let at = self.received.len();
            self.received.resize(at + READ_BYTES, 0);
            let read = self.stream.read(&mut self.received[at..]);
            self.received.truncate(at + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Err(Failure::Wrong("the server closed a connection".to_owned())),
                // The read did not fill the buffer, so nothing more has arrived.
                Ok(bytes) if bytes < READ_BYTES => break,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        let Some((reply, length)) = parse(&self.received)? else { return Ok(false) };
        if length != self.received.len() {
            return Err(Failure::Wrong("more came than was asked for".to_owned()));
        }
        take(reply)?;
        self.received.clear();
        Ok(true)
    }

    fn flush(&mut self) -> Outcome<()> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(bytes) => drop(self.unsent.drain(..bytes)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Parses the response at the beginning of `bytes`. Returns it with its length if it is complete.
fn parse(bytes: &[u8]) -> Outcome<Option<(Reply<'_>, usize)>> {
    let Some(head_end) = bytes.windows(HEAD_END.len()).position(|window| window == HEAD_END) else {
        return Ok(None);
    };
    let strange = |what: &str| Failure::Wrong(format!("{what}: {}", bytes[..head_end].escape_ascii()));
    let head = std::str::from_utf8(&bytes[..head_end]).map_err(|_| strange("a head that is no text"))?;
    let status =
        head.get(STATUS_AT).and_then(|digits| digits.parse().ok()).ok_or_else(|| strange("no status"))?;
    let length = head.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        if name.eq_ignore_ascii_case("content-length") { value.trim().parse::<usize>().ok() } else { None }
    });
    let body_at = head_end + HEAD_END.len();
    let end = body_at + length.ok_or_else(|| strange("a body without a length"))?;
    let body = bytes.get(body_at..end);
    Ok(body.map(|body| (Reply { status, body }, end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_taken_once_it_is_whole() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nx: y\r\n\r\nabc";
        for cut in 0..whole.len() {
            assert_eq!(parse(&whole[..cut]).unwrap(), None, "{cut}");
        }
        let (reply, length) = parse(whole).unwrap().unwrap();
        assert_eq!((reply.status, reply.body, length), (200, &b"abc"[..], whole.len()));
        for strange in [&b"HTTP/1.1 200 OK\r\n\r\n"[..], b"HTTP/1.1\r\n\r\n", b"\xff\r\n\r\n"] {
            assert!(parse(strange).is_err());
        }
    }
}
