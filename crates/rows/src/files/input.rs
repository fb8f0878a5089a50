//! The text of a file before its records are read: its encoding, and whether its quotes are closed.
//!
//! 1. [`Text`] skips the byte order mark of UTF-8, and rejects other input by name: UTF-16, and compressed files.
//! 2. [`Quotes`] follows the quotes of CSV as the parser does. It rejects a quoted field that is still open at the end,
//!    or that continues after its closing quote, and names the place where the field was opened. A parser would take
//!    everything after it for one value.

use std::fmt;
use std::io::{self, Read};

/// A reader of text input: checks that it is UTF-8, and removes the byte order mark.
#[derive(Debug)]
pub struct Text<R> {
    inner: R,
    /// The bytes that were read to detect the encoding, and how many of them were returned.
    start: Vec<u8>,
    handed_on: usize,
    is_known: bool,
}

/// The byte order mark of UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// The beginnings of files that are not text: what they are, and what to do.
const OTHERS: &[(&[u8], &str)] = &[
    (b"\xff\xfe", "UTF-16: convert it first, as with `iconv -f UTF-16 -t UTF-8`"),
    (b"\xfe\xff", "UTF-16: convert it first, as with `iconv -f UTF-16 -t UTF-8`"),
    (b"\x1f\x8b", "compressed with gzip: unpack it first, as with `gunzip -c`"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it first, as with `zstd -dc`"),
    (b"PK\x03\x04", "a ZIP archive: unpack it first"),
    (b"BZh", "compressed with bzip2: unpack it first, as with `bzip2 -dc`"),
    (b"\xfd7zXZ", "compressed with xz: unpack it first, as with `xz -dc`"),
];

impl<R> Text<R> {
    /// Creates a reader of `inner`, from which nothing must have been read.
    pub fn new(inner: R) -> Self {
        Text { inner, start: Vec::new(), handed_on: 0, is_known: false }
    }

    /// Returns the reader below.
    pub fn inner(&self) -> &R {
        &self.inner
    }

    /// Returns the reader below, mutably.
    pub fn inner_mut(&mut self) -> &mut R {
        &mut self.inner
    }
}

impl<R: Read> Text<R> {
    fn find_out(&mut self) -> io::Result<()> {
        let mut byte = [0];
        while self.start.len() < 6 {
            match self.inner.read(&mut byte) {
                Ok(0) => break,
                Ok(_) => self.start.push(byte[0]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.is_known = true;
        let refused = |what| io::Error::new(io::ErrorKind::InvalidData, Refused(what));
        check_beginning(&mut self.start).map_err(refused)
    }
}

/// Removes the byte order mark from the beginning of an input.
///
/// # Errors
/// What the input seems to be, if it is not UTF-8.
pub fn check_beginning(start: &mut Vec<u8>) -> Result<(), String> {
    let known = OTHERS.iter().find(|(beginning, _)| start.starts_with(beginning));
    // In UTF-16, every other byte of ASCII text is zero.
    let is_utf_16 = start.first_chunk::<4>().is_some_and(|first| {
        matches!(first.map(|byte| byte == 0), [true, false, true, false] | [false, true, false, true])
    });
    if let Some((_, what)) = known.or(OTHERS.first().filter(|_| is_utf_16)) {
        return Err(format!("the input is {what}"));
    }
    if start.starts_with(MARK) {
        start.drain(..MARK.len());
    }
    Ok(())
}

impl<R: Read> Read for Text<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if !self.is_known {
            self.find_out()?;
        }
        let left = &self.start[self.handed_on..];
        if left.is_empty() {
            return self.inner.read(out);
        }
        let bytes = left.len().min(out.len());
        out[..bytes].copy_from_slice(&left[..bytes]);
        self.handed_on += bytes;
        Ok(bytes)
    }
}

/// The reason why an input was rejected: its contents are not valid, though it could be read.
#[derive(Debug)]
pub struct Refused(String);

impl Refused {
    /// Returns the problem, if a read failed because the input is not valid.
    pub fn in_error(error: &io::Error) -> Option<&str> {
        error.get_ref()?.downcast_ref::<Refused>().map(|refused| &refused.0[..])
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// The place of the next byte in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The start: before the field's first byte.
    Start,
    /// Inside a field without quotes.
    Plain,
    /// Inside quotes.
    Quoted,
    /// After a quote that closes the field, or is the first of two that stand for one.
    Closing,
}

/// A reader of CSV that checks its quotes.
#[derive(Debug)]
pub struct Quotes<R> {
    inner: R,
    delimiter: u8,
    place: Place,
    line: u64,
    /// The number of rows and fields begun, and of bytes of the line before this one.
    row: u64,
    field: u64,
    column: u64,
    /// The line, row, field and column of the quote that was opened last.
    opened: [u64; 4],
    is_empty_line: bool,
}

impl<R> Quotes<R> {
    /// Creates a reader of `inner`, with `delimiter` between fields.
    pub fn new(inner: R, delimiter: u8) -> Self {
        Quotes {
            inner,
            delimiter,
            place: Place::Start,
            line: 1,
            row: 1,
            field: 1,
            column: 0,
            opened: [0; 4],
            is_empty_line: true,
        }
    }

    /// Returns the reader below.
    pub fn inner(&self) -> &R {
        &self.inner
    }

    /// Returns the reader below, mutably.
    pub fn inner_mut(&mut self) -> &mut R {
        &mut self.inner
    }

    fn refused(&self, what: impl fmt::Display) -> io::Error {
        let [line, row, field, column] = self.opened;
        let message = format!("CSV line {line}, column {column} (row {row}, field {field}): {what}");
        io::Error::new(io::ErrorKind::InvalidData, Refused(message))
    }

    fn take(&mut self, byte: u8) -> io::Result<()> {
        self.column += 1;
        let is_quoted = self.place == Place::Quoted;
        match (self.place, byte) {
            (Place::Start, b'"') => {
                self.place = Place::Quoted;
                self.opened = [self.line, self.row, self.field, self.column];
            }
            (Place::Quoted, b'"') => self.place = Place::Closing,
            (Place::Quoted, _) => {}
            (Place::Closing, b'"') => self.place = Place::Quoted,
            (_, byte) if byte == self.delimiter => {
                self.place = Place::Start;
                self.field += 1;
            }
            (_, b'\r' | b'\n') => {
                self.place = Place::Start;
                if !self.is_empty_line && byte == b'\n' {
                    self.row += 1;
                }
                self.field = 1;
            }
            (Place::Closing, _) => {
                let line = self.line;
                let what = format!(
                    "the quoted field that starts here has more text after its closing quote, in line \
                     {line}; \
                     write a quote within a field twice"
                );
                return Err(self.refused(what));
            }
            (Place::Start | Place::Plain, _) => self.place = Place::Plain,
        }
        self.is_empty_line &= is_quoted || matches!(byte, b'\r' | b'\n');
        if byte == b'\n' {
            self.line += 1;
            self.column = 0;
            self.is_empty_line = !is_quoted;
        }
        Ok(())
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(out)?;
        if bytes == 0 && !out.is_empty() && self.place == Place::Quoted {
            return Err(self.refused("the quote that opens here is never closed; is the input cut off?"));
        }
        out[..bytes].iter().try_for_each(|byte| self.take(*byte))?;
        Ok(bytes)
    }
}

/// Returns advice if a header of one column contains another delimiter, otherwise `None`.
pub fn other_delimiter(header: &[&str], delimiter: u8) -> Option<String> {
    let [only] = header else { return None };
    let is_there = |other: &&(char, &str)| other.0 as u32 != u32::from(delimiter) && only.contains(other.0);
    let (found, word) =
        [(';', "';'"), ('\t', "tab"), ('|', "'|'"), (',', "','")].iter().find(is_there)?.to_owned();
    Some(format!(
        "CSV line 1: the header has a single column that contains {found:?}: if this separates the columns, \
         set it as the delimiter (--delimiter {word})"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns this many bytes at a time.
    struct Pieces<'b>(&'b [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let bytes = self.0.len().min(self.1).min(out.len());
            self.0.read(&mut out[..bytes])
        }
    }

    fn read(mut reader: impl Read) -> Result<Vec<u8>, String> {
        let mut all = Vec::new();
        reader
            .read_to_end(&mut all)
            .map(|_| all)
            .map_err(|error| Refused::in_error(&error).unwrap().to_owned())
    }

    #[test]
    fn a_mark_is_skipped_and_other_codings_are_refused() {
        for piece in [1, 2, 100] {
            let text = |bytes: &'static [u8]| read(Text::new(Pieces(bytes, piece)));
            assert_eq!(text(b"\xef\xbb\xbfkey").unwrap(), b"key");
            assert_eq!(text(b"key,\xef\xbb\xbf").unwrap(), b"key,\xef\xbb\xbf");
            for whole in [&b""[..], b"a", b"\xef\xbb", b"\0a\0", b"abcdefghij"] {
                assert_eq!(text(whole).unwrap(), whole);
            }
            for (bytes, name) in [
                (&b"\xff\xfek\0"[..], "UTF-16"),
                (b"\xfe\xff\0k", "UTF-16"),
                (b"k\0e\0y\0", "UTF-16"),
                (b"\0k\0e\0y", "UTF-16"),
                (b"\x1f\x8b\x08", "gzip"),
                (b"\x28\xb5\x2f\xfd", "zstd"),
            ] {
                assert!(text(bytes).unwrap_err().contains(name), "{name}");
            }
        }
    }

    #[test]
    fn quotes_are_followed_as_the_parser_does() {
        let good = [
            "a,b\n1,\"x\"\"y\"\n\"\",\"1\n2\r\n\"\r\n",
            "a,b\n1,x\"y\n\"\"\"\",2\n",
            "a\n\"x\"",
            "",
            "\n\na,b\n\n",
        ];
        for text in good {
            for piece in [1, 3, 100] {
                assert_eq!(read(Quotes::new(Pieces(text.as_bytes(), piece), b',')).unwrap(), text.as_bytes());
            }
        }
        for (text, said) in [
            ("key,value\na,\"1\nb,2\n", "CSV line 2, column 3 (row 2, field 2): the quote that opens here"),
            (
                "key,value\n\n\"x\n\",\"1\nb,2\n",
                "CSV line 4, column 3 (row 2, field 2): the quote that opens",
            ),
            ("\"a", "CSV line 1, column 1 (row 1, field 1): the quote"),
            ("a,b\n1,\"x\n2,\"y\"\n", "CSV line 2, column 3 (row 2, field 2): the quoted field"),
            ("a,b\n\"1\"2,3\n", "more text after its closing quote, in line 2"),
        ] {
            for piece in [1, 3, 100] {
                let refused = read(Quotes::new(Pieces(text.as_bytes(), piece), b',')).unwrap_err();
                assert!(refused.contains(said), "{text:?}: {refused}");
            }
        }
        assert!(
            read(Quotes::new(&b"a;\"b\n"[..], b';')).is_err()
                && read(Quotes::new(&b"a;\"b\n"[..], b',')).is_ok()
        );
    }

    #[test]
    fn a_header_of_one_column_may_have_another_delimiter() {
        assert!(other_delimiter(&["a;b"], b',').unwrap().contains("--delimiter ';'"));
        assert!(other_delimiter(&["a\tb"], b',').unwrap().contains("--delimiter tab"));
        assert!(other_delimiter(&["a,b"], b';').unwrap().contains("--delimiter ','"));
        assert_eq!((other_delimiter(&["ab"], b','), other_delimiter(&["a;b", "c"], b',')), (None, None));
    }
}
