//! Collections, and the generations that keep the elements of each from those of all others.

use super::Space;
use crate::fault::{Done, Fault};
use crate::layout::{self, Header, Kind};

impl Space<'_> {
    /// Returns the header of a collection of this type, if the key exists.
    ///
    /// # Errors
    /// [`Fault::WRONG_TYPE`] if it has another type.
    pub fn collection(&self, key: &[u8], kind: Kind) -> Done<Option<Header>> {
        match self.find(key)? {
            Some(entry) if entry.header.kind != kind => Err(Fault::WRONG_TYPE),
            found => Ok(found.map(|entry| entry.header)),
        }
    }

    /// Returns the header of a collection of this type to change it, if the key exists. Errors are those of
    /// [`Space::collection`].
    pub fn collection_to_write(&mut self, key: &[u8], kind: Kind) -> Done<Option<Header>> {
        match self.find_to_write(key)? {
            Some(entry) if entry.header.kind != kind => Err(Fault::WRONG_TYPE),
            found => Ok(found.map(|entry| entry.header)),
        }
    }

    /// Returns the header of a collection of this type, or of a new one. Errors are those of [`Space::collection`].
    pub fn collection_or_new(&mut self, key: &[u8], kind: Kind) -> Done<Header> {
        match self.collection_to_write(key, kind)? {
            Some(found) => Ok(found),
            None => self.new_collection(kind),
        }
    }

    /// Returns the header of a new collection without elements. Its generation is one that no element in the table has.
    pub fn new_collection(&mut self, kind: Kind) -> Done<Header> {
        self.check_generations()?;
        Ok(Header::new(kind, self.versions.after(0)))
    }

    /// Makes sure that the table has no elements of the generations that are given from now on. The transaction reads
    /// the range of their keys, so that it fails if another one has added an element there until its commit; and so
    /// one look is enough for all collections that it creates.
    fn check_generations(&mut self) -> Done {
        if self.are_generations_checked[self.database] {
            return Ok(());
        }
        let unused = layout::generations_from(self.versions.next());
        if let Some(mut cursor) = self.cursor(unused)?
            && let Some((last, _)) = cursor.prev()?
        {
            let last = layout::generation_of(last);
            if last == u64::MAX {
                let fault =
                    "ERR the table of this database has the last generation: no collection can be created";
                return Err(Fault::fixed(fault));
            }
            self.versions.pass(last);
        }
        self.are_generations_checked[self.database] = true;
        Ok(())
    }

    /// Returns what [`Space::collection_to_write`] returns to a command that pops. For a client that waits already, a
    /// key that got another type meanwhile is as good as none.
    pub fn collection_to_pop(&mut self, key: &[u8], kind: Kind) -> Done<Option<Header>> {
        match self.find_to_write(key)? {
            Some(entry) if entry.header.kind != kind && self.is_waiting => Ok(None),
            Some(entry) if entry.header.kind != kind => Err(Fault::WRONG_TYPE),
            found => Ok(found.map(|entry| entry.header)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Event, LAYOUT, LAYOUT_KEY};
    use crate::space::{Parts, Source};
    use crate::tables::{Slot, Tables, table_name};
    use crate::versions::Versions;
    use pando::{Database, ErrorKind, Transaction};

    fn database() -> (Database, Tables) {
        let db = Database::builder().in_memory().unwrap();
        let table = db.ensure_table(&table_name(0)).unwrap();
        db.put(&table, LAYOUT_KEY, [LAYOUT]).unwrap();
        let mut tables = Tables::default();
        tables[0] = Slot::Keys(table);
        (db, tables)
    }

    /// Creates a set with one member, and returns its generation.
    fn create(tx: &mut Transaction, tables: &Tables, versions: &Versions, key: &str) -> Done<u64> {
        let mut space = Space::new(Source::Transaction(tx), tables, 0, versions);
        let mut header = space.new_collection(Kind::Set)?;
        header.count = 1;
        space.put_element(&header, key.as_bytes(), b"")?;
        space.save(key.as_bytes(), &header, Event::SAdd)?;
        Ok(header.generation)
    }

    fn members(db: &Database, tables: &Tables, versions: &Versions, generation: u64) -> Vec<Vec<u8>> {
        let snapshot = db.snapshot().unwrap();
        let space = Space::new(Source::Snapshot(&snapshot), tables, 0, versions);
        let mut members = Vec::new();
        let header = Header::new(Kind::Set, generation);
        space
            .each_element(&header, &Parts::ALL, |member, _| {
                members.push(member.to_vec());
                Ok(true)
            })
            .unwrap();
        members
    }

    #[test]
    fn a_process_whose_clock_is_late_takes_no_generation_that_is_in_use() {
        let (db, tables) = database();
        let early = Versions::new();
        early.pass(early.next() + 10);
        let taken = db.write(|tx| Ok(create(tx, &tables, &early, "victim").unwrap())).unwrap();
        // The next process begins before that.
        let late = Versions::starting_at(taken - 3);
        for key in ["a", "b", "c", "d", "e"] {
            let new = db.write(|tx| Ok(create(tx, &tables, &late, key).unwrap())).unwrap();
            assert!(new > taken, "{new} follows {taken}");
        }
        assert_eq!(members(&db, &tables, &late, taken), [b"victim"]);
    }

    #[test]
    fn two_transactions_do_not_commit_the_same_generation() {
        let (db, tables) = database();
        let (one, other) = (Versions::starting_at(1000), Versions::starting_at(1000));
        let (mut first, mut second) = (db.begin().unwrap(), db.begin().unwrap());
        let same = create(&mut first, &tables, &one, "first").unwrap();
        assert_eq!(create(&mut second, &tables, &other, "second").unwrap(), same);
        first.commit().unwrap();
        assert_eq!(second.commit().unwrap_err().kind(), ErrorKind::Conflict);
        let again = db.write(|tx| Ok(create(tx, &tables, &other, "second").unwrap())).unwrap();
        assert!(again > same);
        assert_eq!(members(&db, &tables, &one, same), [b"first"]);
    }

    #[test]
    fn records_of_other_programs_are_passed_too() {
        let (db, tables) = database();
        let Slot::Keys(table) = &tables[0] else { unreachable!("it was just made") };
        let versions = Versions::starting_at(1000);
        // It lacks seven bytes of a generation.
        db.put(table, [2, 7], "").unwrap();
        let new = db.write(|tx| Ok(create(tx, &tables, &versions, "a").unwrap())).unwrap();
        assert!(new > 7 << 56, "{new:x}");
        db.put(table, [2; 1].iter().chain(&[0xff; 8]).copied().collect::<Vec<u8>>(), "").unwrap();
        let refused = db.write(|tx| Ok(create(tx, &tables, &versions, "b").is_err())).unwrap();
        assert!(refused, "no generation comes after the last one");
    }
}
