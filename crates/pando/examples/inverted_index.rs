//! Full-text search: one table has the documents, another has an entry for each word of each document.
//!
//! | table | key | value |
//! |---|---|---|
//! | `documents` | number, 8 bytes, big-endian | the text |
//! | `words` | word, a zero byte, number | nothing |
//!
//! Both change in one transaction, so that a search never finds a document that was changed or removed. The documents
//! with a word are the keys with one prefix, in order of their numbers.
//!
//! Run it with `cargo run -p pando-db --example inverted_index`.

use pando::{Database, Result, Snapshot, Table, Transaction};
use std::collections::BTreeSet;

struct Library {
    documents: Table,
    words: Table,
}

/// The words of a text, each once, in lower case.
fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

fn prefix_of(word: &str) -> Vec<u8> {
    [word.as_bytes(), &[0]].concat()
}

fn entry(word: &str, number: u64) -> Vec<u8> {
    [&prefix_of(word)[..], &number.to_be_bytes()].concat()
}

impl Library {
    fn open(db: &Database) -> Result<Self> {
        Ok(Library { documents: db.ensure_table("documents")?, words: db.ensure_table("words")? })
    }

    /// Stores a document in place of the one that has its number.
    fn put(&self, tx: &mut Transaction, number: u64, text: &str) -> Result<()> {
        self.remove(tx, number)?;
        for word in words(text) {
            tx.put(&self.words, &entry(&word, number), b"")?;
        }
        tx.put(&self.documents, &number.to_be_bytes(), text.as_bytes())
    }

    /// Removes a document, if there is one, and its entries.
    fn remove(&self, tx: &mut Transaction, number: u64) -> Result<()> {
        let Some(old) = tx.remove(&self.documents, &number.to_be_bytes())? else { return Ok(()) };
        for word in words(&String::from_utf8_lossy(&old)) {
            tx.delete(&self.words, &entry(&word, number))?;
        }
        Ok(())
    }

    /// Returns the numbers of the documents that have all words of `query`.
    fn search(&self, snapshot: &Snapshot, query: &str) -> Result<BTreeSet<u64>> {
        let mut found: Option<BTreeSet<u64>> = None;
        for word in words(query) {
            let prefix = prefix_of(&word);
            let mut having = BTreeSet::new();
            for record in snapshot.prefix(&self.words, &prefix)? {
                let (key, _) = record?;
                let number = key[prefix.len()..].try_into().expect("the key ends in eight bytes");
                having.insert(u64::from_be_bytes(number));
            }
            found = Some(found.map_or(having.clone(), |found| &found & &having));
        }
        Ok(found.unwrap_or_default())
    }
}

/// Runs the example, and asserts what it shows.
pub fn main() -> Result<()> {
    let db = Database::builder().in_memory()?;
    let library = Library::open(&db)?;
    let texts = [
        "Aspens in a grove share one root.",
        "A root of a tree drinks; a leaf of the tree breathes.",
        "The grove is one tree, of many trunks.",
    ];
    db.write(|tx| (1..).zip(texts).try_for_each(|(number, text)| library.put(tx, number, text)))?;
    let search = |query: &str| -> Result<Vec<u64>> {
        let found = library.search(&db.snapshot()?, query)?.into_iter().collect();
        println!("{query:12} is in {found:?}");
        Ok(found)
    };
    assert_eq!(search("root")?, [1, 2]);
    assert_eq!(search("Tree")?, [2, 3]);
    assert_eq!(search("one grove")?, [1, 3]);
    assert_eq!(search("leaf grove")?, []);

    let before = db.snapshot()?;
    db.write(|tx| library.put(tx, 2, "A leaf falls."))?;
    db.write(|tx| library.remove(tx, 1))?;
    println!("document 2 was changed, and document 1 removed");
    assert_eq!(search("root")?, []);
    assert_eq!(search("leaf")?, [2]);
    assert_eq!(library.search(&before, "root")?, BTreeSet::from([1, 2]), "a snapshot goes on seeing both");
    Ok(())
}
