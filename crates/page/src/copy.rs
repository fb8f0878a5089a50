//! Copies of few bytes.

/// Copies `from` to `to`, which has the same length. It is for bytes that are mostly fewer than 32, as the parts of
/// cells are: a call of `memcpy` takes longer than the copy. Two words that overlap in the middle copy any length from
/// one word to two.
#[inline]
pub(crate) fn copy_short(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len());
    match from.len() {
        0 => {}
        1..4 => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
        4..8 => both_ends::<4>(to, from),
        8..16 => both_ends::<8>(to, from),
        16..=32 => both_ends::<16>(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// Copies the first `N` bytes and the last `N` bytes, of `N` to `2 * N`.
#[inline]
fn both_ends<const N: usize>(to: &mut [u8], from: &[u8]) {
    if let (Some(to), Some(from)) = (to.first_chunk_mut::<N>(), from.first_chunk()) {
        *to = *from;
    }
    if let (Some(to), Some(from)) = (to.last_chunk_mut::<N>(), from.last_chunk()) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_and_nothing_else() {
        let from: Vec<u8> = (1..=80).collect();
        for len in 0..from.len() {
            let mut to = vec![0; len];
            copy_short(&mut to, &from[..len]);
            assert_eq!(to, from[..len]);
        }
    }
}
