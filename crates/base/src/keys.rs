//! Order-preserving encodings: byte order of the encoded form is the order of the values.
//!
//! Tables order keys by unsigned byte comparison. Numbers become big-endian, signed ones with the sign bit
//! flipped; strings inside composite keys are escaped, so that no string is a prefix of what follows another.

/// Encodes a `u32` as a key: big-endian, so that keys have the order of the numbers.
#[inline]
pub fn u32_key(value: u32) -> [u8; 4] {
    value.to_be_bytes()
}

/// Encodes a `u64` as a key: big-endian, so that keys have the order of the numbers.
///
/// ```
/// use pando_base::keys::u64_key;
/// assert!(u64_key(255) < u64_key(256));
/// ```
#[inline]
pub fn u64_key(value: u64) -> [u8; 8] {
    value.to_be_bytes()
}

/// Encodes an `i64` as a key: big-endian with the sign bit flipped, so that keys have the order of the numbers.
///
/// ```
/// use pando_base::keys::i64_key;
/// assert!(i64_key(-1) < i64_key(0));
/// ```
#[inline]
pub fn i64_key(value: i64) -> [u8; 8] {
    (value as u64 ^ (1 << 63)).to_be_bytes()
}

/// Appends `part` to a composite key, so that keys have the order of their parts: 0x00 becomes 0x00 0xFF, and 0x00
/// 0x00 ends the part.
pub fn push_part(key: &mut Vec<u8>, part: &[u8]) {
    for &byte in part {
        key.push(byte);
        if byte == 0 {
            key.push(0xff);
        }
    }
    key.extend_from_slice(&[0, 0]);
}

/// Returns the smallest key after every key that begins with `prefix`, or `None` if there is none (`prefix` is empty
/// or all 0xFF).
///
/// ```
/// use pando_base::keys::prefix_end;
/// assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
/// assert_eq!(prefix_end(b"a\xff"), Some(b"b".to_vec()));
/// assert_eq!(prefix_end(b"\xff"), None);
/// ```
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Returns the first eight bytes of `key` as a big-endian number, padded with zeros. If two such numbers differ, they
/// order the two keys.
#[inline]
pub fn head8(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => short_head8(key),
    }
}

/// Uses loads alone, which overlap where necessary. A copy into a zeroed word would be read back wider than it was
/// written. Such a read waits until every earlier miss has retired, and so look-ups of short keys would wait for each
/// other.
#[inline]
fn short_head8(key: &[u8]) -> u64 {
    let unused_bits = 64 - 8 * key.len() as u32;
    match (key.first_chunk::<4>(), key.last_chunk::<4>(), key.first_chunk::<2>(), key.last_chunk::<2>()) {
        (Some(&first), Some(&last), ..) => {
            u64::from(u32::from_be_bytes(first)) << 32 | u64::from(u32::from_be_bytes(last)) << unused_bits
        }
        (.., Some(&first), Some(&last)) => {
            u64::from(u16::from_be_bytes(first)) << 48 | u64::from(u16::from_be_bytes(last)) << unused_bits
        }
        _ => key.first().map_or(0, |&byte| u64::from(byte) << 56),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_keep_order(a: (Vec<u8>, Vec<u8>), b: (Vec<u8>, Vec<u8>)) {
            let encode = |pair: &(Vec<u8>, Vec<u8>)| {
                let mut key = Vec::new();
                push_part(&mut key, &pair.0);
                push_part(&mut key, &pair.1);
                key
            };
            prop_assert_eq!(encode(&a).cmp(&encode(&b)), a.cmp(&b));
        }

        #[test]
        fn heads_agree_with_bytes(a: Vec<u8>, b: Vec<u8>) {
            if head8(&a) < head8(&b) {
                prop_assert!(a < b);
            }
        }

        #[test]
        fn a_head_is_the_key_with_zeros_behind(key: Vec<u8>) {
            for len in 0..=key.len().min(9) {
                let mut padded = key[..len].to_vec();
                padded.resize(len.max(8), 0);
                prop_assert_eq!(head8(&key[..len]), u64::from_be_bytes(padded[..8].try_into().unwrap()));
            }
        }

        #[test]
        fn a_prefix_ends_behind_all_it_begins(prefix: Vec<u8>, tail: Vec<u8>) {
            if let Some(end) = prefix_end(&prefix) {
                let mut key = prefix.clone();
                key.extend(tail);
                prop_assert!(key < end);
            }
        }
    }
}
