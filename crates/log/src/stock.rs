//! Segments made ready before they are needed, and old files kept for reuse.
//!
//! To make a segment ready: (1) rename a spare file, or create a file and secure its space, so that later writes cannot
//! run out of it, and sync it; (2) write the header; (3) sync the file; (4) sync the directory. Because of the first
//! sync, a valid header is proof that the whole file has its space. (5) Check that the file can still be found under
//! its name, and the directory under its path. A crash in between leaves a file that nothing names; its number is not
//! used again.
//!
//! The space of a file is secured in one of two ways. *Zeros* are written over the whole file. Later flushes are then
//! cheap, because they change no metadata, but as many bytes pass through the page cache and to the disk as in the log
//! itself. *Allocating* costs a system call, but the flush after the first write of a block must record that in the
//! file system's metadata. So zeros are for logs that are flushed often. The log decides this by counting its flushes
//! ([`Options::flush_worth_bytes`]).
//!
//! [`Options::flush_worth_bytes`]: crate::Options::flush_worth_bytes

use crate::format::{
    END_BLOCK_BYTES, MAX_SEGMENT_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, block_bytes, segment_name,
};
use crate::segment::Segment;
use base::env::Stopwatch;
use base::{Error, Result};
use io::{Dir, File};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// The number of spare files kept at rest: one for the next segment, one for the one after it.
const RESTING_SPARES: usize = 2;
/// A log is at rest after this many calls of [`Stock::rest`] without a new segment.
const RESTING_CALLS: u32 = 40;
/// The unit of file lengths in bytes, by which file systems allocate.
const BLOCK_BYTES: u64 = 4096;
/// The size in bytes of the writes of zeros. Larger writes would fill the page cache with large folios, and a store of
/// a few bytes through a mapping then dirties a whole folio: each flush of a small commit wrote 0.85 MiB on ext4.
const ZEROS_BYTES: u64 = BLOCK_BYTES;
/// The largest number of zeros in bytes that wait for the disk at a time, while there is time. A commit's flush waits
/// for them: 60 ms for the 64 MiB of a whole segment, up to 5 ms for 4 MiB.
const FLUSH_BYTES: u64 = 256 << 10;
/// The largest number of zeros in bytes that wait for the disk at a time, when there is no time for pauses: where a
/// flush takes milliseconds whatever it writes, few flushes are better than short ones.
const HURRIED_FLUSH_BYTES: u64 = 4 << 20;

/// A file that no live position needs.
#[derive(Debug)]
pub(crate) struct Spare {
    pub name: String,
    /// The number of its bytes that are known to have been written once, or nearly; 0 if nothing is known.
    pub len_bytes: u64,
}

/// The right to create, rename and remove segment files.
#[derive(Debug)]
pub(crate) struct Stock {
    dir: Arc<dyn Dir>,
    /// A number greater than that of any file that the directory has or had.
    next_number: u64,
    spares: Vec<Spare>,
    /// The first segments that readers of the live log still need, one for each reader.
    held: Vec<u64>,
    /// The number of flushes when the last segment was made ready.
    flushes: u64,
    /// The numbers of segments that ended before their files were overwritten, which are not reused.
    given_up: Vec<u64>,
    /// The number of segments started since the last [`Stock::end_cycle`] whose files were to be overwritten.
    written: usize,
    /// The largest number of spare files that are kept.
    keep: usize,
    /// The value of `next_number` at the last [`Stock::rest`], and the number of calls that have seen it.
    rested: (u64, u32),
}

/// How the space of a new file is secured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// By writing zeros over the whole file.
    Written,
    /// By a system call that allocates it, if the file system has one.
    Allocated,
}

impl Stock {
    /// Creates a stock over `dir` in which no file has number `next_number` or a later one.
    pub fn new(dir: Arc<dyn Dir>, next_number: u64, spares: Vec<Spare>) -> Stock {
        Stock {
            dir,
            next_number,
            spares,
            held: Vec::new(),
            flushes: 0,
            given_up: Vec::new(),
            written: 0,
            keep: RESTING_SPARES,
            rested: (next_number, 0),
        }
    }

    /// Returns the directory of the log.
    pub fn dir(&self) -> &Arc<dyn Dir> {
        &self.dir
    }

    /// Returns a number greater than that of any file that was started.
    pub fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Records that segment `number` and all later ones are being read.
    pub fn hold(&mut self, number: u64) {
        self.held.push(number);
    }

    /// Ends one [`hold`](Stock::hold) of `number`.
    pub fn let_go(&mut self, number: u64) {
        let at = self.held.iter().position(|&held| held == number);
        self.held.swap_remove(at.expect("only what is held is let go"));
    }

    /// Returns the first segment that is being read, or `u64::MAX` if none is.
    pub fn first_held(&self) -> u64 {
        self.held.iter().copied().min().unwrap_or(u64::MAX)
    }

    /// Returns how the space of a new file of `bytes` should be secured, with `flushes` made so far: by zeros, if since
    /// the last call at least one flush came for each `flush_worth_bytes` of it, including one that may be under way.
    pub fn room_for(&mut self, bytes: u64, flushes: u64, flush_worth_bytes: u64) -> Room {
        let since = flushes - std::mem::replace(&mut self.flushes, flushes);
        let worth = (since + 1).saturating_mul(flush_worth_bytes);
        if worth >= bytes { Room::Written } else { Room::Allocated }
    }

    /// Makes a segment ready at once: [`begin`](Stock::begin) and [`Making::finish`].
    pub fn ready(
        &mut self,
        draft: SegmentHeader,
        want_bytes: u64,
        most_mapped_bytes: u64,
        room: Room,
    ) -> Result<Segment> {
        self.begin(draft, want_bytes..=want_bytes, most_mapped_bytes, room)?.finish(&|_| false)
    }

    /// Begins a segment as `draft` describes it, and fills in number and length. It takes the longest spare that is no
    /// longer than `most_mapped_bytes`, or else the longest one, which was made when the log had more memory, and will
    /// not be mapped; but only one that has at least the first of `want_bytes`. If there is none, it takes a new file
    /// of the second length, whose space will be secured as `room` says.
    pub fn begin(
        &mut self,
        draft: SegmentHeader,
        want_bytes: RangeInclusive<u64>,
        most_mapped_bytes: u64,
        room: Room,
    ) -> Result<Making> {
        let number = self.next_number;
        let name = segment_name(number);
        let usable = *want_bytes.start()..=MAX_SEGMENT_BYTES;
        let lengths = self.spares.iter().map(|spare| spare.len_bytes).enumerate();
        let spare = lengths
            .filter(|(_, len)| usable.contains(len))
            .max_by_key(|&(_, len)| (len <= most_mapped_bytes, len));
        let len_bytes = spare.map_or(*want_bytes.end(), |(_, len)| len);
        if let Some((index, _)) = spare {
            self.dir.rename(&self.spares[index].name, &name)?;
            self.spares.swap_remove(index);
        }
        self.next_number += 1;
        self.written += usize::from(room == Room::Written);
        let missing = if spare.is_some() { None } else { Some(room) };
        let header = SegmentHeader { number, len_bytes, ..draft };
        let is_too_long = spare.is_some() && len_bytes > most_mapped_bytes;
        Ok(Making { dir: Arc::clone(&self.dir), name, header, missing, is_too_long })
    }

    /// Records that the segment `number` ends without having been overwritten: its file will not be reused.
    pub fn give_up(&mut self, number: u64) {
        self.given_up.push(number);
    }

    /// Adds the file of a segment that ended and that is no longer needed.
    pub fn put_ended(&mut self, header: &SegmentHeader) {
        let given_up = self.given_up.iter().position(|&number| number == header.number);
        let len_bytes = match given_up {
            Some(at) => {
                self.given_up.swap_remove(at);
                0
            }
            None => header.len_bytes,
        };
        self.put(Spare { name: header.name(), len_bytes });
    }

    /// Adds a file that is no longer needed. The next [`Stock::trim`] removes it if there are enough.
    pub fn put(&mut self, spare: Spare) {
        self.spares.push(spare);
    }

    /// Records that a checkpoint drops segments. It keeps as many spares as segments were started since the last such
    /// checkpoint, because that many will be needed before the next one. Their files take no more space as spares than
    /// as segments, and overwriting new ones with zeros would double what the log writes to the disk. Of allocated
    /// files two suffice: new ones cost nothing, while pages of an old one may have to be read before a store through
    /// its mapping.
    pub fn end_cycle(&mut self) {
        let wanted = std::mem::take(&mut self.written);
        self.keep = wanted.max(self.keep / 2).max(RESTING_SPARES);
    }

    /// Reduces the spares to a few when no segment was started for a while. Called at even intervals. Returns whether
    /// it did so now.
    pub fn rest(&mut self) -> bool {
        let (number, calls) = self.rested;
        let calls = if number == self.next_number { calls.saturating_add(1) } else { 0 };
        self.rested = (self.next_number, calls);
        let begins = calls == RESTING_CALLS;
        if begins {
            self.keep = RESTING_SPARES;
        }
        begins
    }

    /// Keeps the few longest spares of at most `max_bytes` and removes the rest.
    pub fn trim(&mut self, max_bytes: u64) -> Result<()> {
        let surplus = self.take_surplus(max_bytes);
        remove(&self.dir, surplus).map_err(|(error, left)| {
            self.spares.extend(left);
            error
        })
    }

    /// Removes from the stock the spares that [`Stock::trim`] would remove, and returns them.
    pub fn take_surplus(&mut self, max_bytes: u64) -> Vec<Spare> {
        let worth = |spare: &Spare| if spare.len_bytes > max_bytes { 0 } else { spare.len_bytes };
        self.spares.sort_by_key(worth);
        let worthless = self.spares.partition_point(|spare| worth(spare) == 0);
        let count = worthless.max(self.spares.len().saturating_sub(self.keep));
        self.spares.drain(..count).collect()
    }

    /// Returns the bytes of all spares.
    pub fn spare_bytes(&self) -> u64 {
        self.spares.iter().map(|spare| spare.len_bytes).sum()
    }
}

/// A segment under way. Its number and file are reserved, so the stock is not needed until it is finished.
#[derive(Debug)]
pub(crate) struct Making {
    dir: Arc<dyn Dir>,
    name: String,
    header: SegmentHeader,
    /// How the space of a new file is secured.
    missing: Option<Room>,
    /// Whether the file is too long to be mapped.
    is_too_long: bool,
}

/// The progress of the zeros of a new segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zeros {
    pub done_bytes: u64,
    pub of_bytes: u64,
    /// The time that the disk took for the latest of them.
    pub flush: Duration,
}

impl Making {
    /// Makes the segment ready. `pause` is called when some of its zeros, except the last ones, are on the disk, and
    /// returns whether there was time for a pause. After an error nothing refers to the files made so far.
    pub fn finish(self, pause: &dyn Fn(Zeros) -> bool) -> Result<Segment> {
        self.fill(pause).inspect_err(|_| {
            // Best effort: a file that stays is found by the next scan and becomes a spare.
            let _ = self.dir.remove(&self.name);
        })
    }

    fn fill(&self, pause: &dyn Fn(Zeros) -> bool) -> Result<Segment> {
        let Making { dir, name, header, missing, is_too_long } = self;
        let file = if missing.is_some() { dir.create(name)? } else { dir.open(name)? };
        let mut room = Room::Written;
        if let Some(wanted) = missing {
            if *wanted == Room::Allocated && file.allocate(header.len_bytes)? {
                room = Room::Allocated;
            } else {
                write_zeros(&*file, header.len_bytes, pause)?;
            }
            file.sync()?;
        }
        file.write_at(&header.encode(), 0)?;
        file.sync()?;
        dir.sync()?;
        // Commits written to a file without a name are lost.
        dir.check_in_place(&[&*file])?;
        if *is_too_long {
            return Ok(Segment::too_long(*header, file, room));
        }
        let segment = Segment::new(*header, file, room)?;
        // The kernel would read ahead within a commit (8 MiB of zeros took one disk 27 ms), and in folios larger than a
        // page, which a store dirties as a whole. Pages that may hold something are read, many at once.
        if let (Room::Allocated, Some(map)) = (room, &segment.map) {
            map.read_nothing_ahead();
        }
        Ok(segment)
    }
}

/// Removes the files of `spares`. After an error it returns those that still exist.
pub(crate) fn remove(
    dir: &Arc<dyn Dir>,
    mut spares: Vec<Spare>,
) -> std::result::Result<(), (Error, Vec<Spare>)> {
    for at in 0..spares.len() {
        if let Err(error) = dir.remove(&spares[at].name) {
            return Err((error, spares.split_off(at)));
        }
    }
    Ok(())
}

/// Returns the length of a file that holds one block with this much payload, and `at_least` bytes.
pub(crate) fn segment_bytes_for(payload_bytes: usize, at_least: u64) -> u64 {
    let needed = SEGMENT_HEADER_BYTES as u64 + block_bytes(payload_bytes) + 2 * END_BLOCK_BYTES;
    needed.max(at_least).next_multiple_of(BLOCK_BYTES)
}

/// Writes zeros over a whole new file, and syncs all but the last of them.
fn write_zeros(file: &dyn File, len_bytes: u64, pause: &dyn Fn(Zeros) -> bool) -> Result<()> {
    let zeros = vec![0; len_bytes.min(ZEROS_BYTES) as usize];
    let (mut offset, mut flush_at) = (0, FLUSH_BYTES);
    while offset < len_bytes {
        let piece = (len_bytes - offset).min(ZEROS_BYTES);
        file.write_at(&zeros[..piece as usize], offset)?;
        offset += piece;
        if offset >= flush_at && offset < len_bytes {
            let began = Stopwatch::start();
            file.sync()?;
            let flush = Duration::from_nanos(began.elapsed_ns());
            let has_time = pause(Zeros { done_bytes: offset, of_bytes: len_bytes, flush });
            flush_at = offset + if has_time { FLUSH_BYTES } else { HURRIED_FLUSH_BYTES };
        }
    }
    Ok(())
}
