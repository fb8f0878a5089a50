//! Which database a handle, a backup or a change stream is of.

use base::{DatabaseId, Error, ErrorKind};
use std::fmt;
use std::str::FromStr;
use store::Lineage;

/// Which database this is, and which copy of it.
///
/// Its text is that of the header `pando-identity`: both numbers in hexadecimal digits, joined by `-`.
///
/// ```
/// let identity = pando::Identity { database: 0x2a, fork: 7 };
/// assert_eq!(identity.to_string(), "000000000000002a-00000007");
/// assert_eq!("000000000000002a-00000007".parse::<pando::Identity>().unwrap(), identity);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The id of the database: a random number, the same in every copy.
    pub database: u64,
    /// 0 until the database is restored from a backup. Each restore draws another number at random.
    pub fork: u32,
}

impl From<Lineage> for Identity {
    fn from(lineage: Lineage) -> Self {
        Identity { database: lineage.database.0, fork: lineage.fork }
    }
}

impl From<Identity> for Lineage {
    fn from(identity: Identity) -> Self {
        Lineage { database: DatabaseId(identity.database), fork: identity.fork }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:08x}", self.database, self.fork)
    }
}

impl FromStr for Identity {
    type Err = Error;

    /// # Errors
    /// `Invalid` if the text is not 16 hexadecimal digits, `-`, and 8 more.
    fn from_str(text: &str) -> Result<Self, Error> {
        let number = |digits: &str, count| {
            let is_plain = digits.len() == count && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_plain.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
        };
        let parts = text.split_once('-').and_then(|(database, fork)| {
            Some(Identity { database: number(database, 16)?, fork: number(fork, 8)?.try_into().ok()? })
        });
        parts.ok_or_else(|| Error::new(ErrorKind::Invalid, format!("{text:?} is no identity of a database")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_form_is_read() {
        let largest = Identity { database: u64::MAX, fork: u32::MAX };
        assert_eq!(largest.to_string().parse::<Identity>().unwrap(), largest);
        for text in ["", "-", "0-0", "000000000000002a00000007", "+00000000000002a-00000007", "2a-7"] {
            assert_eq!(text.parse::<Identity>().unwrap_err().kind(), ErrorKind::Invalid, "{text:?}");
        }
    }
}
