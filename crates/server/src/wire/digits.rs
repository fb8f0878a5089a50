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
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    // A loop over a buffer is quick without optimizations, too: tests send hundreds of megabytes.
    let mut digits = [0; 1024];
    for piece in bytes.chunks(digits.len() / 2) {
        for (at, &byte) in piece.iter().enumerate() {
            digits[2 * at] = DIGITS[usize::from(byte >> 4)];
            digits[2 * at + 1] = DIGITS[usize::from(byte & 15)];
        }
        out.extend_from_slice(&digits[..2 * piece.len()]);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_come_back_at_every_length_of_a_piece() {
        for length in [0, 1, 511, 512, 513, 1024, 1500] {
            let bytes: Vec<u8> = (0..length).map(|at: usize| (at * 7 + at / 256) as u8).collect();
            let digits = hex(&bytes);
            assert_eq!((digits.len(), from_hex(&digits)), (2 * length, Some(bytes)));
        }
        assert_eq!(hex(&[0x0f, 0xa9]), "0fa9");
        assert_eq!([from_hex("0"), from_hex("0g")], [None, None]);
    }
}
