//! A look at the schema in the footer of a Parquet file, before the reader of arrow-rs builds it.
//!
//! That reader calls itself for each level of a nested schema, and reserves memory for as many children as an element
//! claims to have. So a file of some kilobytes could overflow the stack or exhaust the memory, and neither is a panic
//! that can be caught: the process would end. Here the tree is walked with a list instead of calls.
//!
//! The footer is in Thrift's compact protocol. Its field 2 is the list of the schema's elements in depth-first order,
//! of which each has the number of its children in field 5.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// The deepest nesting. No column of a table is nested, but a file may have other columns, which are rejected by name.
const MOST_DEPTH: usize = 64;
/// The deepest nesting of structures within the footer; the format has six.
const MOST_SKIPPED_DEPTH: u32 = 16;
/// The length of the footer, and the mark, at the end of a file.
const TAIL_BYTES: u64 = 8;

const I32: u8 = 5;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// Checks the schema of the file, if it has the form of a Parquet file at all: otherwise the reader rejects it.
///
/// Errors: what is wrong with the schema.
pub(crate) fn check(file: &mut File) -> io::Result<Result<(), &'static str>> {
    let length = file.seek(SeekFrom::End(0))?;
    if length < TAIL_BYTES {
        return Ok(Ok(()));
    }
    let mut tail = [0; 4];
    file.seek(SeekFrom::Start(length - TAIL_BYTES))?;
    file.read_exact(&mut tail)?;
    let footer_bytes = u64::from(u32::from_le_bytes(tail));
    if footer_bytes > length - TAIL_BYTES {
        return Ok(Ok(()));
    }
    let mut footer = Vec::new();
    file.seek(SeekFrom::Start(length - TAIL_BYTES - footer_bytes))?;
    file.by_ref().take(footer_bytes).read_to_end(&mut footer)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(Compact(&footer).check_footer())
}

/// What is left of bytes in the compact protocol.
struct Compact<'a>(&'a [u8]);

type Checked<T> = Result<T, &'static str>;

impl Compact<'_> {
    fn check_footer(&mut self) -> Checked<()> {
        let mut id = 0;
        while let Some(kind) = self.field(&mut id)? {
            match (id, kind) {
                (2, LIST) => self.check_schema()?,
                (2, _) => return Err("its footer has no list of columns"),
                _ => self.skip(kind, MOST_SKIPPED_DEPTH)?,
            }
        }
        Ok(())
    }

    fn check_schema(&mut self) -> Checked<()> {
        let (kind, elements) = self.list()?;
        if kind != STRUCT {
            return Err("its footer has no list of columns");
        }
        // For each open group, its children that are still to come.
        let mut open: Vec<u64> = Vec::new();
        for at in 0..elements {
            let children = self.children()?;
            if children > elements - at - 1 {
                return Err("a group of its columns has more members than there are columns");
            }
            if let Some(left) = open.last_mut() {
                *left -= 1;
            }
            open.push(children);
            if open.len() > MOST_DEPTH {
                return Err("its columns are nested too deeply");
            }
            while open.last() == Some(&0) {
                open.pop();
            }
        }
        Ok(())
    }

    /// Reads an element of the schema. Returns the number of its children.
    fn children(&mut self) -> Checked<u64> {
        let (mut id, mut children) = (0, 0);
        while let Some(kind) = self.field(&mut id)? {
            // The reader goes by the number of a field alone.
            let wanted = match id {
                1..=3 | 5..=9 => I32,
                4 => BINARY,
                10 => STRUCT,
                _ => kind,
            };
            match id {
                _ if kind != wanted => return Err("a column in its footer is malformed"),
                5 => {
                    // Zigzag: odd numbers are negative.
                    let number = self.number()?;
                    if number % 2 == 1 {
                        return Err("a group of its columns has a negative number of members");
                    }
                    children = number / 2;
                }
                _ => self.skip(kind, MOST_SKIPPED_DEPTH)?,
            }
        }
        Ok(children)
    }

    fn skip(&mut self, kind: u8, depth: u32) -> Checked<()> {
        let deeper = depth.checked_sub(1).ok_or("its footer is nested too deeply")?;
        match kind {
            // Booleans are in the kind itself.
            1 | 2 => Ok(()),
            3 => self.bytes(1),
            4..=6 => self.number().map(drop),
            7 => self.bytes(8),
            BINARY => {
                let length = self.number()?;
                self.bytes(length)
            }
            LIST => {
                let (kind, elements) = self.list()?;
                // A list of booleans would have its values in bytes. The format has none here.
                if kind < 3 {
                    return Err("its footer is malformed");
                }
                (0..elements).try_for_each(|_| self.skip(kind, deeper))
            }
            STRUCT => {
                let mut id = 0;
                while let Some(kind) = self.field(&mut id)? {
                    self.skip(kind, deeper)?;
                }
                Ok(())
            }
            // Sets, maps and UUIDs, of which the format has none.
            _ => Err("its footer is malformed"),
        }
    }

    /// Reads the begin of a field, whose number follows `id` or is given. Returns its kind; `None`: the structure ends.
    fn field(&mut self, id: &mut u64) -> Checked<Option<u8>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Ok(None);
        }
        *id = match byte >> 4 {
            0 => self.number()? / 2,
            delta => id.saturating_add(delta.into()),
        };
        Ok(Some(byte & 0xf))
    }

    /// Reads the begin of a list. Returns the kind and the number of its elements, each of which has a byte at least.
    fn list(&mut self) -> Checked<(u8, u64)> {
        let byte = self.byte()?;
        let elements = match byte >> 4 {
            0xf => self.number()?,
            few => few.into(),
        };
        if elements > self.0.len() as u64 {
            return Err("its footer ends too early");
        }
        Ok((byte & 0xf, elements))
    }

    fn number(&mut self) -> Checked<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("its footer is malformed")
    }

    fn byte(&mut self) -> Checked<u8> {
        let (first, rest) = self.0.split_first().ok_or("its footer ends too early")?;
        self.0 = rest;
        Ok(*first)
    }

    fn bytes(&mut self, count: u64) -> Checked<()> {
        let count = usize::try_from(count).ok().filter(|count| *count <= self.0.len());
        self.0 = &self.0[count.ok_or("its footer ends too early")?..];
        Ok(())
    }
}
