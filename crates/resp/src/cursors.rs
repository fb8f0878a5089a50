//! Where scans continue: a number that a client holds stands for a position among the keys.
//!
//! A position is a key, which does not fit into the number that clients expect. So the server remembers the newest
//! positions, within a bound of memory. A scan whose position was forgotten fails; it does not skip keys.

use crate::fault::{Done, Fault};
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// The memory in bytes of all positions.
const MOST_BYTES: usize = 16 << 20;
/// What a position takes beside its own bytes.
const EACH_BYTES: usize = 96;

/// The positions of scans.
#[derive(Debug, Default)]
pub struct Cursors {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    last: u64,
    bytes: usize,
    positions: HashMap<u64, Vec<u8>>,
    oldest_first: VecDeque<u64>,
}

impl Cursors {
    /// Remembers a position, and returns its number.
    pub fn keep(&self, position: Vec<u8>) -> u64 {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.last += 1;
        let number = kept.last;
        kept.bytes += position.len() + EACH_BYTES;
        kept.positions.insert(number, position);
        kept.oldest_first.push_back(number);
        while kept.bytes > MOST_BYTES
            && let Some(oldest) = kept.oldest_first.pop_front()
        {
            let forgotten = kept.positions.remove(&oldest).unwrap_or_default();
            kept.bytes -= forgotten.len() + EACH_BYTES;
        }
        number
    }

    /// Returns the position that a number stands for; that of 0 is the beginning.
    pub fn find(&self, number: &[u8]) -> Done<Vec<u8>> {
        let number = std::str::from_utf8(number).ok().and_then(|text| text.parse::<u64>().ok());
        let number = number.ok_or(Fault::fixed("ERR invalid cursor"))?;
        if number == 0 {
            return Ok(Vec::new());
        }
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.positions.get(&number).cloned().ok_or(Fault::fixed(
            "ERR invalid cursor: the position was forgotten, or the server was restarted; begin again with 0",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_positions_are_forgotten_first() {
        let cursors = Cursors::default();
        let first = cursors.keep(b"first".to_vec());
        assert_eq!(cursors.find(first.to_string().as_bytes()).unwrap(), b"first");
        assert_eq!(cursors.find(b"0").unwrap(), b"");
        let mut last = 0;
        for _ in 0..20 {
            last = cursors.keep(vec![7; 1 << 20]);
        }
        assert!(cursors.find(first.to_string().as_bytes()).is_err());
        assert_eq!(cursors.find(last.to_string().as_bytes()).unwrap().len(), 1 << 20);
        assert!(cursors.kept.lock().unwrap().bytes <= MOST_BYTES);
        assert!(cursors.find(b"x").is_err());
    }
}
