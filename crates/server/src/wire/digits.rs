//! Hexadecimal digits, and random bytes.

use pando::{Error, Result};

/// Fills `bytes` with unpredictable random bytes.
pub fn random(bytes: &mut [u8]) -> Result<()> {
    let failed = |error: rustix::io::Errno| Error::io("take random bytes", error.into());
    let mut filled = 0;
    while filled < bytes.len() {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())
            .map_err(failed)?;
    }
    Ok(())
}

/// Returns `bytes` as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let mut digits = Vec::with_capacity(2 * bytes.len());
    write_digits(bytes, &mut digits);
    String::from_utf8(digits).expect("digits are ASCII")
}

/// Appends `bytes` as hexadecimal digits.
pub fn write_digits(bytes: &[u8], out: &mut Vec<u8>) {
    let digit = |half: u8| b"0123456789abcdef"[usize::from(half)];
    out.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
}

/// Returns the bytes of hexadecimal digits; `None` if they are malformed.
pub fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = digits.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    });
    pairs.collect()
}
