//! The result of an exploration: distinct images by kind and by protocol step, and the cells that stayed empty.

use crate::copying::Copies;
use crate::phase::Phase;
use io::sim::Fate;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Instant;

/// The kinds of images, as the table's columns.
pub const KINDS: [&str; 11] = [
    "nothing", "all", "names", "data", "prefix", "drop 1", "keep 1", "torn 512", "torn 4K", "lengths",
    "subset",
];

/// The steps at which no length is pending, because they follow the sync of the data file: the superblock lengthens
/// nothing, and a log segment is synced before anything else happens. Rarely, a call that failed while it created a
/// segment leaves one.
const NO_LENGTHS: [Phase; 4] = [Phase::Superblock, Phase::SyncSuperblock, Phase::Switch, Phase::Free];

/// Returns whether images of a kind (by column) can exist at a step without a failed call.
fn is_possible(phase: Phase, kind: usize) -> bool {
    KINDS[kind] != "lengths" || !NO_LENGTHS.contains(&phase)
}

/// Returns the steps and kinds of which there could be an image, but was none.
fn empty(cells: &Cells) -> Vec<(Phase, &'static str)> {
    let all =
        Phase::ALL.iter().flat_map(|phase| KINDS.iter().enumerate().map(|(at, kind)| (*phase, at, *kind)));
    let empty = all.filter(|(phase, at, _)| is_possible(*phase, *at) && cells[*phase as usize][*at] == 0);
    empty.map(|(phase, _, kind)| (phase, kind)).collect()
}

/// Returns the column of an image.
pub fn kind(fate: &Fate) -> usize {
    match fate {
        Fate::Nothing => 0,
        Fate::Everything => 1,
        Fate::NamesOnly => 2,
        Fate::DataOnly => 3,
        Fate::Prefix(_) => 4,
        Fate::DropOne(_) => 5,
        Fate::KeepOne(_) => 6,
        Fate::Torn { sector_bytes: 512, .. } => 7,
        Fate::Torn { .. } => 8,
        Fate::OldLengths | Fate::NewLengths | Fate::LengthsBetween(_) => 9,
        _ => 10,
    }
}

/// The identity hash. Fingerprints are already hashes.
#[derive(Default)]
pub struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints are hashed");
    }
    fn write_u64(&mut self, fingerprint: u64) {
        self.0 = fingerprint;
    }
}

/// A hasher for fingerprints.
pub type ByFingerprint = BuildHasherDefault<Identity>;

/// The counts of an exploration.
#[derive(Debug)]
pub struct Tally {
    began: Instant,
    /// The workloads that were run.
    pub seeds: u64,
    /// The images that were made, including repeated ones.
    pub images: u64,
    /// The images whose database was also written to, checkpointed, closed and opened once more.
    pub continued: u64,
    /// The images that were first opened read-only, twice at once, and were the same afterwards.
    pub read_only: u64,
    /// The checkpoints that recoveries had to make before they were done.
    pub recovery_checkpoints: u64,
    /// The recoveries that had to make more than one checkpoint.
    pub crossing_recoveries: u64,
    /// The commits of all workloads.
    pub commits: u64,
    /// The sessions of all workloads.
    pub sessions: u64,
    /// The sealed memtables of all workloads.
    pub seals: u64,
    /// The checkpoints of all workloads.
    pub checkpoints: u64,
    /// The switches of log segments of all workloads.
    pub switches: u64,
    /// The backups taken meanwhile, each rebuilt and compared.
    pub copies: Copies,
    /// The number of times that a reader in another process looked.
    pub looks: u64,
    /// The number of commits that were delivered to a consumer.
    pub given: u64,
    distinct: HashMap<u64, Place, ByFingerprint>,
}

/// The place where an image was first seen.
#[derive(Clone, Copy, Debug)]
struct Place {
    phase: Phase,
    kind: u8,
    /// The depth: 1 is a crash of the run itself, 2 one of a recovery from that, and so on.
    depth: u8,
}

/// The number of images by phase and kind.
type Cells = [[u64; KINDS.len()]; Phase::ALL.len()];

impl Default for Tally {
    fn default() -> Self {
        Tally {
            began: Instant::now(),
            seeds: 0,
            images: 0,
            continued: 0,
            read_only: 0,
            recovery_checkpoints: 0,
            crossing_recoveries: 0,
            commits: 0,
            sessions: 0,
            seals: 0,
            checkpoints: 0,
            switches: 0,
            copies: Copies::default(),
            looks: 0,
            given: 0,
            distinct: HashMap::default(),
        }
    }
}

impl Tally {
    /// Counts an image that its seed had not made before.
    pub fn count(&mut self, fingerprint: u64, phase: Phase, fate: &Fate, depth: usize) {
        let place = Place { phase, kind: kind(fate) as u8, depth: depth.min(3) as u8 };
        self.distinct.entry(fingerprint).or_insert(place);
    }

    /// Adds the counts of `other`, which may have run at the same time or later.
    pub fn add(&mut self, other: Tally) {
        self.seeds += other.seeds;
        self.images += other.images;
        self.continued += other.continued;
        self.read_only += other.read_only;
        self.recovery_checkpoints += other.recovery_checkpoints;
        self.crossing_recoveries += other.crossing_recoveries;
        self.commits += other.commits;
        self.sessions += other.sessions;
        self.seals += other.seals;
        self.checkpoints += other.checkpoints;
        self.switches += other.switches;
        self.copies += other.copies;
        self.looks += other.looks;
        self.given += other.given;
        for (fingerprint, place) in other.distinct {
            self.distinct.entry(fingerprint).or_insert(place);
        }
    }

    fn cells(&self) -> Cells {
        let mut cells = Cells::default();
        self.distinct.values().for_each(|place| cells[place.phase as usize][usize::from(place.kind)] += 1);
        cells
    }

    /// Returns the images of crashes of runs, of recoveries from them, and of recoveries from those.
    fn by_depth(&self) -> [u64; 3] {
        let mut counts = [0; 3];
        self.distinct.values().for_each(|place| counts[usize::from(place.depth) - 1] += 1);
        counts
    }

    /// Returns the number of distinct images.
    pub fn distinct(&self) -> u64 {
        self.distinct.len() as u64
    }

    /// Returns a hash of the set of images, independent of their order. It is the same for the same seeds.
    pub fn digest(&self) -> u64 {
        self.distinct.keys().fold(0, |sum, fingerprint| sum.wrapping_add(*fingerprint))
    }

    /// Returns the seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Returns the steps and kinds of which there could be an image, but was none.
    pub fn empty_cells(&self) -> Vec<(Phase, &'static str)> {
        empty(&self.cells())
    }

    /// Returns the counts as one JSON object.
    pub fn json(&self) -> String {
        let (counts, [first, second, third]) = (self.cells(), self.by_depth());
        let cells = Phase::ALL.iter().map(|phase| {
            let row = counts[*phase as usize].map(|count| count.to_string()).join(",");
            format!("\"{}\":[{row}]", phase.label())
        });
        let kinds = KINDS.map(|kind| format!("\"{kind}\"")).join(",");
        format!(
            "{{\"seeds\":{},\"images\":{},\"distinct\":{},\"by_depth\":[{},{},{}],\"continued\":{},\
             \"read_only\":{},\"recovery_checkpoints\":{},\"crossing_recoveries\":{},\
             \"commits\":{},\"sessions\":{},\"seals\":{},\"checkpoints\":{},\"switches\":{},\"backups\":{},\
             \"seconds\":{:.3},\
             \"digest\":\"{:016x}\",\"kinds\":[{kinds}],\"cells\":{{{}}}}}",
            self.seeds,
            self.images,
            self.distinct(),
            first,
            second,
            third,
            self.continued,
            self.read_only,
            self.recovery_checkpoints,
            self.crossing_recoveries,
            self.commits,
            self.sessions,
            self.seals,
            self.checkpoints,
            self.switches,
            self.copies.taken,
            self.seconds(),
            self.digest(),
            cells.collect::<Vec<_>>().join(","),
        )
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:22}", "")?;
        KINDS.iter().try_for_each(|kind| write!(f, "{kind:>9}"))?;
        writeln!(f)?;
        let cells = self.cells();
        for phase in Phase::ALL {
            write!(f, "{:22}", phase.label())?;
            for (kind, count) in cells[phase as usize].iter().enumerate() {
                match is_possible(phase, kind) {
                    false if *count == 0 => write!(f, "{:>9}", "n/a")?,
                    _ => write!(f, "{count:>9}")?,
                }
            }
            writeln!(f)?;
        }
        let empty = empty(&cells);
        writeln!(f, "n/a: behind the sync of the data file no length is pending, unless a call failed")?;
        if empty.is_empty() {
            writeln!(f, "no cell is empty")?;
        } else {
            let names: Vec<_> =
                empty.iter().map(|(phase, kind)| format!("{} x {kind}", phase.label())).collect();
            writeln!(f, "empty: {}", names.join(", "))?;
        }
        writeln!(
            f,
            "{} seeds in {} sessions: {} commits, {} seals, {} checkpoints, {} segment switches",
            self.seeds, self.sessions, self.commits, self.seals, self.checkpoints, self.switches
        )?;
        let [first, second, third] = self.by_depth();
        let (distinct, seconds) = (self.distinct(), self.seconds());
        writeln!(
            f,
            "{distinct} distinct images of {} made: {first} of runs, {second} of recoveries, \
             {third} of recoveries from those; {} written to and reopened; {} opened read-only first",
            self.images, self.continued, self.read_only
        )?;
        writeln!(
            f,
            "{} checkpoints made by recoveries, {} of which needed more than one",
            self.recovery_checkpoints, self.crossing_recoveries
        )?;
        let Copies { taken, differences, images } = self.copies;
        writeln!(
            f,
            "{taken} backups rebuilt, {differences} of them differences; {images} crashes \
             of rebuildings"
        )?;
        writeln!(f, "{} looks of a reader in another process", self.looks)?;
        writeln!(f, "{} commits given to a consumer", self.given)?;
        write!(f, "{seconds:.1} s, {:.0} distinct images/s", distinct as f64 / seconds)
    }
}
