//! What was explored: images by kind and by protocol step, distinct ones only, and which cells stayed empty.

use crate::copying::Copies;
use crate::phase::Phase;
use io::sim::Fate;
use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Instant;

/// The kinds of images, as the table's columns.
pub const KINDS: [&str; 11] = [
    "nothing", "all", "names", "data", "prefix", "drop 1", "keep 1", "torn 512", "torn 4K", "lengths",
    "subset",
];

/// Behind the sync of the data file no length is pending: the superblock lengthens nothing, and a log segment is synced
/// before anything else happens. Only a call that failed in the middle of making a segment leaves one, rarely.
const NO_LENGTHS: [Phase; 4] = [Phase::Superblock, Phase::SyncSuperblock, Phase::Switch, Phase::Free];

/// Whether images of a kind (by column) can exist at a step without a failed call.
fn is_possible(phase: Phase, kind: usize) -> bool {
    KINDS[kind] != "lengths" || !NO_LENGTHS.contains(&phase)
}

/// The column of an image.
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

/// Fingerprints are hashes already.
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

/// Counts of everything that was explored.
#[derive(Debug)]
pub struct Tally {
    began: Instant,
    /// Workloads run.
    pub seeds: u64,
    /// Images made, the same ones again included.
    pub images: u64,
    /// Images of crashes during a recovery from another image, by depth: 1 is a crash of the run itself.
    pub by_depth: [u64; 4],
    /// Images after which the database was also written to, checkpointed, closed and opened once more.
    pub continued: u64,
    /// Images that were first opened read-only, twice at once, and were the same afterwards.
    pub read_only: u64,
    /// Checkpoints that recoveries had to make before they were done.
    pub recovery_checkpoints: u64,
    /// Recoveries that had to make more than one.
    pub crossing_recoveries: u64,
    /// Commits, sessions, seals, checkpoints and segment switches of all workloads.
    pub commits: u64,
    /// See `commits`.
    pub sessions: u64,
    /// See `commits`.
    pub seals: u64,
    /// See `commits`.
    pub checkpoints: u64,
    /// See `commits`.
    pub switches: u64,
    /// Backups taken meanwhile, each rebuilt and compared.
    pub copies: Copies,
    distinct: HashSet<u64, ByFingerprint>,
    cells: [[u64; KINDS.len()]; Phase::ALL.len()],
}

impl Default for Tally {
    fn default() -> Self {
        Tally {
            began: Instant::now(),
            seeds: 0,
            images: 0,
            by_depth: [0; 4],
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
            distinct: HashSet::default(),
            cells: Default::default(),
        }
    }
}

impl Tally {
    /// Counts an image that its seed had not made before.
    pub fn count(&mut self, fingerprint: u64, phase: Phase, fate: &Fate, depth: usize) {
        if self.distinct.insert(fingerprint) {
            self.cells[phase as usize][kind(fate)] += 1;
            self.by_depth[depth.min(3)] += 1;
        }
    }

    /// How many different images there were.
    pub fn distinct(&self) -> u64 {
        self.distinct.len() as u64
    }

    /// A hash of the set of images, whatever their order: the same for the same seeds.
    pub fn digest(&self) -> u64 {
        self.distinct.iter().fold(0, |sum, fingerprint| sum.wrapping_add(*fingerprint))
    }

    /// Seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// The steps and kinds of which there was no image, though there could be.
    pub fn empty_cells(&self) -> Vec<(Phase, &'static str)> {
        let cells = Phase::ALL
            .iter()
            .flat_map(|phase| KINDS.iter().enumerate().map(|(at, kind)| (*phase, at, *kind)));
        let empty =
            cells.filter(|(phase, at, _)| is_possible(*phase, *at) && self.cells[*phase as usize][*at] == 0);
        empty.map(|(phase, _, kind)| (phase, kind)).collect()
    }

    /// One JSON object.
    pub fn json(&self) -> String {
        let cells = Phase::ALL.iter().map(|phase| {
            let row = self.cells[*phase as usize].map(|count| count.to_string()).join(",");
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
            self.by_depth[1],
            self.by_depth[2],
            self.by_depth[3],
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
        for phase in Phase::ALL {
            write!(f, "{:22}", phase.label())?;
            for (kind, count) in self.cells[phase as usize].iter().enumerate() {
                match is_possible(phase, kind) {
                    false if *count == 0 => write!(f, "{:>9}", "n/a")?,
                    _ => write!(f, "{count:>9}")?,
                }
            }
            writeln!(f)?;
        }
        let empty = self.empty_cells();
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
        let [_, first, second, third] = self.by_depth;
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
        write!(f, "{seconds:.1} s, {:.0} distinct images/s", distinct as f64 / seconds)
    }
}
