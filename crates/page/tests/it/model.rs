//! Random edits of a row of sibling pages against a `BTreeMap`, with a full structural check after each.
//!
//! The row stands for one level of a tree: `bounds` are the separators that a parent would hold. The same
//! driver runs on leaves and on inner pages, where entry 0's key is the page's bound.

use base::env::Random;
use base::limits::{MAX_BEGINNING_BYTES, max_inline_bytes, max_key_bytes};
use base::{CheckpointNo, DatabaseId, PagePtr};
use pando_page::{EditCounters, Kind, Large, LargeRef, LeafKey, Page, PageMut, Value};
use std::collections::BTreeMap;

const DATABASE: DatabaseId = DatabaseId(0x5eed);

#[derive(Clone, Debug, PartialEq)]
enum Item {
    Inline(Vec<u8>),
    /// An encoded reference, with a beginning after it.
    Large(Vec<u8>),
    Deleted,
    Child(PagePtr),
}

struct Row {
    kind: Kind,
    page_bytes: usize,
    pages: Vec<Vec<u8>>,
    bounds: Vec<Vec<u8>>,
    model: BTreeMap<Vec<u8>, Item>,
    counters: EditCounters,
    /// In bytes, before the slots of a page that is edited.
    widest_front_gap: u16,
}

impl Row {
    fn new(kind: Kind, page_bytes: usize) -> Row {
        let mut row = Row {
            kind,
            page_bytes,
            pages: Vec::new(),
            bounds: vec![Vec::new()],
            model: BTreeMap::new(),
            counters: EditCounters::default(),
            widest_front_gap: 0,
        };
        let mut first = row.fresh();
        if kind == Kind::Inner {
            let child = PagePtr::new(1, 4, 1);
            PageMut::edit(&mut first).insert_child(0, b"", child, &mut row.counters).unwrap();
            row.model.insert(Vec::new(), Item::Child(child));
        }
        row.pages.push(first);
        row
    }

    fn fresh(&self) -> Vec<u8> {
        let mut bytes = vec![0xee; self.page_bytes];
        PageMut::init(&mut bytes, self.kind, u8::from(self.kind == Kind::Inner), CheckpointNo(1));
        bytes
    }

    fn page_of(&self, key: &[u8]) -> usize {
        self.bounds.partition_point(|bound| bound.as_slice() <= key) - 1
    }

    fn position(&mut self, which: usize, key: &[u8]) -> Result<usize, usize> {
        let page = Page::trusted(&self.pages[which]);
        let found = page.search(key);
        assert_eq!(found, page.search_counted(key, &mut self.counters), "both searches agree");
        match self.kind {
            Kind::Inner if key == self.bounds[which] => Ok(0),
            _ => found,
        }
    }

    fn set(&mut self, key: &[u8], item: Item) {
        loop {
            let which = self.page_of(key);
            let found = self.position(which, key);
            assert_eq!(found.is_ok(), self.model.contains_key(key));
            let mut page = PageMut::edit(&mut self.pages[which]);
            let counters = &mut self.counters;
            let done = match (found, &item) {
                (Ok(at), Item::Child(child)) => {
                    page.set_child(at, *child);
                    Ok(())
                }
                (Err(at), Item::Child(child)) => page.insert_child(at, key, *child, counters),
                (Ok(at), Item::Inline(bytes)) => page.replace(at, Value::Inline(bytes), counters),
                (Ok(at), Item::Large(large)) => page.replace(at, Value::Large(Large::of(large)), counters),
                (Err(at), Item::Inline(bytes)) => page.insert(at, key, Value::Inline(bytes), counters),
                (Err(at), Item::Large(large)) => {
                    page.insert(at, key, Value::Large(Large::of(large)), counters)
                }
                (Ok(at), Item::Deleted) => page.replace(at, Value::Deleted, counters),
                (Err(at), Item::Deleted) => page.insert(at, key, Value::Deleted, counters),
            };
            let at = match found {
                Ok(at) | Err(at) => at,
            };
            if done.is_ok() {
                self.check(which);
                break;
            }
            let cut = page.as_page().split_position(at);
            self.split(which, cut, key);
        }
        self.model.insert(key.to_vec(), item);
    }

    /// `coming` is the key that will be the first of the right page if the cut is at the very end.
    fn split(&mut self, which: usize, cut: usize, coming: &[u8]) {
        let page = Page::trusted(&self.pages[which]);
        let mut bound = coming.to_vec();
        if cut < page.count() {
            page.separator(cut, &mut bound);
        } else if self.kind == Kind::Inner {
            return self.split(which, cut - 1, coming);
        }
        let mut right = self.fresh();
        let mut left = PageMut::edit(&mut self.pages[which]);
        left.split(&mut PageMut::edit(&mut right), cut, &mut self.counters);
        self.pages.insert(which + 1, right);
        self.bounds.insert(which + 1, bound);
        self.check(which);
        if cut < Page::trusted(&self.pages[which]).count() {
            self.check(which + 1);
        }
    }

    fn remove(&mut self, key: &[u8]) {
        let which = self.page_of(key);
        let found = self.position(which, key);
        assert_eq!(found.is_ok(), self.model.contains_key(key));
        let Ok(at) = found else { return };
        if self.kind == Kind::Inner && at == 0 {
            let page = Page::trusted(&self.pages[which]);
            if page.count() == 1 || which == 0 {
                return;
            }
            page.copy_key(1, &mut self.bounds[which]);
        }
        PageMut::edit(&mut self.pages[which]).remove(at, &mut self.counters);
        self.check(which);
        self.model.remove(key);
    }

    fn merge(&mut self, which: usize) {
        let (left, right) = self.pages.split_at_mut(which + 1);
        let before = left[which].clone();
        let right = Page::trusted(&right[0]);
        let merged =
            PageMut::edit(&mut left[which]).merge(right, &self.bounds[which + 1], &mut self.counters);
        match merged {
            Ok(()) => {
                self.pages.remove(which + 1);
                self.bounds.remove(which + 1);
            }
            Err(_) => assert!(before == self.pages[which], "a refused merge changes nothing"),
        }
        self.check(which);
    }

    fn borrow(&mut self, which: usize, random: &mut Random) {
        let from_right = random.chance(1, 2);
        let (left, right) = self.pages.split_at_mut(which + 1);
        let mut left = PageMut::edit(&mut left[which]);
        let mut right = PageMut::edit(&mut right[0]);
        let giver = if from_right { right.as_page() } else { left.as_page() };
        if giver.count() < 2 {
            return;
        }
        let n = 1 + random.below(giver.count() as u64 - 1) as usize;
        let mut bound = Vec::new();
        giver.separator(if from_right { n } else { giver.count() - n }, &mut bound);
        let separator = &self.bounds[which + 1];
        let done = match from_right {
            true => left.borrow_from_right(&mut right, n, separator, &mut self.counters),
            false => right.borrow_from_left(&mut left, n, separator, &mut self.counters),
        };
        if done.is_ok() {
            self.bounds[which + 1] = bound;
        }
        self.check(which);
        self.check(which + 1);
    }

    /// What the page is on the disk. Sealing closes the front gap, which the next edits are to find.
    fn check(&mut self, which: usize) {
        let unit = which as u64;
        let edited = Page::trusted(&self.pages[which]);
        let mut sealed = self.pages[which].clone();
        let sum = PageMut::edit(&mut sealed).seal(DATABASE, unit);
        let ptr = PagePtr::new(unit, (self.page_bytes / 4096) as u64, sum);
        let page = Page::verify(&sealed, ptr, DATABASE).unwrap();
        assert_eq!(page.used_bytes() + page.free_bytes(), self.page_bytes);
        assert_eq!(page.free_bytes(), edited.free_bytes());
        let front_gap = |bytes: &[u8]| u16::from_le_bytes([bytes[42], bytes[43]]);
        assert_eq!(front_gap(&sealed), 0);
        self.widest_front_gap = self.widest_front_gap.max(front_gap(&self.pages[which]));
    }

    fn check_all(&mut self) {
        let mut key = Vec::new();
        let mut leaf_key = LeafKey::default();
        let mut found = Vec::new();
        let mut sums = 0u64;
        for (which, bytes) in self.pages.iter().enumerate() {
            let page = Page::trusted(bytes);
            leaf_key.enter(page);
            let large_before = found.len();
            for i in 0..page.count() {
                page.copy_key(i, &mut key);
                if self.kind == Kind::Inner && i == 0 {
                    key.clone_from(&self.bounds[which]);
                }
                assert!(key >= self.bounds[which]);
                if self.kind == Kind::Leaf {
                    leaf_key.set(page, page.parts(i));
                    assert_eq!(leaf_key.get(), key);
                    assert_eq!(page.parts(i).is_inline(), matches!(page.value(i), Value::Inline(_)));
                }
                let item = match self.kind {
                    Kind::Inner => Item::Child(page.child(i)),
                    Kind::Leaf => match page.value(i) {
                        Value::Inline(value) => {
                            assert_eq!(page.payload_at(page.parts(i)), value);
                            Item::Inline(value.to_vec())
                        }
                        Value::Large(large) => Item::Large(large.bytes().to_vec()),
                        Value::Deleted => Item::Deleted,
                    },
                };
                found.push((key.clone(), item));
            }
            let is_large = |item: &Item| match item {
                Item::Inline(_) | Item::Deleted => false,
                Item::Large(..) => true,
                Item::Child(child) => child.flags() & PagePtr::HAS_LARGE != 0,
            };
            if self.kind == Kind::Leaf {
                let deletes = found[large_before..].iter().filter(|(_, item)| *item == Item::Deleted).count();
                assert_eq!(page.deletes(), deletes);
            }
            assert_eq!(page.has_large(), found[large_before..].iter().any(|(_, item)| is_large(item)));
            if self.kind == Kind::Leaf {
                sums = sums.wrapping_add(page.record_sum(&mut key));
            }
        }
        assert!(
            found.iter().map(|(k, v)| (k, v)).eq(self.model.iter()),
            "the row holds what the model holds"
        );
        if self.kind == Kind::Leaf {
            let expected = self.model.iter().fold(0u64, |sum, (key, item)| {
                sum.wrapping_add(match item {
                    Item::Inline(value) => base::checksum::record(key, value),
                    Item::Large(large) => base::checksum::record(key, large),
                    Item::Deleted => base::checksum::record(key, &[]),
                    Item::Child(_) => unreachable!("a leaf has no children"),
                })
            });
            assert_eq!(sums, expected);
        }
    }
}

fn random_key(random: &mut Random, longest: usize) -> Vec<u8> {
    match random.below(6) {
        0 => random.below(300).to_be_bytes().to_vec(),
        1 => (0..random.below(7)).map(|_| [0, 0, b'a', 0xff][random.below(4) as usize]).collect(),
        2 => [b"common/prefix/of/many/".as_slice(), &random.below(400).to_string().into_bytes()].concat(),
        3 => (random.next_u64() >> 52 << 40).to_be_bytes().to_vec(),
        4 => {
            let mut key = vec![b'x'; longest - random.below(3) as usize];
            let at = random.below(key.len() as u64) as usize;
            key[at] = random.below(3) as u8;
            key
        }
        _ => vec![b'z'; random.below(longest as u64 + 1) as usize],
    }
}

fn random_item(random: &mut Random, kind: Kind, page_bytes: usize) -> Item {
    if kind == Kind::Inner {
        let flags = u8::from(random.chance(1, 9));
        return Item::Child(PagePtr::new(random.below(1000), 4, random.next_u64()).with_flags(flags));
    }
    let longest = max_inline_bytes(page_bytes) as u64;
    let len = match random.below(40) {
        0 => longest,
        1..4 => random.below(longest + 1),
        4 => {
            let len_bytes = 5000 + random.below(3000);
            let head = [random.next_u64() as u8; 8];
            let first = vec![head[0]; [0, 8, 40, MAX_BEGINNING_BYTES][random.below(4) as usize]];
            let reference = LargeRef { ptr: PagePtr::new(random.below(99), 2, 7), len_bytes, head };
            return Item::Large([&reference.encode()[..], &first].concat());
        }
        5..7 => return Item::Deleted,
        _ => random.below(40),
    };
    Item::Inline(vec![random.next_u64() as u8; len as usize])
}

fn drive(kind: Kind, page_bytes: usize, seed: u64, steps: u64) {
    let mut random = Random::seeded(seed);
    let mut row = Row::new(kind, page_bytes);
    for step in 0..steps {
        // Long phases of growth and of shrinking, so that pages fill and empty.
        let growing = step / 400 % 2 == 0;
        let key = random_key(&mut random, max_key_bytes(page_bytes));
        match random.below(20) {
            0 if row.pages.len() > 1 => row.merge(random.below(row.pages.len() as u64 - 1) as usize),
            1 if row.pages.len() > 1 => {
                let which = random.below(row.pages.len() as u64 - 1) as usize;
                row.borrow(which, &mut random);
            }
            2..5 => row.remove(&key),
            _ if growing => row.set(&key, random_item(&mut random, kind, page_bytes)),
            _ => {
                let probe = row.model.range(key.clone()..).next().map(|(key, _)| key.clone());
                row.remove(&probe.unwrap_or(key));
            }
        }
        if step % 50 == 0 {
            row.check_all();
        }
    }
    row.check_all();
    let counters = row.counters;
    assert!(counters.splits > 0 && counters.merges > 0 && counters.borrows > 0, "{counters:?}");
    assert_eq!(counters.compactions, counters.allocator_failures);
    assert!(page_bytes < 16384 || row.widest_front_gap > 0, "the slots moved at both ends");
}

#[test]
fn leaves_agree_with_a_map() {
    for (seed, page_bytes) in [4096, 4096, 8192, 16384, 65536].into_iter().enumerate() {
        drive(Kind::Leaf, page_bytes, seed as u64 + 10, 1600);
    }
}

#[test]
fn inner_pages_agree_with_a_map() {
    for (seed, page_bytes) in [4096, 4096, 4096, 16384].into_iter().enumerate() {
        drive(Kind::Inner, page_bytes, 100 + seed as u64, 1600);
    }
}

/// Inserts `keys` with 8-byte values; returns what that cost and the most decodes an insert needed on average.
fn steady(keys: &[Vec<u8>], page_bytes: usize) -> (EditCounters, f64) {
    let mut row = Row::new(Kind::Leaf, page_bytes);
    for key in keys {
        loop {
            let which = row.page_of(key);
            let mut page = PageMut::edit(&mut row.pages[which]);
            let at = page.as_page().search_counted(key, &mut row.counters).unwrap_err();
            if page.insert(at, key, Value::Inline(&[7; 8]), &mut row.counters).is_ok() {
                break;
            }
            let cut = page.as_page().split_position(at);
            row.split(which, cut, key);
        }
        row.model.insert(key.clone(), Item::Inline(vec![7; 8]));
    }
    row.check_all();
    (row.counters, row.counters.key_decodes as f64 / keys.len() as f64)
}

#[test]
fn steady_inserts_never_compact() {
    let mut random = Random::seeded(5);
    for page_bytes in [4096, 16384] {
        let ascending: Vec<Vec<u8>> = (0..10_000u64).map(|i| i.to_be_bytes().to_vec()).collect();
        let mut shuffled = ascending.clone();
        random.shuffle(&mut shuffled);
        let four: Vec<Vec<u8>> = shuffled.iter().map(|key| key[4..].to_vec()).collect();
        let long: Vec<Vec<u8>> =
            shuffled.iter().map(|key| [b"user/".as_slice(), key, key].concat()).collect();
        let mut wide: Vec<u64> = (0..10_000).map(|_| random.next_u64()).collect();
        wide.dedup();
        let wide: Vec<Vec<u8>> = wide.iter().map(|key| key.to_be_bytes().to_vec()).collect();
        for (name, keys) in [
            ("ascending", &ascending),
            ("shuffled", &shuffled),
            ("four", &four),
            ("long", &long),
            ("wide", &wide),
        ] {
            let (counters, decodes) = steady(keys, page_bytes);
            assert_eq!((counters.allocator_failures, counters.compactions), (0, 0), "{name}: {counters:?}");
            assert!(
                decodes <= if name == "long" { 20.0 } else { 1.0 },
                "{name}: {decodes} decodes an insert"
            );
        }
    }
}

#[test]
fn ascending_inserts_leave_full_pages() {
    let mut row = Row::new(Kind::Leaf, 4096);
    for i in 0..2000u64 {
        row.set(&i.to_be_bytes(), Item::Inline(vec![1; 8]));
    }
    let full = row.pages.len() - 1;
    for bytes in &row.pages[..full] {
        assert!(Page::trusted(bytes).free_bytes() < 64, "{:?}", Page::trusted(bytes));
    }
}

#[test]
fn alternating_inserts_and_removes_stay_in_their_space() {
    let mut random = Random::seeded(11);
    let mut bytes = vec![0; 4096];
    let mut counters = EditCounters::default();
    let mut page = PageMut::init(&mut bytes, Kind::Leaf, 0, CheckpointNo(1));
    let mut live: Vec<u32> = Vec::new();
    // 160 entries of 8 + 12 bytes and a prefix: about four fifths of the page.
    for step in 0..20_000u32 {
        if live.len() >= 160 {
            let gone = live.swap_remove(random.below(160) as usize);
            let at = page.as_page().search(&gone.to_be_bytes()).unwrap();
            page.remove(at, &mut counters);
        }
        let key = step.wrapping_mul(2_654_435_761);
        let at = page.as_page().search(&key.to_be_bytes()).unwrap_err();
        page.insert(at, &key.to_be_bytes(), Value::Inline(&[1; 6]), &mut counters).unwrap();
        live.push(key);
    }
    assert_eq!((counters.allocator_failures, counters.compactions), (0, 0), "freed cells are found again");
}

#[test]
fn growing_values_reach_all_free_bytes() {
    let mut random = Random::seeded(13);
    let mut bytes = vec![0; 4096];
    let mut counters = EditCounters::default();
    let mut page = PageMut::init(&mut bytes, Kind::Leaf, 0, CheckpointNo(1));
    for i in 0..40u8 {
        page.insert(usize::from(i), &[i], Value::Inline(b""), &mut counters).unwrap();
    }
    for _ in 0..5000 {
        let (at, len) = (random.below(40) as usize, random.below(150) as usize);
        let room = page.as_page().free_bytes();
        let fits = page.replace(at, Value::Inline(&vec![3; len]), &mut counters).is_ok();
        assert!(fits || room < len + 3, "{room} bytes are free, {len} do not fit");
    }
    assert!(counters.compactions > 0, "this load has to compact: {counters:?}");
}
