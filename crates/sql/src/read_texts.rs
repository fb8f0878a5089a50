//! Statements that were read before: a program says the same few again and again, and most go to SQLite as they are.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// Texts that are kept, and the longest that is.
const KEPT: usize = 64;
const LONGEST_BYTES: usize = 4 << 10;

/// The statements that a connection has read, by their texts.
#[derive(Default)]
pub(crate) struct ReadTexts(RefCell<HashMap<Box<str>, Known>>);

/// What SQLite is asked to run for a text.
struct Known {
    text: Arc<str>,
    /// What the connection knew of tables then: [`crate::tables::Tables::generation`].
    generation: u64,
    is_insert: bool,
}

impl ReadTexts {
    /// What SQLite is to run for `sql`, if it was read in the same generation, and whether that is an `INSERT`.
    pub fn of(&self, sql: &str, generation: u64) -> Option<(Arc<str>, bool)> {
        let texts = self.0.borrow();
        let known = texts.get(sql)?;
        (known.generation == generation).then(|| (Arc::clone(&known.text), known.is_insert))
    }

    /// Remembers that SQLite runs `text` for `sql`.
    pub fn keep(&self, sql: &str, text: &str, generation: u64, is_insert: bool) {
        if sql.len().max(text.len()) > LONGEST_BYTES {
            return;
        }
        let mut texts = self.0.borrow_mut();
        // A program with so many different ones repeats few of them.
        if texts.len() >= KEPT {
            texts.clear();
        }
        texts.insert(sql.into(), Known { text: text.into(), generation, is_insert });
    }
}
