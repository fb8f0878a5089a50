//! A cache of statements that were read before. A program repeats few statements, and most are passed to SQLite
//! unchanged.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// The number of texts that are kept, and the length of the longest.
const KEPT: usize = 64;
const LONGEST_BYTES: usize = 4 << 10;

/// The statements that a connection has read, by their texts.
#[derive(Default)]
pub(crate) struct ReadTexts(RefCell<HashMap<Box<str>, Known>>);

/// The statement that SQLite runs for a text.
struct Known {
    text: Arc<str>,
    /// The generation of the connection's tables at that time: [`crate::tables::Tables::generation`].
    generation: u64,
    is_changing: bool,
}

impl ReadTexts {
    /// Returns what SQLite runs for `sql`, if it was read in the same generation, and whether that
    /// changes rows.
    pub fn get(&self, sql: &str, generation: u64) -> Option<(Arc<str>, bool)> {
        let texts = self.0.borrow();
        let known = texts.get(sql)?;
        (known.generation == generation).then(|| (Arc::clone(&known.text), known.is_changing))
    }

    /// Remembers that SQLite runs `text` for `sql`.
    pub fn keep(&self, sql: &str, text: &str, generation: u64, is_changing: bool) {
        if sql.len().max(text.len()) > LONGEST_BYTES {
            return;
        }
        let mut texts = self.0.borrow_mut();
        // A program with so many different statements repeats few of them.
        if texts.len() >= KEPT {
            texts.clear();
        }
        texts.insert(sql.into(), Known { text: text.into(), generation, is_changing });
    }
}
