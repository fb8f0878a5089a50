//! The identity of an open reader.

use base::slots::{Holding, Reader};
use base::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// The identity of an open snapshot or transaction. As text it is two hexadecimal numbers with a hyphen between them.
///
/// It consists of the reader's slot and of what the slot announces: the number of the view, and how many times the slot
/// was used before (a number of 14 bits). No other open reader has the same identity. A later reader can have it: if
/// the slot was used 16,384 times more with the same view, as between checkpoints, or after the database was opened
/// again. Take the identity from a fresh list, and do not store it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReaderId {
    slot: usize,
    word: u64,
}

impl ReaderId {
    pub(crate) fn of(holding: &Holding) -> Self {
        let (slot, word) = holding.id();
        ReaderId { slot, word }
    }

    pub(crate) fn of_reader(reader: &Reader) -> Self {
        let (slot, word) = reader.holding_id();
        ReaderId { slot, word }
    }
}

impl fmt::Display for ReaderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}", self.slot, self.word)
    }
}

impl FromStr for ReaderId {
    type Err = Error;

    /// Parses the text that [`Display`](fmt::Display) writes.
    ///
    /// # Errors
    /// `Invalid` for any other text.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::invalid(format!("{text:?} is not the id of a reader, as in `1f-2a0004`"));
        let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        let (slot, word) = text.split_once('-').ok_or_else(wrong)?;
        if !is_digits(slot) || !is_digits(word) {
            return Err(wrong());
        }
        let slot = usize::from_str_radix(slot, 16).map_err(|_| wrong())?;
        Ok(ReaderId { slot, word: u64::from_str_radix(word, 16).map_err(|_| wrong())? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written() {
        let id = ReaderId { slot: 31, word: 0x2a_0004 };
        assert_eq!((id.to_string(), id.to_string().parse().ok()), ("1f-2a0004".to_owned(), Some(id)));
        for wrong in ["", "-", "1", "1-", "-1", "+1-2", "1-2-3", "g-1", "1-11111111111111111"] {
            assert_eq!(wrong.parse::<ReaderId>().unwrap_err().kind(), base::ErrorKind::Invalid, "{wrong}");
        }
    }
}
