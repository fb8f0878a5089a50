//! Commands as clients send them: arrays of bulk strings, or a line of words (an *inline* command).
//!
//! 1. The parser is fed pieces of any size and never looks at a byte twice: it remembers how far the current command
//!    has been read. A client that sends a byte at a time costs no more than one that sends everything at once.
//! 2. A length is a claim. Memory grows with the bytes that arrived, not with what was announced.
//! 3. Each limit ends the connection, because the place of the next command is unknown after it.

use crate::fault::Fault;
use std::ops::Index;

/// The longest line: of a length, or of an inline command. Redis has the same limit.
const MOST_LINE_BYTES: usize = 64 << 10;
/// The largest number of arguments. Redis has the same limit.
const MOST_ARGUMENTS: usize = 1 << 20;
/// The limits before a client has authenticated, which are those of Redis.
const MOST_STRANGER_ARGUMENTS: usize = 10;
const MOST_STRANGER_BYTES: usize = 16 << 10;
/// What an argument costs in memory beside its bytes.
const ARGUMENT_BYTES: usize = size_of::<usize>();

/// A command: its name and its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Command {
    /// Returns the number of words, including the name.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the words from the one at `from` on.
    pub fn from(&self, from: usize) -> impl ExactSizeIterator<Item = &[u8]> {
        (from.min(self.len())..self.len()).map(|at| &self[at])
    }

    /// Returns the word at `at`, if there is one.
    pub fn get(&self, at: usize) -> Option<&[u8]> {
        (at < self.len()).then(|| &self[at])
    }

    /// Returns the memory in bytes that the command takes.
    pub fn size_bytes(&self) -> usize {
        self.bytes.len() + self.ends.len() * ARGUMENT_BYTES
    }

    fn push(&mut self, word: &[u8]) {
        self.bytes.extend_from_slice(word);
        self.ends.push(self.bytes.len());
    }
}

/// The methods of HTTP.
const HTTP_METHODS: [&str; 10] =
    ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PRI", "PUT", "TRACE"];

impl Command {
    /// Returns whether this is a line of a request of HTTP: its first line, or the header `Host`. A page in a browser
    /// can make it send a request with commands in its body to any address, so that no line after this one may run.
    pub fn is_http(&self) -> bool {
        let name = &self[0];
        let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
        let is_host = name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"host:"));
        let has_version = self.len() == 3 && self[2].starts_with(b"HTTP/");
        is("POST") || is_host || (has_version && HTTP_METHODS.iter().any(|method| is(method)))
    }
}

impl Index<usize> for Command {
    type Output = [u8];

    fn index(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start..self.ends[at]]
    }
}

impl<'w> FromIterator<&'w [u8]> for Command {
    fn from_iter<I: IntoIterator<Item = &'w [u8]>>(words: I) -> Self {
        let mut command = Command::default();
        words.into_iter().for_each(|word| command.push(word));
        command
    }
}

/// Bounds on a command.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most bytes of all arguments together.
    pub command_bytes: usize,
    /// Whether the client may send long commands: it has authenticated, or need not.
    pub is_trusted: bool,
}

/// What comes next in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// A new command.
    Command,
    /// The length of the next of so many arguments.
    Length { remaining: usize },
    /// So many bytes of an argument, and two for the end of the line; afterwards so many arguments.
    Bytes { missing: usize, remaining: usize },
}

/// Splits a stream of bytes into commands.
#[derive(Debug)]
pub struct Parser {
    input: Vec<u8>,
    /// The bytes of `input` that were taken.
    taken: usize,
    /// The bytes after `taken` in which no line ends.
    searched: usize,
    expected: Expected,
    command: Command,
}

impl Default for Parser {
    fn default() -> Self {
        Parser {
            input: Vec::new(),
            taken: 0,
            searched: 0,
            expected: Expected::Command,
            command: Command::default(),
        }
    }
}

impl Parser {
    /// Adds bytes that arrived.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.taken == self.input.len() {
            self.input.clear();
            self.taken = 0;
        } else if self.taken > self.input.len() / 2 {
            self.input.drain(..self.taken);
            self.taken = 0;
        }
        self.input.extend_from_slice(bytes);
    }

    /// Returns the memory in bytes of what has arrived and was not returned.
    pub fn held_bytes(&self) -> usize {
        self.input.capacity() + self.command.bytes.capacity() + self.command.ends.capacity() * ARGUMENT_BYTES
    }

    /// Frees memory that a long command has left.
    pub fn shrink(&mut self, most_bytes: usize) {
        if self.taken == self.input.len() && self.input.capacity() > most_bytes {
            self.input = Vec::new();
            self.taken = 0;
        }
    }

    /// Returns the next command, or `None` if it has not arrived completely.
    ///
    /// # Errors
    /// A [`Fault::Protocol`] after which nothing more can be parsed.
    pub fn next(&mut self, limits: Limits) -> Result<Option<Command>, Fault> {
        loop {
            match self.expected {
                Expected::Command => {
                    let Some((start, end)) = self.line("too big inline request")? else { return Ok(None) };
                    let line = &self.input[start..end];
                    if line.first() != Some(&b'*') {
                        let command = inline(line)?;
                        if command.len() > 0 {
                            return Ok(Some(command));
                        }
                        continue;
                    }
                    let count = length(&line[1..]).ok_or(Fault::protocol("invalid multibulk length"))?;
                    let Ok(remaining) = usize::try_from(count) else { continue };
                    if remaining > MOST_ARGUMENTS {
                        return Err(Fault::protocol("invalid multibulk length"));
                    }
                    if !limits.is_trusted && remaining > MOST_STRANGER_ARGUMENTS {
                        return Err(Fault::protocol("unauthenticated multibulk length"));
                    }
                    self.command = Command::default();
                    if remaining > 0 {
                        self.expected = Expected::Length { remaining };
                    }
                }
                Expected::Length { remaining } => {
                    let Some((start, end)) = self.line("too big bulk count string")? else { return Ok(None) };
                    let line = &self.input[start..end];
                    if line.first() != Some(&b'$') {
                        let found = line.first().map_or(String::new(), |&byte| (byte as char).to_string());
                        return Err(Fault::Protocol(format!("expected '$', got '{found}'").into()));
                    }
                    let missing = length(&line[1..]).and_then(|length| usize::try_from(length).ok());
                    let missing = missing.ok_or(Fault::protocol("invalid bulk length"))?;
                    if !limits.is_trusted && missing > MOST_STRANGER_BYTES {
                        return Err(Fault::protocol("unauthenticated bulk length"));
                    }
                    if missing.saturating_add(self.command.size_bytes()) > limits.command_bytes {
                        return Err(Fault::protocol("invalid bulk length: the command is too long"));
                    }
                    self.expected = Expected::Bytes { missing, remaining };
                }
                Expected::Bytes { missing, remaining } => {
                    let at_hand = self.input.len() - self.taken;
                    if missing > 0 {
                        let count = missing.min(at_hand);
                        let bytes = &self.input[self.taken..][..count];
                        self.command.bytes.extend_from_slice(bytes);
                        self.taken += count;
                        self.expected = Expected::Bytes { missing: missing - count, remaining };
                        if count < missing {
                            return Ok(None);
                        }
                        continue;
                    }
                    if at_hand < 2 {
                        return Ok(None);
                    }
                    if self.input[self.taken..][..2] != *b"\r\n" {
                        return Err(Fault::protocol("expected the end of a line after an argument"));
                    }
                    self.taken += 2;
                    self.command.ends.push(self.command.bytes.len());
                    if remaining == 1 {
                        self.expected = Expected::Command;
                        return Ok(Some(std::mem::take(&mut self.command)));
                    }
                    self.expected = Expected::Length { remaining: remaining - 1 };
                }
            }
        }
    }

    /// Returns the bounds of the next line without its end, and takes it; `None` if it has not arrived completely.
    fn line(&mut self, too_long: &'static str) -> Result<Option<(usize, usize)>, Fault> {
        let rest = &self.input[self.taken..];
        let Some(found) = rest[self.searched..].iter().position(|&byte| byte == b'\n') else {
            self.searched = rest.len();
            return if rest.len() > MOST_LINE_BYTES { Err(Fault::protocol(too_long)) } else { Ok(None) };
        };
        let (start, end) = (self.taken, self.taken + self.searched + found);
        self.taken = end + 1;
        self.searched = 0;
        if end - start > MOST_LINE_BYTES {
            return Err(Fault::protocol(too_long));
        }
        let has_return = end > start && self.input[end - 1] == b'\r';
        Ok(Some((start, end - usize::from(has_return))))
    }
}

/// Returns the number that a line holds.
fn length(digits: &[u8]) -> Option<i64> {
    super::numbers::parse_i64(digits)
}

/// Splits a line into words. A word can be quoted: "with \n, \x00 and \" escaped", or 'as it is, except \''.
fn inline(line: &[u8]) -> Result<Command, Fault> {
    const UNBALANCED: Fault = Fault::protocol("unbalanced quotes in request");
    let mut command = Command::default();
    let mut rest = line.trim_ascii_start();
    while let Some(&first) = rest.first() {
        let mut word = Vec::new();
        match first {
            b'"' | b'\'' => {
                rest = &rest[1..];
                loop {
                    match *rest {
                        [] => return Err(UNBALANCED),
                        [byte, ..] if byte == first => break,
                        [b'\\', b'x', high, low, ..] if first == b'"' && is_hex(high) && is_hex(low) => {
                            word.push(hex(high) << 4 | hex(low));
                            rest = &rest[4..];
                        }
                        [b'\\', b'\'', ..] if first == b'\'' => {
                            word.push(b'\'');
                            rest = &rest[2..];
                        }
                        [b'\\', escaped, ..] if first == b'"' => {
                            word.push(match escaped {
                                b'n' => b'\n',
                                b'r' => b'\r',
                                b't' => b'\t',
                                b'a' => 7,
                                b'b' => 8,
                                other => other,
                            });
                            rest = &rest[2..];
                        }
                        [byte, ..] => {
                            word.push(byte);
                            rest = &rest[1..];
                        }
                    }
                }
                rest = &rest[1..];
                if rest.first().is_some_and(|next| !next.is_ascii_whitespace()) {
                    return Err(UNBALANCED);
                }
            }
            _ => {
                let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
                word.extend_from_slice(&rest[..end]);
                rest = &rest[end..];
            }
        }
        command.push(&word);
        rest = rest.trim_ascii_start();
    }
    Ok(command)
}

fn is_hex(digit: u8) -> bool {
    digit.is_ascii_hexdigit()
}

fn hex(digit: u8) -> u8 {
    (digit as char).to_digit(16).unwrap_or(0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUSTED: Limits = Limits { command_bytes: 1 << 20, is_trusted: true };

    fn all(parser: &mut Parser) -> Result<Vec<Vec<String>>, Fault> {
        let mut found = Vec::new();
        while let Some(command) = parser.next(TRUSTED)? {
            found.push(command.from(0).map(|word| String::from_utf8_lossy(word).into_owned()).collect());
        }
        Ok(found)
    }

    #[test]
    fn commands_are_found_wherever_the_stream_is_cut() {
        let stream =
            b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\nPING\r\n\r\n*0\r\n*-1\r\n*1\r\n$0\r\n\r\n\
                       set 'it''s' x\r\nset \"a\\x41\\n\" 'b\\'c' d\r\n*2\r\n$4\r\necho\r\n$2\r\n\r\n\r\n";
        let stream = stream.as_slice();
        let expected = |whole: Result<Vec<Vec<String>>, Fault>| format!("{whole:?}");
        // The third line is not well quoted, so that the rest is lost.
        let mut whole = Parser::default();
        whole.feed(stream);
        let mut good = Vec::new();
        while let Ok(Some(command)) = whole.next(TRUSTED) {
            good.push(command);
        }
        assert_eq!(good.len(), 3, "{good:?}");
        assert_eq!(&good[0][2], b"a\r\nb");
        let at = stream.windows(5).position(|window| window == b"set '").unwrap();
        let bad_end = at + b"set 'it''s' x\r\n".len();
        let sound = [&stream[..at], &stream[bad_end..]].concat();
        let mut reference = Parser::default();
        reference.feed(&sound);
        let reference = expected(all(&mut reference));
        assert!(reference.contains("aA\\n") && reference.contains("b'c"), "{reference}");
        for step in 1..sound.len() {
            let mut parser = Parser::default();
            let mut found = Vec::new();
            for piece in sound.chunks(step) {
                parser.feed(piece);
                found.extend(all(&mut parser).unwrap());
            }
            assert_eq!(expected(Ok(found)), reference, "in pieces of {step} bytes");
        }
    }

    #[test]
    fn lengths_that_lie_are_refused_and_reserve_nothing() {
        for (stream, said) in [
            (&b"*1048577\r\n"[..], "invalid multibulk length"),
            (b"*x\r\n", "invalid multibulk length"),
            (b"*99999999999999999999\r\n", "invalid multibulk length"),
            (b"*1\r\n:1\r\n", "expected '$'"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (b"*1\r\n$536870912\r\n", "too long"),
            (b"*1\r\n$1\r\nabc", "end of a line"),
        ] {
            let mut parser = Parser::default();
            parser.feed(stream);
            let fault = parser.next(TRUSTED).unwrap_err();
            assert!(fault.to_string().contains(said), "{fault}");
            assert!(parser.held_bytes() < 4096, "{}", parser.held_bytes());
        }
        let mut endless = Parser::default();
        endless.feed(&[b'x'; MOST_LINE_BYTES + 1]);
        assert!(endless.next(TRUSTED).is_err());
        let mut many = Parser::default();
        many.feed(b"*1048576\r\n$1000000\r\nabc");
        assert_eq!(many.next(TRUSTED).unwrap(), None);
        assert!(many.held_bytes() < 4096);
        let stranger = Limits { is_trusted: false, ..TRUSTED };
        let mut parser = Parser::default();
        parser.feed(b"*11\r\n");
        assert!(parser.next(stranger).is_err());
        let mut parser = Parser::default();
        parser.feed(b"*1\r\n$16385\r\n");
        assert!(parser.next(stranger).is_err());
    }
}
