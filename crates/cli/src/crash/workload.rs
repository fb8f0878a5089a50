//! The commits of the crash workload, and the conditions that must hold at any time when the process is killed.
//!
//! Each of [`WRITERS`] writers makes its own commits 1, 2, 3 and so on. Commit `n` of writer `w` is one transaction
//! over two tables:
//!
//! 1. It puts its rows `(w, n, 0..k)` into [`ROWS`]. Their number, lengths and bytes are computed from the seed.
//! 2. It deletes the rows of commit `n - WINDOW`, one by one or as a range, so that the database stays small.
//! 3. If it is a *contended* commit, it adds 1 to a row that all writers share, which makes them conflict.
//! 4. It sets `w`'s row in [`COUNTERS`] to `n` and to the number of its contended commits so far.
//!
//! The judge reads one snapshot. Let `c` be `w`'s counter. Then:
//!
//! 1. *No acknowledged commit is lost*: `c` is at least the last commit that `w` acknowledged.
//! 2. *No commit is applied partially*: the rows of `w` are exactly those of commits `c - WINDOW + 1 ..= c`, byte for
//!    byte.
//! 3. *No update is lost*: the shared row is the sum of the contended commits of all writers.

use base::env::Random;
use pando::{Database, Durability, Result, Snapshot, Span, Table, Transaction};

/// The number of concurrent writers.
pub const WRITERS: usize = 4;
/// The number of commits of a writer whose rows are kept.
const WINDOW: u64 = 48;
/// The largest number of rows of a commit.
const MOST_ROWS: u64 = 8;
/// One commit in this number changes the shared row.
const CONTENDED_ONE_IN: u64 = 8;
/// One commit in this number has a row that needs an extent of its own.
const LARGE_ONE_IN: u64 = 40;

/// The table of the rows.
pub const ROWS: &str = "crash-rows";
/// The table of the counters.
pub const COUNTERS: &str = "crash-counters";
const SHARED: &[u8] = b"shared";

/// A commit number for each writer.
pub type Marks = [u64; WRITERS];

/// The workload's tables.
#[derive(Clone, Debug)]
pub struct Tables {
    rows: Table,
    counters: Table,
}

impl Tables {
    /// Opens the tables, and creates them if they do not exist.
    pub fn create(db: &Database) -> Result<Self> {
        Ok(Tables { rows: db.ensure_table(ROWS)?, counters: db.ensure_table(COUNTERS)? })
    }

    /// Returns the tables as `snapshot` sees them; `None` if a kill came before they were created.
    fn open(snapshot: &Snapshot) -> Result<Option<Self>> {
        let (rows, counters) = (snapshot.table(ROWS)?, snapshot.table(COUNTERS)?);
        Ok(rows.zip(counters).map(|(rows, counters)| Tables { rows, counters }))
    }
}

/// A writer's counter row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// The number of the last commit.
    pub commit: u64,
    /// The number of contended commits up to it.
    contended: u64,
}

impl Counter {
    /// Reads the counter of `writer`, which is zero before its first commit.
    pub fn read(snapshot: &Snapshot, tables: &Tables, writer: usize) -> Result<Counter> {
        let numbers = snapshot.get_with(&tables.counters, &counter_key(writer), numbers)?;
        Ok(numbers.map_or(Counter::default(), |[commit, contended]| Counter { commit, contended }))
    }
}

fn counter_key(writer: usize) -> [u8; 1] {
    [writer as u8]
}

/// Reads little-endian numbers. If the length is wrong, all bits are ones, a value that no counter reaches.
fn numbers<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut numbers = [u64::MAX; N];
    if bytes.len() == N * 8 {
        for (number, chunk) in numbers.iter_mut().zip(bytes.chunks_exact(8)) {
            *number = u64::from_le_bytes(chunk.try_into().expect("a chunk has 8 bytes"));
        }
    }
    numbers
}

/// One commit. These three numbers determine what it writes.
#[derive(Clone, Copy, Debug)]
pub struct Commit {
    pub seed: u64,
    pub writer: usize,
    pub number: u64,
}

/// A key and its value.
type Row = (Vec<u8>, Vec<u8>);

impl Commit {
    fn random(self) -> Random {
        let mut random = Random::seeded(self.seed ^ (self.writer as u64) << 56 ^ self.number);
        // Seeds that differ in few bits produce similar first numbers.
        Random::seeded(random.next_u64())
    }

    fn is_contended(self) -> bool {
        self.random().chance(1, CONTENDED_ONE_IN)
    }

    /// Returns `Sync` or `Buffered`. Commits of both must survive a killed process.
    pub fn durability(self) -> Durability {
        if self.number.is_multiple_of(2) { Durability::Sync } else { Durability::Buffered }
    }

    fn prefix(self) -> Vec<u8> {
        let mut key = vec![self.writer as u8];
        key.extend_from_slice(&self.number.to_be_bytes());
        key
    }

    /// Returns the rows in key order.
    fn rows(self) -> Vec<Row> {
        let mut random = self.random();
        random.next_u64();
        let count = 1 + random.below(MOST_ROWS);
        let large = random.chance(1, LARGE_ONE_IN).then_some(0);
        let row = |index: u64| {
            let longest = if large == Some(index) { 40_000 } else { 300 };
            let length = random.below(longest) as usize;
            let words = std::iter::repeat_with(|| random.next_u64().to_le_bytes());
            let mut value: Vec<u8> = words.take(length.div_ceil(8)).flatten().collect();
            value.truncate(length);
            ([self.prefix(), vec![index as u8]].concat(), value)
        };
        (0..count).map(row).collect()
    }

    /// Writes the commit into `tx` and returns the counter after it. `before` is the counter before it.
    pub fn write(self, tx: &mut Transaction, tables: &Tables, before: Counter) -> Result<Counter> {
        for (key, value) in self.rows() {
            tx.put(&tables.rows, &key, &value)?;
        }
        if let Some(number) = self.number.checked_sub(WINDOW).filter(|number| *number > 0) {
            let old = Commit { number, ..self };
            if number.is_multiple_of(2) {
                tx.delete_range(&tables.rows, Span::prefix(&old.prefix()))?;
            } else {
                old.rows().iter().try_for_each(|(key, _)| tx.delete(&tables.rows, key))?;
            }
        }
        let contended = u64::from(self.is_contended());
        if contended == 1 {
            let shared = tx.get_with(&tables.counters, SHARED, numbers)?;
            let [shared] = shared.unwrap_or([0]);
            tx.put(&tables.counters, SHARED, &(shared + 1).to_le_bytes())?;
        }
        let after = Counter { commit: self.number, contended: before.contended + contended };
        let row = [after.commit.to_le_bytes(), after.contended.to_le_bytes()].concat();
        tx.put(&tables.counters, &counter_key(self.writer), &row)?;
        Ok(after)
    }
}

/// The result of a judgement.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// The last commit of each writer.
    pub marks: Marks,
    /// The number of rows that were compared.
    pub rows: u64,
    /// The violations; empty if there are none.
    pub wrong: Vec<String>,
}

/// Judges the content of `db` after a kill. `acknowledged` is, for each writer, the last commit that must exist.
///
/// # Errors
/// An error of reading. Violations are in the verdict.
pub fn judge(db: &Database, seed: u64, acknowledged: &Marks) -> Result<Verdict> {
    let snapshot = db.snapshot()?;
    let mut verdict = Verdict::default();
    let Some(tables) = Tables::open(&snapshot)? else {
        if acknowledged.iter().any(|mark| *mark > 0) {
            verdict
                .wrong
                .push("the tables are missing, although commits to them were acknowledged".to_owned());
        }
        return Ok(verdict);
    };
    let mut contended = 0;
    for (writer, acknowledged) in acknowledged.iter().enumerate() {
        let counter = Counter::read(&snapshot, &tables, writer)?;
        if counter.commit < *acknowledged || counter.commit == u64::MAX {
            let found = counter.commit;
            verdict.wrong.push(format!("writer {writer}: acknowledged up to {acknowledged}, found {found}"));
            continue;
        }
        verdict.marks[writer] = counter.commit;
        contended += counter.contended;
        judge_rows(&snapshot, &tables, Commit { seed, writer, number: counter.commit }, &mut verdict)?;
    }
    let [shared] = snapshot.get_with(&tables.counters, SHARED, numbers)?.unwrap_or([0]);
    if shared != contended && verdict.wrong.is_empty() {
        verdict.wrong.push(format!("the shared row is {shared}, the writers' sum {contended}"));
    }
    Ok(verdict)
}

/// Compares the rows of one writer, up to its `last` commit, with the expected ones.
fn judge_rows(snapshot: &Snapshot, tables: &Tables, last: Commit, verdict: &mut Verdict) -> Result<()> {
    let first = last.number.saturating_sub(WINDOW) + 1;
    let expected = (first..=last.number).flat_map(|number| Commit { number, ..last }.rows());
    let mut cursor = snapshot.cursor(&tables.rows, Span::prefix(&counter_key(last.writer)))?;
    for (key, value) in expected {
        match cursor.next()? {
            Some(found) if found == (&key[..], &value[..]) => verdict.rows += 1,
            found => {
                let found = found.map(|(found, value)| format!("{} of {} bytes", name(found), value.len()));
                let (wanted, found) = (name(&key), found.unwrap_or_else(|| "nothing".to_owned()));
                let message = format!(
                    "writer {}, last commit {}: expected {wanted} of {} bytes, found {found}",
                    last.writer,
                    last.number,
                    value.len(),
                );
                verdict.wrong.push(message);
                return Ok(());
            }
        }
    }
    if let Some((key, _)) = cursor.next()? {
        let (writer, number, key) = (last.writer, last.number, name(key));
        verdict.wrong.push(format!("writer {writer}, last commit {number}: {key} should not be there"));
    }
    Ok(())
}

/// Returns a row's key for people.
fn name(key: &[u8]) -> String {
    match key {
        [_, number @ .., index] if number.len() == 8 => {
            let number = u64::from_be_bytes(number.try_into().expect("it has 8 bytes"));
            format!("row {index} of commit {number}")
        }
        _ => format!("key {}", crate::text::to_hex(key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 7;

    fn filled(commits: u64) -> (Database, Tables, Marks) {
        let db = Database::builder().in_memory().unwrap();
        let tables = Tables::create(&db).unwrap();
        let mut counters = [Counter::default(); WRITERS];
        for number in 1..=commits {
            for (writer, counter) in counters.iter_mut().enumerate() {
                let commit = Commit { seed: SEED, writer, number };
                *counter = db.write(|tx| commit.write(tx, &tables, *counter)).unwrap();
            }
        }
        (db, tables, [commits; WRITERS])
    }

    #[test]
    fn what_was_written_is_judged_right() {
        for commits in [0, 1, WINDOW, WINDOW + 1, 2 * WINDOW] {
            let (db, _, marks) = filled(commits);
            let verdict = judge(&db, SEED, &marks).unwrap();
            assert_eq!((verdict.wrong, verdict.marks), (Vec::new(), marks));
        }
    }

    #[test]
    fn each_kind_of_damage_is_found() {
        let damages: [fn(&mut Transaction, &Tables) -> Result<()>; 5] = [
            // In order: a lost row, a changed row, a row of a commit that never was, a lost commit, a lost update.
            |tx, tables| tx.delete(&tables.rows, &Commit { seed: SEED, writer: 1, number: 60 }.rows()[0].0),
            |tx, tables| {
                tx.put(&tables.rows, &Commit { seed: SEED, writer: 2, number: 60 }.rows()[0].0, b"x")
            },
            |tx, tables| tx.put(&tables.rows, &Commit { seed: SEED, writer: 3, number: 61 }.rows()[0].0, b""),
            |tx, tables| tx.put(&tables.counters, &counter_key(0), &[0; 16]),
            |tx, tables| tx.put(&tables.counters, SHARED, &1_u64.to_le_bytes()),
        ];
        for (index, damage) in damages.iter().enumerate() {
            let (db, tables, marks) = filled(60);
            db.write(|tx| damage(tx, &tables)).unwrap();
            let wrong = judge(&db, SEED, &marks).unwrap().wrong;
            assert_eq!(wrong.len(), 1, "damage {index}: {wrong:?}");
        }
    }
}
