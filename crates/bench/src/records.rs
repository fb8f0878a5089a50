//! The data that workloads write, and the check that all of it is there.
//!
//! Every record can be computed from its number, so the check needs no copy of what was written.

use crate::{Outcome, ensure};
use base::env::Random;
use base::slots::Reader;
use run::Run;

/// Returns `0..n` in a random order that `seed` determines.
pub fn permutation(n: u32, seed: u64) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..n).collect();
    Random::seeded(seed).shuffle(&mut numbers);
    numbers
}

/// Records with random keys. The key of record `i` begins with 8 hashed bytes, which are unique, and its value begins
/// with `i`. In the order of `i` the keys are random.
#[derive(Clone, Copy, Debug)]
pub struct Records {
    seed: u64,
    key_bytes: usize,
    value_bytes: usize,
    /// Whether values are text.
    text: bool,
}

/// The words of text values, and the names of their fields: 64, of 3 to 12 letters.
const WORDS: [&str; 64] = [
    "account",
    "active",
    "address",
    "amount",
    "april",
    "archived",
    "author",
    "balance",
    "berlin",
    "billing",
    "blue",
    "cancelled",
    "category",
    "city",
    "closed",
    "comment",
    "country",
    "created",
    "currency",
    "customer",
    "deleted",
    "delivered",
    "delivery",
    "discount",
    "draft",
    "email",
    "express",
    "failed",
    "green",
    "house",
    "invoice",
    "item",
    "january",
    "lisbon",
    "london",
    "madrid",
    "march",
    "name",
    "new",
    "number",
    "october",
    "open",
    "order",
    "paid",
    "paris",
    "pending",
    "person",
    "phone",
    "price",
    "product",
    "quantity",
    "red",
    "refund",
    "returned",
    "shipped",
    "standard",
    "state",
    "status",
    "street",
    "total",
    "updated",
    "vienna",
    "warehouse",
    "weight",
];

/// The number of bytes in which a value stores its record's number.
const NUMBER_BYTES: usize = 8;

impl Records {
    /// Defines records whose keys have `key_bytes` and whose values have `value_bytes`, each at least 8.
    pub fn new(seed: u64, key_bytes: usize, value_bytes: usize) -> Self {
        assert!(key_bytes >= 8 && value_bytes >= NUMBER_BYTES);
        Records { seed, key_bytes, value_bytes, text: false }
    }

    /// Makes the values text: names of fields with words and numbers. A third of the fields are numbers of eight
    /// digits.
    #[must_use]
    pub fn of_text(self, text: bool) -> Self {
        Records { text, ..self }
    }

    /// Returns the bytes of a key and its value.
    pub fn record_bytes(&self) -> usize {
        self.key_bytes + self.value_bytes
    }

    /// Sets `key` to the key of record `i`.
    #[inline]
    pub fn key(&self, i: u64, key: &mut Vec<u8>) {
        key.clear();
        // SplitMix64's output is a bijection of its state, so different records differ in the first 8 bytes.
        fill(Random::seeded(self.seed.wrapping_add(i)), self.key_bytes, key);
    }

    /// Sets `value` to the value of record `i`.
    #[inline]
    pub fn value(&self, i: u64, value: &mut Vec<u8>) {
        value.clear();
        value.extend_from_slice(&i.to_be_bytes());
        let random = Random::seeded(self.seed ^ !i);
        if self.text {
            fill_text(random, self.value_bytes, value)
        } else {
            fill(random, self.value_bytes, value)
        }
    }

    /// Returns whether `value` has the length and number of record `i`'s value. It is cheap enough for a timed loop.
    #[inline]
    pub fn is_value_of(&self, i: u64, value: &[u8]) -> bool {
        value.len() == self.value_bytes && value[..NUMBER_BYTES] == i.to_be_bytes()
    }

    /// Scans everything and checks that it is exactly the records `0..n`, byte for byte.
    pub fn check(&self, n: u64, scan: &mut dyn Scan) -> Outcome<()> {
        let (mut found, mut last) = (0, Vec::new());
        let (mut wanted_key, mut wanted_value) = (Vec::new(), Vec::new());
        while let Some((key, value)) = scan.step()? {
            let number = value.first_chunk().map_or(u64::MAX, |bytes| u64::from_be_bytes(*bytes));
            self.key(number, &mut wanted_key);
            self.value(number, &mut wanted_value);
            let right = number < n && key == wanted_key && value == wanted_value;
            ensure(right, || format!("no record 0..{n} has key {key:02x?} and the value found"))?;
            ensure(found == 0 || last[..] < *key, || format!("key {key:02x?} is not above the one before"))?;
            last.clear();
            last.extend_from_slice(key);
            found += 1;
        }
        ensure(found == n, || format!("{found} records instead of {n}"))
    }
}

/// Appends random bytes until `out` has `len`.
#[inline]
fn fill(mut random: Random, len: usize, out: &mut Vec<u8>) {
    while out.len() < len {
        let bytes = random.next_u64().to_be_bytes();
        out.extend_from_slice(&bytes[..bytes.len().min(len - out.len())]);
    }
}

/// Appends fields until `out` has `len` bytes. Every record has the same names in the same order.
fn fill_text(mut random: Random, len: usize, out: &mut Vec<u8>) {
    let mut word = |out: &mut Vec<u8>| {
        out.extend_from_slice(WORDS[random.below(WORDS.len() as u64) as usize].as_bytes());
        random.below(100_000_000)
    };
    for field in 0.. {
        if out.len() >= len {
            break;
        }
        out.extend_from_slice(b"\"");
        out.extend_from_slice(WORDS[field * 7 % WORDS.len()].as_bytes());
        out.extend_from_slice(b"\":\"");
        let begins_at = out.len();
        let number = word(out);
        if field % 3 == 2 {
            out.truncate(begins_at);
            out.extend_from_slice(format!("{number:08}").as_bytes());
        }
        out.extend_from_slice(b"\",");
    }
    out.truncate(len);
}

/// Scans everything and checks that it is exactly the records that `make` returns for `0..n`, in this order.
pub fn check_ascending(
    n: u64,
    scan: &mut dyn Scan,
    make: impl Fn(u64, &mut Vec<u8>, &mut Vec<u8>),
) -> Outcome<()> {
    let (mut wanted_key, mut wanted_value) = (Vec::new(), Vec::new());
    for i in 0..n {
        wanted_key.clear();
        wanted_value.clear();
        make(i, &mut wanted_key, &mut wanted_value);
        let found = scan.step()?;
        let right = found == Some((&wanted_key[..], &wanted_value[..]));
        ensure(right, || format!("record {i} of {n} is {found:02x?}"))?;
    }
    let more = scan.step()?;
    ensure(more.is_none(), || format!("more than {n} records: {more:02x?}"))
}

/// A scan of records in order of their keys.
pub trait Scan {
    /// Returns the next record.
    fn step(&mut self) -> pando::Result<Option<(&[u8], &[u8])>>;
}

impl Scan for pando::Cursor<'_> {
    fn step(&mut self) -> pando::Result<Option<(&[u8], &[u8])>> {
        self.next()
    }
}

/// A scan of a run that does not belong to a database.
pub struct RunScan<'a> {
    pool: &'a pool::Pool,
    reader: &'a Reader,
    cursor: run::Cursor,
    began: bool,
    large: Vec<u8>,
}

impl<'a> RunScan<'a> {
    /// Starts a scan of `run` at its first record.
    pub fn new(run: Run, pool: &'a pool::Pool, reader: &'a Reader) -> Self {
        RunScan { pool, reader, cursor: run::Cursor::new(run), began: false, large: Vec::new() }
    }
}

impl Scan for RunScan<'_> {
    fn step(&mut self) -> pando::Result<Option<(&[u8], &[u8])>> {
        let on = match std::mem::replace(&mut self.began, true) {
            true => self.cursor.next(self.pool, self.reader)?,
            false => self.cursor.seek_first(self.pool, self.reader)?,
        };
        if !on {
            return Ok(None);
        }
        let (key, value) = self.cursor.entry().expect("the cursor is on a record");
        let value = match value {
            page::Value::Inline(bytes) => bytes,
            page::Value::Large(large) => {
                self.large = run::read_large(self.pool, large.reference())?;
                &self.large
            }
            page::Value::Deleted => return Err(base::Error::corruption("a delete with nothing below it")),
        };
        Ok(Some((key, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    type List = Vec<(Vec<u8>, Vec<u8>)>;

    /// A list, and the position of the scan.
    struct Plain(List, usize);

    impl Scan for Plain {
        fn step(&mut self) -> pando::Result<Option<(&[u8], &[u8])>> {
            self.1 += 1;
            Ok(self.0.get(self.1 - 1).map(|(key, value)| (&key[..], &value[..])))
        }
    }

    fn made(records: &Records, n: u64) -> List {
        let mut map = BTreeMap::new();
        for i in 0..n {
            let (mut key, mut value) = (Vec::new(), Vec::new());
            records.key(i, &mut key);
            records.value(i, &mut value);
            assert!(records.is_value_of(i, &value) && !records.is_value_of(i + 1, &value));
            map.insert(key, value);
        }
        map.into_iter().collect()
    }

    #[test]
    fn a_permutation_has_each_number_once() {
        let mut numbers = permutation(1000, 3);
        assert_eq!(numbers, permutation(1000, 3));
        assert_ne!(numbers, permutation(1000, 4));
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..1000));
    }

    #[test]
    fn the_check_sees_every_kind_of_wrong_record() {
        let records = Records::new(5, 24, 30);
        let good = made(&records, 100);
        let check = |list: Vec<_>| records.check(100, &mut Plain(list, 0));
        check(good.clone()).unwrap();
        let spoil = |how: &dyn Fn(&mut List)| {
            let mut list = good.clone();
            how(&mut list);
            check(list).unwrap_err();
        };
        spoil(&|list| drop(list.remove(50)));
        spoil(&|list| list[50].0[20] ^= 1);
        spoil(&|list| list[50].1[29] ^= 1);
        spoil(&|list| list.swap(3, 4));
        spoil(&|list| list[7] = list[6].clone());
        spoil(&|list| *list = made(&records, 101));
    }

    #[test]
    fn the_ascending_check_sees_missing_and_extra_records() {
        let list = |n: u64| (0..n).map(|i| (i.to_be_bytes().to_vec(), vec![1])).collect::<Vec<_>>();
        let check = |list: Vec<_>| {
            check_ascending(10, &mut Plain(list, 0), |i, key, value| {
                key.extend(i.to_be_bytes());
                value.push(1);
            })
        };
        check(list(10)).unwrap();
        check(list(9)).unwrap_err();
        check(list(11)).unwrap_err();
        let mut other = list(10);
        other[4].1 = vec![2];
        check(other).unwrap_err();
    }
}
