//! The map against sets of units, under random interleavings of everything it can do.
//!
//! What must hold: no unit is handed out that is live, waits for its release, or was live at the last save; a save
//! writes to none of these either, and the map before it stays readable; the map that is loaded from a root has
//! exactly what was live at its save; a failed save and a revert change nothing that they should not.

use crate::common::{Recorder, trim};
use base::env::Random;
use base::{CheckpointNo, DatabaseId, PagePtr};
use io::File;
use pando_space::{Extent, Space, SpaceRoot};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const DATABASE: DatabaseId = DatabaseId(11);
const RESERVED: u64 = 2;

/// What the engine would reach.
#[derive(Clone, Default)]
struct Live {
    /// Reachable from the trees.
    trees: BTreeSet<Extent>,
    /// Reachable from the log alone.
    logged: BTreeSet<Extent>,
}

struct Model {
    file: Arc<Recorder>,
    space: Space,
    random: Random,
    now: Live,
    saved: Live,
    /// Logged at the last save or since, and not given up: what a revert makes logged again.
    owed: BTreeSet<Extent>,
    root: SpaceRoot,
    checkpoint: u64,
    /// Units with their birth, by the checkpoint at which they were retired; `retiring` since the last save.
    retired: BTreeMap<u64, BTreeMap<u64, u64>>,
    retiring: BTreeMap<u64, u64>,
    /// What checkpoints reach of which that is known, and who was read at the last release.
    reached: BTreeMap<u64, BTreeSet<u64>>,
    readers: BTreeSet<u64>,
    /// From which checkpoint on somebody may reach what only the log refers to, by its first unit.
    births: BTreeMap<u64, u64>,
    longest: u64,
}

/// So many maps are kept without a reader.
const RECENT: usize = 3;

fn units(extents: &BTreeSet<Extent>) -> BTreeSet<u64> {
    extents.iter().flat_map(|extent| extent.unit..extent.end()).collect()
}

impl Model {
    fn new(seed: u64, longest: u64) -> Model {
        let file = Recorder::new();
        let mut space = Space::create(file.clone(), DATABASE, RESERVED);
        let root = space.save(CheckpointNo(0)).unwrap();
        let (now, saved) = (Live::default(), Live::default());
        let (retired, retiring) = (BTreeMap::new(), BTreeMap::new());
        let random = Random::seeded(seed);
        Model {
            file,
            space,
            random,
            now,
            saved,
            owed: BTreeSet::new(),
            root,
            checkpoint: 1,
            retired,
            retiring,
            reached: BTreeMap::from([(0, BTreeSet::new())]),
            readers: BTreeSet::new(),
            births: BTreeMap::new(),
            longest,
        }
    }

    /// Units that nobody may be given and no save may write to.
    fn untouchable(&self) -> BTreeSet<u64> {
        let mut all: BTreeSet<u64> = (0..RESERVED).collect();
        for live in [&self.now, &self.saved] {
            all.extend(units(&live.trees));
        }
        all.extend(units(&self.now.logged));
        all.extend(self.retired.values().flat_map(BTreeMap::keys));
        all.extend(self.retiring.keys());
        all
    }

    fn pick(&mut self, from: &BTreeSet<Extent>) -> Option<Extent> {
        let at = self.random.below(from.len().max(1) as u64) as usize;
        from.iter().nth(at).copied()
    }

    fn allocate(&mut self) {
        let count = 1 + self.random.below(self.longest);
        let logged = self.random.chance(1, 6);
        let unit =
            if logged { self.space.allocate_logged(count) } else { self.space.allocate(count) }.unwrap();
        let extent = Extent { unit, units: count };
        let given = units(&BTreeSet::from([extent]));
        assert!(self.untouchable().is_disjoint(&given), "{extent:?} was handed out too early");
        assert!(self.file.len().unwrap() >= extent.end() * 4096);
        if logged {
            let newest = self.reached.last_key_value().map_or(0, |(at, _)| *at);
            self.births.insert(unit, newest.saturating_sub(1));
            self.now.logged.insert(extent);
            self.owed.insert(extent);
        } else {
            self.now.trees.insert(extent);
        }
    }

    fn allocate_pages(&mut self) {
        let (page_units, count) = (1 + self.random.below(4), 1 + self.random.below(self.longest.min(4000)));
        let extent = self.space.allocate_pages(page_units, count).unwrap();
        assert!(
            extent.units.is_multiple_of(page_units) && (1..=count).contains(&(extent.units / page_units))
        );
        assert!(
            self.untouchable().is_disjoint(&units(&BTreeSet::from([extent]))),
            "{extent:?} came too early"
        );
        assert!(self.file.len().unwrap() >= extent.end() * 4096);
        self.now.trees.insert(extent);
    }

    fn free_unused(&mut self) {
        let fresh: BTreeSet<Extent> = self.now.trees.difference(&self.saved.trees).copied().collect();
        let candidates = fresh.difference(&self.owed).chain(&self.now.logged).copied().collect();
        if let Some(extent) = self.pick(&candidates) {
            self.now.trees.remove(&extent);
            self.now.logged.remove(&extent);
            self.owed.remove(&extent);
            self.births.remove(&extent.unit);
            self.space.free_unused(extent.unit, extent.units);
        }
    }

    fn retire(&mut self) {
        let all = self.now.trees.union(&self.now.logged).copied().collect();
        let Some(extent) = self.pick(&all) else { return };
        self.now.trees.remove(&extent);
        if self.now.logged.remove(&extent) {
            self.reach(extent);
        }
        let birth = self.random.below(self.checkpoint + 1);
        self.retiring.extend((extent.unit..extent.end()).map(|unit| (unit, birth)));
        let (ptr, at) = (PagePtr::new(extent.unit, extent.units, 0), CheckpointNo(self.checkpoint));
        match birth {
            0 => self.space.retire(ptr, at).unwrap(),
            _ => self.space.retire_born(ptr, CheckpointNo(birth), at).unwrap(),
        }
    }

    /// A reader that began after `extent` was allocated may look at it through the log.
    fn reach(&mut self, extent: Extent) {
        let birth = self.births.get(&extent.unit).copied().unwrap_or(0);
        self.reached.range_mut(birth..).for_each(|(_, units)| units.extend(extent.unit..extent.end()));
    }

    fn adopt(&mut self) {
        let logged = self.now.logged.clone();
        if let Some(extent) = self.pick(&logged) {
            self.now.logged.remove(&extent);
            self.now.trees.insert(extent);
            self.reach(extent);
            self.space.adopt(extent.unit);
        }
    }

    fn save(&mut self) {
        let before = self.untouchable();
        self.file.take_written();
        if self.random.chance(1, 4) {
            self.file.allow(Some(self.random.below(3)));
            let result = self.space.save(CheckpointNo(self.checkpoint));
            self.file.allow(None);
            if let Ok(root) = result {
                return self.saved(&before, root);
            }
            self.check();
            let written = BTreeSet::from_iter(self.file.take_written());
            assert!(before.is_disjoint(&written));
        }
        let root = self.space.save(CheckpointNo(self.checkpoint)).unwrap();
        self.saved(&before, root);
    }

    fn saved(&mut self, untouchable: &BTreeSet<u64>, root: SpaceRoot) {
        let written = BTreeSet::from_iter(self.file.take_written());
        assert!(untouchable.is_disjoint(&written), "a save overwrote what a root reaches");
        self.load(&self.root, &self.saved);
        let retiring = std::mem::take(&mut self.retiring);
        self.retired.entry(self.checkpoint).or_default().extend(retiring);
        (self.root, self.saved, self.owed) = (root, self.now.clone(), self.now.logged.clone());
        self.reached.insert(self.checkpoint, units(&self.saved.trees));
        while self.reached.len() > RECENT && self.readers.is_empty() {
            self.reached.pop_first();
        }
        self.births.retain(|unit, _| self.now.logged.iter().any(|extent| extent.unit == *unit));
        self.checkpoint += 1;
        self.load(&self.root, &self.saved);
    }

    /// The map at `root` has exactly what the trees reach.
    fn load(&self, root: &SpaceRoot, live: &Live) -> Space {
        let space = Space::load(self.file.clone(), DATABASE, RESERVED, root).unwrap();
        let report = space.check(live.trees.iter().copied());
        assert!(report.is_clean(), "{report:?} at {root:?}");
        space
    }

    /// As after a crash: the saved map, and what the log refers to.
    fn reopen(&mut self) {
        self.space = self.load(&self.root, &self.saved);
        self.space.note_reached(CheckpointNo(self.checkpoint - 1));
        self.reached = BTreeMap::from([(self.checkpoint - 1, units(&self.saved.trees))]);
        (self.readers, self.births) = (BTreeSet::new(), BTreeMap::new());
        for extent in &self.saved.logged {
            self.space.claim(extent.unit, extent.units).unwrap();
            assert!(self.space.claim(extent.unit, extent.units).is_err());
        }
        (self.now, self.owed) = (self.saved.clone(), self.saved.logged.clone());
        (self.retired, self.retiring) = (BTreeMap::new(), BTreeMap::new());
    }

    fn revert(&mut self) {
        self.space.revert();
        self.retiring.clear();
        self.now = Live { trees: self.saved.trees.clone(), logged: self.owed.clone() };
    }

    fn release(&mut self) {
        let through = self.checkpoint.saturating_sub(1 + self.random.below(3));
        let readers: BTreeSet<u64> =
            (0..self.random.below(3)).map(|_| self.random.below(self.checkpoint)).collect();
        let mut expected = BTreeSet::new();
        for (&at, waiting) in self.retired.range_mut(..=through) {
            waiting.retain(|unit, birth| {
                let reaches =
                    |reader: &&u64| self.reached.get(reader).is_none_or(|reached| reached.contains(unit));
                let keeper = readers.range(*birth..at.max(*birth)).find(reaches);
                match keeper {
                    Some(reader) => *birth = *reader,
                    None => drop(expected.insert(*unit)),
                }
                keeper.is_some()
            });
        }
        let recent = self.reached.keys().rev().nth(RECENT - 1).copied().unwrap_or(0);
        self.reached.retain(|at, _| *at >= recent || readers.contains(at));
        self.readers = readers.clone();
        let readers: Vec<_> = readers.into_iter().map(CheckpointNo).collect();
        let extents = self.space.release(CheckpointNo(through), &readers);
        let released = units(&BTreeSet::from_iter(extents));
        assert!(expected.is_subset(&released), "what nobody reaches is free");
        // The map's own old parts are released as well.
        let kept = self.retired.values().flat_map(BTreeMap::keys);
        assert!(
            kept.copied().collect::<BTreeSet<_>>().is_disjoint(&released),
            "what somebody reaches is not"
        );
        let waiting = self.retired.values().map(BTreeMap::len).sum::<usize>() as u64;
        assert!(self.space.stats().retired_units >= waiting);
    }

    fn check(&self) {
        let report = self.space.check(self.now.trees.iter().copied());
        assert!(report.is_clean(), "{report:?}");
        let stats = self.space.stats();
        assert_eq!(stats.total_units, stats.used_units + stats.free_units + stats.retired_units);
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..25 => self.allocate(),
            25..45 => self.allocate_pages(),
            45..50 => self.free_unused(),
            50..75 => self.retire(),
            75..80 => self.adopt(),
            80..87 => self.save(),
            87..94 => self.release(),
            94..96 => self.revert(),
            96..98 => self.reopen(),
            98 => {
                let keep = self.random.below(2) * self.random.below(self.longest * 4);
                trim(&mut self.space, keep);
            }
            _ => {}
        }
        self.check();
    }
}

#[test]
fn the_map_agrees_with_sets() {
    for seed in 0..8 {
        let mut model = Model::new(seed, 8);
        (0..250).for_each(|_| model.step());
    }
}

#[test]
fn the_map_agrees_with_sets_over_several_chunks() {
    for seed in 100..102 {
        let mut model = Model::new(seed, 20_000);
        (0..50).for_each(|_| model.step());
    }
}
