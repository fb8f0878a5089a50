//! Segments made ready before they are needed, and old files kept to be used again.
//!
//! To make a segment ready: (1) take a spare file under its new name, or create one, give it its room, so that later
//! writes cannot run out of it, and sync it; (2) write the header; (3) sync the file; (4) sync the directory. The first
//! sync makes a valid header a proof that the whole file has its room. (5) Check that the file can still be found under
//! its name, and the directory under its path. A crash in between leaves a file that nothing
//! names; its number is not used again.
//!
//! A file gets its room in one of two ways. *Zeros* written all over it make later flushes cheap, as they change no
//! metadata; but they are as many bytes through the page cache and to the disk as the log itself. *Allocating* costs a
//! system call; the flush after a block of the file was first written then has the file system note that. So zeros are
//! for logs that are flushed often, which is seen by how often they were ([`Options::flush_worth_bytes`]).
//!
//! [`Options::flush_worth_bytes`]: crate::Options::flush_worth_bytes

use crate::format::{
    END_BLOCK_BYTES, MAX_SEGMENT_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, block_bytes, segment_name,
};
use crate::segment::Segment;
use base::seams::Stopwatch;
use base::{Error, Result};
use io::{Dir, File};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// Spare files kept at rest: one for the next segment, one for the one after it.
const RESTING_SPARES: usize = 2;
/// At rest is a log that has begun no segment for so many calls of [`Stock::rest`].
const RESTING_CALLS: u32 = 40;
/// Files are whole numbers of these: what file systems allocate by.
const BLOCK_BYTES: u64 = 4096;
/// Zeros are written in pieces of this size. Larger ones would fill the page cache with large folios, and a store of
/// a few bytes through a mapping then dirties a whole one: each flush of a small commit wrote 0.85 MiB on ext4.
const ZEROS_BYTES: u64 = BLOCK_BYTES;
/// So many zeros at most wait for the disk at a time, while there is time. A commit's flush waits behind them: behind
/// the 64 MiB of a whole segment it took 60 ms, behind 4 MiB up to 5.
const FLUSH_BYTES: u64 = 256 << 10;
/// So many in a hurry: where a flush takes milliseconds whatever it writes, few are better than short ones.
const HURRIED_FLUSH_BYTES: u64 = 4 << 20;

/// A file that no live position needs.
#[derive(Debug)]
pub(crate) struct Spare {
    pub name: String,
    /// So many of its bytes are known to have been written once, or nearly all of them; 0 if nothing is known.
    pub len_bytes: u64,
}

/// The right to create, rename and remove segment files.
#[derive(Debug)]
pub(crate) struct Stock {
    dir: Arc<dyn Dir>,
    /// Above every number that a file in the directory has or had.
    next_number: u64,
    spares: Vec<Spare>,
    /// The first segments that readers of the live log still need, one for each reader.
    held: Vec<u64>,
    /// So many flushes had been led when the last segment was made ready.
    flushes: u64,
    /// Numbers of segments that ended before their files had been written over: no spares.
    given_up: Vec<u64>,
    /// Segments begun since the last [`Stock::end_cycle`] whose files were to be written over.
    written: usize,
    /// Spare files kept at most.
    keep: usize,
    /// What `next_number` was at the last [`Stock::rest`], and how many calls it had been that already.
    rested: (u64, u32),
}

/// How a new file gets its room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// By zeros all over it.
    Written,
    /// By a call that reserves it, where the file system has one.
    Allocated,
}

impl Stock {
    /// A stock over `dir` in which no file has number `next_number` or a later one.
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

    /// The directory of the log.
    pub fn dir(&self) -> &Arc<dyn Dir> {
        &self.dir
    }

    /// Above the number of every file that was begun.
    pub fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Notes that segment `number` and all later ones are being read.
    pub fn hold(&mut self, number: u64) {
        self.held.push(number);
    }

    /// Ends one [`hold`](Stock::hold) of `number`.
    pub fn let_go(&mut self, number: u64) {
        let at = self.held.iter().position(|&held| held == number);
        self.held.swap_remove(at.expect("only what is held is let go"));
    }

    /// The first segment that is being read, `u64::MAX` if none is.
    pub fn first_held(&self) -> u64 {
        self.held.iter().copied().min().unwrap_or(u64::MAX)
    }

    /// How a new file of `bytes` should get its room, with `flushes` led so far: by zeros, if since the last call at
    /// least one came for each `flush_worth_bytes` of it, the one that may be on its way included.
    pub fn room_for(&mut self, bytes: u64, flushes: u64, flush_worth_bytes: u64) -> Room {
        let since = flushes - std::mem::replace(&mut self.flushes, flushes);
        let worth = (since + 1).saturating_mul(flush_worth_bytes);
        if worth >= bytes { Room::Written } else { Room::Allocated }
    }

    /// Makes a segment ready at once: [`begin`](Stock::begin) and [`Making::finish`].
    pub fn ready(&mut self, draft: SegmentHeader, want_bytes: u64, room: Room) -> Result<Segment> {
        self.begin(draft, want_bytes..=want_bytes, room)?.finish(&|_| false)
    }

    /// Begins a segment that is otherwise as `draft` says; number and length are filled in. It is the longest spare, if
    /// that has at least the first of `want_bytes`, or a new file, which has the last, and will get its room as `room`
    /// says.
    pub fn begin(
        &mut self,
        draft: SegmentHeader,
        want_bytes: RangeInclusive<u64>,
        room: Room,
    ) -> Result<Making> {
        let number = self.next_number;
        let name = segment_name(number);
        let usable = *want_bytes.start()..=MAX_SEGMENT_BYTES;
        let lengths = self.spares.iter().map(|spare| spare.len_bytes).enumerate();
        let spare = lengths.filter(|(_, len)| usable.contains(len)).max_by_key(|(_, len)| *len);
        let len_bytes = spare.map_or(*want_bytes.end(), |(_, len)| len);
        if let Some((index, _)) = spare {
            self.dir.rename(&self.spares[index].name, &name)?;
            self.spares.swap_remove(index);
        }
        self.next_number += 1;
        self.written += usize::from(room == Room::Written);
        let missing = if spare.is_some() { None } else { Some(room) };
        let header = SegmentHeader { number, len_bytes, ..draft };
        Ok(Making { dir: Arc::clone(&self.dir), name, header, missing })
    }

    /// Notes that the file of segment `number` ends without having been written over: it will be no spare.
    pub fn give_up(&mut self, number: u64) {
        self.given_up.push(number);
    }

    /// Takes the file of a segment that ended, and that nothing needs any more.
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

    /// Takes a file that nothing needs any more. It is removed by the next [`Stock::trim`] if there are enough.
    pub fn put(&mut self, spare: Spare) {
        self.spares.push(spare);
    }

    /// Notes that a checkpoint lets go of segments. As many as were begun since the last one did will be wanted until
    /// the next one does: their files take no more room as spares than they took as segments, and to write new ones
    /// over with zeros would double what the log costs the disk. Of allocated files two do: new ones cost nothing,
    /// while what is stored into an old one's mapping may first be read.
    pub fn end_cycle(&mut self) {
        let wanted = std::mem::take(&mut self.written);
        self.keep = wanted.max(self.keep / 2).max(RESTING_SPARES);
    }

    /// Called at even intervals: keeps few spares again when no segment was begun for a while. Answers whether it does
    /// so now.
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

    /// Takes the spares that [`Stock::trim`] removes.
    pub fn take_surplus(&mut self, max_bytes: u64) -> Vec<Spare> {
        let worth = |spare: &Spare| if spare.len_bytes > max_bytes { 0 } else { spare.len_bytes };
        self.spares.sort_by_key(worth);
        let worthless = self.spares.partition_point(|spare| worth(spare) == 0);
        let count = worthless.max(self.spares.len().saturating_sub(self.keep));
        self.spares.drain(..count).collect()
    }

    /// The bytes of all spares.
    pub fn spare_bytes(&self) -> u64 {
        self.spares.iter().map(|spare| spare.len_bytes).sum()
    }
}

/// A segment under way, whose number and file nobody else will take: the stock is not needed until it is finished.
#[derive(Debug)]
pub(crate) struct Making {
    dir: Arc<dyn Dir>,
    name: String,
    header: SegmentHeader,
    /// How the file, which is new, gets its room.
    missing: Option<Room>,
}

/// How far the zeros of a new segment are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zeros {
    pub done_bytes: u64,
    pub of_bytes: u64,
    /// What the disk took for the latest of them.
    pub flush: Duration,
}

impl Making {
    /// Makes the segment ready; `pause` is called whenever some of its zeros, not the last ones, are on the disk, and
    /// says whether there was time for one. After an error nothing refers to whatever was made.
    pub fn finish(self, pause: &dyn Fn(Zeros) -> bool) -> Result<Segment> {
        self.fill(pause).inspect_err(|_| {
            // Best effort: a file left behind is found by the next scan and becomes a spare.
            let _ = self.dir.remove(&self.name);
        })
    }

    fn fill(&self, pause: &dyn Fn(Zeros) -> bool) -> Result<Segment> {
        let Making { dir, name, header, missing } = self;
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
        // Commits that go to a file without a name are lost.
        dir.check_in_place(&[&*file])?;
        let segment = Segment::new(*header, file, room)?;
        // The kernel would read ahead within a commit: 8 MiB of zeros on one disk, 27 ms. And in folios larger than a
        // page, of which a store makes the whole dirty. Where pages may hold something they are read, many at once.
        if let (Room::Allocated, Some(map)) = (room, &segment.map) {
            map.read_nothing_ahead();
        }
        Ok(segment)
    }
}

/// Removes the files of `spares`. After an error, those that are still there come back.
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

/// The length of a file that holds one block with this much payload, and `at_least` bytes.
pub(crate) fn segment_bytes_for(payload_bytes: usize, at_least: u64) -> u64 {
    let needed = SEGMENT_HEADER_BYTES as u64 + block_bytes(payload_bytes) + 2 * END_BLOCK_BYTES;
    needed.max(at_least).next_multiple_of(BLOCK_BYTES)
}

/// Writes zeros all over a new file, and syncs them but for the last ones.
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
