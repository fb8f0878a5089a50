//! The empty lines of CSV. The parser passes over them, but in a table of one column each of them is a row.

use std::collections::VecDeque;
use std::io::{self, Read};

/// A reader that notes where the empty lines are.
pub struct EmptyLines<R> {
    inner: R,
    /// The separator, and whether fields can be in quotes.
    separator: u8,
    has_quotes: bool,
    place: Place,
    /// Whether the byte before was a carriage return that ended a line.
    is_after_return: bool,
    /// The number of bytes so far.
    bytes: u64,
    /// The offsets of empty lines, from which they are taken in order.
    empty: VecDeque<u64>,
}

/// The place of the next byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    LineStart,
    FieldStart,
    /// Inside a field without quotes.
    Plain,
    Quoted,
    /// After a quote that closes the field, or is the first of two that stand for one.
    Closing,
}

impl<R> EmptyLines<R> {
    /// Creates a reader of `inner`, from whose beginning it must be.
    pub fn new(inner: R, separator: u8, has_quotes: bool) -> Self {
        EmptyLines {
            inner,
            separator,
            has_quotes,
            place: Place::LineStart,
            is_after_return: false,
            bytes: 0,
            empty: VecDeque::new(),
        }
    }

    /// Returns the number of empty lines that begin before the byte at `offset`, without those that an earlier call
    /// returned.
    pub fn take_before(&mut self, offset: u64) -> u64 {
        let mut count = 0;
        while self.empty.front().is_some_and(|at| *at < offset) {
            self.empty.pop_front();
            count += 1;
        }
        count
    }

    fn note(&mut self, byte: u8) {
        let is_end = matches!(byte, b'\r' | b'\n');
        let is_quote = self.has_quotes && byte == b'"';
        let is_rest = byte == b'\n' && self.is_after_return;
        if is_end && !is_rest && self.place == Place::LineStart {
            self.empty.push_back(self.bytes);
        }
        let is_quoted = self.place == Place::Quoted;
        self.place = match self.place {
            Place::Quoted if is_quote => Place::Closing,
            Place::Quoted => Place::Quoted,
            Place::LineStart | Place::FieldStart | Place::Closing if is_quote => Place::Quoted,
            _ if is_end => Place::LineStart,
            _ if byte == self.separator => Place::FieldStart,
            _ => Place::Plain,
        };
        self.is_after_return = byte == b'\r' && !is_quoted;
        self.bytes += 1;
    }
}

impl<R: Read> Read for EmptyLines<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(out)?;
        out[..bytes].iter().for_each(|byte| self.note(*byte));
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(text: &str, has_quotes: bool) -> Vec<u64> {
        let mut lines = EmptyLines::new(text.as_bytes(), b',', has_quotes);
        io::copy(&mut lines, &mut io::sink()).unwrap();
        lines.empty.into()
    }

    #[test]
    fn empty_lines_are_found_outside_of_quotes() {
        for (text, has_quotes, wanted) in [
            ("", true, &[][..]),
            ("a\n\nb\n", true, &[2]),
            ("\n\n", true, &[0, 1]),
            ("a\r\n\r\n\r\nb\r\n", true, &[3, 5]),
            ("a\r\r\n\n", true, &[2, 4]),
            ("a,\n\"\n\n\"\"\n\n\"\n\n", true, &[12]),
            ("\"a\r\"\n\n", true, &[5]),
            ("x\"\n\n", true, &[3]),
            ("\"\n\n", false, &[2]),
        ] {
            assert_eq!(offsets(text, has_quotes), wanted, "{text:?}");
        }
    }

    #[test]
    fn lines_are_taken_once() {
        let mut lines = EmptyLines::new(&b"\n\na\n\n"[..], b',', true);
        io::copy(&mut lines, &mut io::sink()).unwrap();
        assert_eq!((lines.take_before(0), lines.take_before(4)), (0, 2));
        assert_eq!((lines.take_before(5), lines.take_before(5)), (1, 0));
    }
}
