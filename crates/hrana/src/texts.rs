//! Texts of statements that a client has stored, so that it need not send them again.

use crate::failure::{Failure, Outcome};
use crate::messages::Text;
use std::collections::HashMap;

/// The largest number of stored texts of a stream, and of their bytes together.
const MOST_TEXTS: usize = 256;
const MOST_BYTES: usize = 256 << 10;

/// The texts of a stream by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    by_number: HashMap<i32, String>,
    bytes: usize,
}

impl Texts {
    /// Stores a text.
    pub fn store(&mut self, number: i32, text: String) -> Outcome<()> {
        if self.by_number.contains_key(&number) {
            return Err(Failure::new("SQL_STORE_EXISTS", format!("the number {number} already has a text")));
        }
        if self.by_number.len() == MOST_TEXTS || self.bytes + text.len() > MOST_BYTES {
            return Err(Failure::new(
                "SQL_STORE_TOO_MANY",
                format!("a stream stores at most {MOST_TEXTS} texts and {MOST_BYTES} bytes: close some"),
            ));
        }
        self.bytes += text.len();
        self.by_number.insert(number, text);
        Ok(())
    }

    /// Forgets a text, if there is one.
    pub fn close(&mut self, number: i32) {
        if let Some(text) = self.by_number.remove(&number) {
            self.bytes -= text.len();
        }
    }

    /// Returns the text that is sent or meant.
    pub fn of<'t>(&'t self, text: &'t Text) -> Outcome<&'t str> {
        match (&text.sql, text.sql_id) {
            (Some(sql), None) => Ok(sql),
            (None, Some(number)) => self.by_number.get(&number).map(String::as_str).ok_or_else(|| {
                Failure::new("SQL_STORE_NOT_FOUND", format!("no text is stored under the number {number}"))
            }),
            _ => Err(Failure::new("SQL_TEXT", "send either `sql` or `sql_id`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_bounded_and_numbers_are_used_once() {
        let mut texts = Texts::default();
        let code = |outcome: Outcome<()>| outcome.unwrap_err().code().to_owned();
        texts.store(1, "SELECT 1".into()).unwrap();
        assert_eq!(code(texts.store(1, "SELECT 2".into())), "SQL_STORE_EXISTS");
        let by = |sql: Option<&str>, sql_id| Text { sql: sql.map(str::to_owned), sql_id };
        assert_eq!(texts.of(&by(None, Some(1))), Ok("SELECT 1"));
        assert_eq!(texts.of(&by(Some("x"), None)), Ok("x"));
        for wrong in [by(None, None), by(Some("x"), Some(1)), by(None, Some(2))] {
            assert!(texts.of(&wrong).is_err());
        }
        texts.close(1);
        texts.close(1);
        assert_eq!(texts.bytes, 0);
        assert_eq!(code(texts.store(2, "x".repeat(MOST_BYTES + 1))), "SQL_STORE_TOO_MANY");
        (0..256).for_each(|number| texts.store(number, String::new()).unwrap());
        assert_eq!(code(texts.store(256, String::new())), "SQL_STORE_TOO_MANY");
    }
}
