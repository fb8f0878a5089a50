//! Random choices among elements.

use crate::fault::{Done, Fault};
use crate::space::Space;

/// The most elements that a command chooses with repetitions.
const MOST_REPEATED: u64 = 1 << 20;

/// Chooses up to `most` different numbers below `count`.
pub fn choose(space: &Space, count: usize, most: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..count).collect();
    let most = most.min(count);
    for at in 0..most {
        let other = at + (space.random() % (count - at) as u64) as usize;
        all.swap(at, other);
    }
    all.truncate(most);
    all
}

/// Chooses as SRANDMEMBER does: different ones, or with a negative `most` that many, perhaps the same repeatedly.
///
/// # Errors
/// If so many are asked for that the reply would be too long.
pub fn choose_signed(space: &Space, count: usize, most: i64) -> Done<Vec<usize>> {
    if most >= 0 {
        return Ok(choose(space, count, usize::try_from(most).unwrap_or(usize::MAX)));
    }
    if most.unsigned_abs() > MOST_REPEATED {
        return Err(Fault::fixed("ERR value is out of range"));
    }
    if count == 0 {
        return Ok(Vec::new());
    }
    Ok((0..most.unsigned_abs()).map(|_| (space.random() % count as u64) as usize).collect())
}
