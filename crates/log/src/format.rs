//! The format of the log: segment header, block header and the two small records inside, each with its encoder and its
//! decoder. All numbers are little-endian.
//!
//! # Segment header, 96 bytes, at offset 0 of a file `log-<number as 16 hex digits>`
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic `PANDOLOG` |
//! | 8 | 4 | format, 1 |
//! | 12 | 4 | zero |
//! | 16 | 8 | database |
//! | 24 | 8 | generation |
//! | 32 | 8 | number of this segment, as in the file's name |
//! | 40 | 8 | LSN of the first block, which lies at offset 96 |
//! | 48 | 8 | length of the file in bytes |
//! | 56 | 8 | number of the predecessor, 0 for none |
//! | 64 | 8 | generation of the predecessor |
//! | 72 | 8 | cut: the LSN at which the predecessor stops being valid |
//! | 80 | 8 | newest checkpoint when the segment was made ready |
//! | 88 | 8 | checksum of bytes 0 to 87 |
//!
//! The header lies in one 512-byte sector, so no crash leaves half of it.
//!
//! # Block header, 32 bytes, followed by the payload and up to 7 bytes of padding without a meaning
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | checksum |
//! | 8 | 8 | link: the checksum of the block before; of the segment header for a segment's first block |
//! | 16 | 8 | synced: the log was durable below this LSN when the block was appended |
//! | 24 | 4 | payload length (bits 0 to 27) and kind (bits 28 to 31): 1 data, 2 end, 3 close |
//! | 28 | 4 | low half of the newest checkpoint's number |
//!
//! The checksum is that of (checksum of the payload, header from offset 8 on), both seeded with database, generation
//! and LSN. It needs no neighbour, so a block far after a damaged one is still proof of itself. The link, which the
//! checksum covers, chains the blocks. There is no kind 0: zeros are never a block.
//!
//! Worked example: the 5 bytes `hello`, first block of a segment that begins at LSN 0, take 40 bytes at offset 96:
//! checksum, link, eight zeros, `05 00 00 10`, four zeros, `68 65 6c 6c 6f`, padding. The next LSN is 40.
//!
//! # Payload of an end block, 24 bytes
//! Number, generation and first LSN of the successor. A closing block has no payload, but is written together with 32
//! zeros after it.

use base::limits::NUMBER_LIMIT;
use base::{CheckpointNo, DatabaseId, Lsn, checksum};

/// Bytes of a segment header; the first block follows.
pub(crate) const SEGMENT_HEADER_BYTES: usize = 96;
/// Bytes of a block header.
pub(crate) const BLOCK_HEADER_BYTES: usize = 32;
/// Blocks begin at multiples of this.
pub(crate) const ALIGN_BYTES: u64 = 8;
/// The place of the field `synced` in the header of a block.
const SYNCED_AT: usize = 16;
/// The longest payload: the longest value (64 MiB), its key and the rest of a commit record.
pub const MAX_PAYLOAD_BYTES: usize = 65 << 20;
/// The longest segment that is accepted, 1 GiB: a header that claims more is rejected before anything is read.
pub const MAX_SEGMENT_BYTES: u64 = 1 << 30;
/// The length of an end block in bytes. Every append leaves room for one, so that a segment can always name its
/// successor.
pub(crate) const END_BLOCK_BYTES: u64 = block_bytes(SUCCESSOR_BYTES);

/// The distance after a closing block within which a later block is sought. A log that continued there is flushed
/// before a block begins farther away ([`Log::append`](crate::Log::append)). So if none is found, there is none: after
/// that flush, the first block cannot be lost. Reading to the end of the segment would cost every open of a closed log
/// up to 100 ms.
pub(crate) const REACH_AFTER_CLOSE_BYTES: u64 = 256 << 10;

const SUCCESSOR_BYTES: usize = 24;
const MAGIC: &[u8; 8] = b"PANDOLOG";
const FORMAT: u32 = 1;
const KIND_SHIFT: u32 = 28;
const LENGTH_MASK: u32 = (1 << KIND_SHIFT) - 1;

const _: () =
    assert!((SEGMENT_HEADER_BYTES as u64).is_multiple_of(ALIGN_BYTES) && SEGMENT_HEADER_BYTES <= 512);
const _: () = assert!(MAX_PAYLOAD_BYTES <= LENGTH_MASK as usize);
const _: () = assert!(base::limits::MAX_LOGGED_VALUE_BYTES < MAX_PAYLOAD_BYTES);
const _: () = assert!(MAX_PAYLOAD_BYTES as u64 * 2 < MAX_SEGMENT_BYTES);
const _: () = assert!(END_BLOCK_BYTES as usize >= BLOCK_HEADER_BYTES, "zeros fit behind a closing block");

/// Returns the bytes that a block with this much payload takes.
#[inline]
pub(crate) const fn block_bytes(payload_bytes: usize) -> u64 {
    ((BLOCK_HEADER_BYTES + payload_bytes) as u64).next_multiple_of(ALIGN_BYTES)
}

/// Returns the name of a segment's file.
pub(crate) fn segment_name(number: u64) -> String {
    format!("log-{number:016x}")
}

/// Returns the number in a segment's name, or `None` for any other file.
pub(crate) fn segment_number(name: &str) -> Option<u64> {
    let number = u64::from_str_radix(name.strip_prefix("log-")?, 16).ok()?;
    (segment_name(number) == name && number < NUMBER_LIMIT).then_some(number)
}

/// Returns the `index`-th 8-byte word of `bytes`, which is long enough.
fn word(bytes: &[u8], index: usize) -> u64 {
    u64::from_le_bytes(bytes[index * 8..][..8].try_into().expect("8 bytes"))
}

/// The position of a block in the log. A superblock keeps one to say where replay starts.
///
/// ```
/// use pando_log::Position;
/// let position = Position { segment: 1, generation: 2, lsn: base::Lsn(40) };
/// assert_eq!(Position::decode(&position.encode()), position);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The number of the segment.
    pub segment: u64,
    /// The generation of the segment.
    pub generation: u64,
    /// The LSN. Everything before it is durable.
    pub lsn: Lsn,
}

impl Position {
    /// The length of the encoded form in bytes.
    pub const BYTES: usize = 24;

    /// Encodes the position as three little-endian words in the order of the fields.
    pub fn encode(self) -> [u8; Self::BYTES] {
        words([self.segment, self.generation, self.lsn.0])
    }

    /// Decodes what [`Position::encode`] wrote. Any 24 bytes decode to a position, so a scan checks it before use.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        Position { segment: word(bytes, 0), generation: word(bytes, 1), lsn: Lsn(word(bytes, 2)) }
    }
}

/// Returns `N` bytes of little-endian words.
fn words<const W: usize, const N: usize>(values: [u64; W]) -> [u8; N] {
    const { assert!(W * 8 == N) };
    let mut out = [0; N];
    for (chunk, value) in out.chunks_exact_mut(8).zip(values) {
        chunk.copy_from_slice(&value.to_le_bytes());
    }
    out
}

/// The place of a block, which seeds its checksum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub database: DatabaseId,
    pub generation: u64,
    pub lsn: Lsn,
}

/// The purpose of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A caller's payload.
    Data = 1,
    /// The last block of a segment: names the successor.
    End = 2,
    /// The log was closed here, with everything before it durable.
    Close = 3,
}

/// A decoded block header, without its checksum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockHeader {
    pub kind: Kind,
    pub payload_bytes: u32,
    pub link: u64,
    pub synced: Lsn,
    pub checkpoint_low: u32,
}

impl BlockHeader {
    /// Returns the 32 bytes before `payload`, and the checksum in them.
    #[inline]
    pub fn seal(&self, place: Place, payload: &[u8]) -> ([u8; BLOCK_HEADER_BYTES], u64) {
        debug_assert_eq!(self.payload_bytes as usize, payload.len());
        let length = self.payload_bytes | ((self.kind as u32) << KIND_SHIFT);
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        bytes[8..16].copy_from_slice(&self.link.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.synced.0.to_le_bytes());
        bytes[24..28].copy_from_slice(&length.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.checkpoint_low.to_le_bytes());
        let sum = block_checksum(place, &bytes, payload);
        bytes[..8].copy_from_slice(&sum.to_le_bytes());
        (bytes, sum)
    }

    /// Decodes the header in `bytes`, if they have the form of one. Does not check the checksum.
    #[inline]
    pub fn decode(bytes: &[u8; BLOCK_HEADER_BYTES]) -> Option<Self> {
        let last = word(bytes, 3);
        let (length, checkpoint_low) = (last as u32, (last >> 32) as u32);
        let kind = match length >> KIND_SHIFT {
            1 => Kind::Data,
            2 => Kind::End,
            3 => Kind::Close,
            _ => return None,
        };
        let payload_bytes = length & LENGTH_MASK;
        let fits = match kind {
            Kind::Data => payload_bytes as usize <= MAX_PAYLOAD_BYTES,
            Kind::End => payload_bytes as usize == SUCCESSOR_BYTES,
            Kind::Close => payload_bytes == 0,
        };
        let header = BlockHeader {
            kind,
            payload_bytes,
            link: word(bytes, 1),
            synced: Lsn(word(bytes, SYNCED_AT / 8)),
            checkpoint_low,
        };
        fits.then_some(header)
    }

    /// Returns the first place in `bytes` at which the `synced` field of a header would lie between `least` and the LSN
    /// of that header. Places are counted in multiples of 8 bytes, and `first` is the LSN of the first one. A header at
    /// the last place lies within `bytes` as a whole.
    pub fn find_synced(bytes: &[u8], first: Lsn, least: Lsn) -> Option<usize> {
        let end = bytes.len().checked_sub(BLOCK_HEADER_BYTES - SYNCED_AT - ALIGN_BYTES as usize)?;
        let fields = bytes.get(SYNCED_AT..end)?.chunks_exact(ALIGN_BYTES as usize);
        let lsns = (first.0..).step_by(ALIGN_BYTES as usize);
        fields.zip(lsns).position(|(field, lsn)| (least.0..=lsn).contains(&word(field, 0)))
    }
}

/// Returns the checksum in the first 8 bytes of a block header.
#[inline]
pub(crate) fn stored_checksum(header: &[u8; BLOCK_HEADER_BYTES]) -> u64 {
    word(header, 0)
}

/// Returns the checksum that a block with this header should have. Ignores the first 8 bytes of the header.
#[inline]
pub(crate) fn block_checksum(place: Place, header: &[u8; BLOCK_HEADER_BYTES], payload: &[u8]) -> u64 {
    let Place { database, generation, lsn } = place;
    let mut covered = *header;
    covered[..8].copy_from_slice(&checksum::log_block(database, generation, lsn, payload).to_le_bytes());
    checksum::log_block(database, generation, lsn, &covered)
}

/// The successor that an end block names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Successor {
    pub number: u64,
    pub generation: u64,
    pub first_lsn: Lsn,
}

impl Successor {
    /// Returns the payload of an end block.
    pub fn encode(self) -> [u8; SUCCESSOR_BYTES] {
        words([self.number, self.generation, self.first_lsn.0])
    }

    /// Decodes the payload of an end block. Returns `None` if it has another length.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let bytes: &[u8; SUCCESSOR_BYTES] = payload.try_into().ok()?;
        Some(Successor { number: word(bytes, 0), generation: word(bytes, 1), first_lsn: Lsn(word(bytes, 2)) })
    }
}

/// A decoded segment header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub database: DatabaseId,
    pub generation: u64,
    pub number: u64,
    pub first_lsn: Lsn,
    pub len_bytes: u64,
    pub previous: u64,
    pub previous_generation: u64,
    pub cut: Lsn,
    pub checkpoint: CheckpointNo,
}

/// The result of parsing the first bytes of a file.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// A segment header of this format whose checksum is right.
    Header(SegmentHeader),
    /// Only zeros: a file that was never made ready.
    Blank,
    /// A format that this program does not know.
    NewerFormat(u32),
    /// Anything else, with the reason.
    Damaged(String),
}

impl SegmentHeader {
    /// Returns the 96 bytes. The last 8 are the checksum, which is also the link of the segment's first block.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut out: [u8; SEGMENT_HEADER_BYTES] = words([
            u64::from_le_bytes(*MAGIC),
            u64::from(FORMAT),
            self.database.0,
            self.generation,
            self.number,
            self.first_lsn.0,
            self.len_bytes,
            self.previous,
            self.previous_generation,
            self.cut.0,
            self.checkpoint.0,
            0,
        ]);
        let sum = checksum::header(&out[..88]);
        out[88..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Parses the beginning of a file.
    pub fn parse(bytes: &[u8; SEGMENT_HEADER_BYTES]) -> Parsed {
        if bytes.iter().all(|&byte| byte == 0) {
            return Parsed::Blank;
        }
        if &bytes[..8] != MAGIC {
            return Parsed::Damaged(format!("expected the magic {MAGIC:02x?}, found {:02x?}", &bytes[..8]));
        }
        let (format, found, expected) =
            (word(bytes, 1) as u32, word(bytes, 11), checksum::header(&bytes[..88]));
        if found != expected {
            // A newer format may keep its checksum elsewhere. A flipped bit in the format number looks the same.
            return match format {
                FORMAT => Parsed::Damaged(format!("expected checksum {expected:016x}, found {found:016x}")),
                other => Parsed::NewerFormat(other),
            };
        }
        if format != FORMAT {
            return Parsed::NewerFormat(format);
        }
        let header = SegmentHeader {
            database: DatabaseId(word(bytes, 2)),
            generation: word(bytes, 3),
            number: word(bytes, 4),
            first_lsn: Lsn(word(bytes, 5)),
            len_bytes: word(bytes, 6),
            previous: word(bytes, 7),
            previous_generation: word(bytes, 8),
            cut: Lsn(word(bytes, 9)),
            checkpoint: CheckpointNo(word(bytes, 10)),
        };
        match header.objection() {
            Some(reason) => Parsed::Damaged(reason),
            None => Parsed::Header(header),
        }
    }

    /// Returns why no writer can have written this header, or `None`.
    fn objection(&self) -> Option<String> {
        let numbers =
            [self.generation, self.number, self.first_lsn.0, self.previous, self.previous_generation];
        if numbers.iter().any(|&number| number >= NUMBER_LIMIT) || self.cut > self.first_lsn {
            return Some(format!("its numbers make no sense: {self:?}"));
        }
        let shortest = SEGMENT_HEADER_BYTES as u64 + END_BLOCK_BYTES;
        let sized = (shortest..=MAX_SEGMENT_BYTES).contains(&self.len_bytes);
        let aligned = [self.first_lsn.0, self.len_bytes, self.cut.0].iter().all(|n| n % ALIGN_BYTES == 0);
        if !sized || !aligned || self.number == 0 || self.generation == 0 || self.previous >= self.number {
            return Some(format!("its numbers make no sense: {self:?}"));
        }
        None
    }

    /// Returns the checksum of the header, which is the link of the first block.
    pub fn checksum(&self) -> u64 {
        word(&self.encode(), 11)
    }

    /// Returns the name of the file.
    pub fn name(&self) -> String {
        segment_name(self.number)
    }

    /// Returns the file offset of `lsn`, which is not before the first.
    #[inline]
    pub fn offset_of(&self, lsn: Lsn) -> u64 {
        lsn.0 - self.first_lsn.0 + SEGMENT_HEADER_BYTES as u64
    }

    /// Returns the LSN at a file offset after the header.
    #[inline]
    pub fn lsn_at(&self, offset: u64) -> Lsn {
        Lsn(self.first_lsn.0 + offset - SEGMENT_HEADER_BYTES as u64)
    }

    /// Returns the first LSN that this segment cannot hold. A successor of the same generation begins here, even if
    /// this segment has unused room, so that its header can be written before the end of this segment is known.
    #[inline]
    pub fn limit_lsn(&self) -> Lsn {
        self.lsn_at(self.len_bytes)
    }

    /// Returns the place of the block at `lsn`, which seeds its checksum.
    #[inline]
    pub fn place(&self, lsn: Lsn) -> Place {
        Place { database: self.database, generation: self.generation, lsn }
    }

    /// Returns what an end block in the predecessor says of this segment.
    pub fn as_successor(&self) -> Successor {
        Successor { number: self.number, generation: self.generation, first_lsn: self.first_lsn }
    }

    /// Returns the full number of a checkpoint from the low half that a block in this segment keeps: the first number
    /// with that half at or after the header's own.
    pub fn widen_checkpoint(&self, low: u32) -> CheckpointNo {
        let ahead = low.wrapping_sub(self.checkpoint.0 as u32);
        CheckpointNo(self.checkpoint.0.saturating_add(u64::from(ahead)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> SegmentHeader {
        SegmentHeader {
            database: DatabaseId(7),
            generation: 2,
            number: 9,
            first_lsn: Lsn(4096),
            len_bytes: 16 << 10,
            previous: 8,
            previous_generation: 1,
            cut: Lsn(4000),
            checkpoint: CheckpointNo(u64::from(u32::MAX)),
        }
    }

    #[test]
    fn a_segment_header_comes_back_and_no_flipped_bit_does() {
        let bytes = header().encode();
        assert!(matches!(SegmentHeader::parse(&bytes), Parsed::Header(back) if back == header()));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(
                !matches!(SegmentHeader::parse(&flipped), Parsed::Header(_) | Parsed::Blank),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn a_checkpoint_widens_past_the_low_half() {
        assert_eq!(header().widen_checkpoint(u32::MAX), header().checkpoint);
        assert_eq!(header().widen_checkpoint(1).0, u64::from(u32::MAX) + 2);
    }

    #[test]
    fn names_have_one_form() {
        assert_eq!(segment_number(&segment_name(0x2a)), Some(0x2a));
        for other in
            ["log-2a", "log-000000000000002A", "data", "log-zzzzzzzzzzzzzzzz", "log-ffffffffffffffff"]
        {
            assert_eq!(segment_number(other), None, "{other}");
        }
    }

    #[test]
    fn synced_is_found_at_every_place_that_holds_a_whole_header() {
        let (first, places) = (Lsn(8000), 9);
        for place in 0..places {
            let mut bytes = vec![0; BLOCK_HEADER_BYTES + (places - 1) * 8];
            let own = first.0 + place as u64 * 8;
            for (synced, found) in [(7993, Some(place)), (own, Some(place)), (7992, None), (own + 1, None)] {
                bytes[place * 8 + SYNCED_AT..][..8].copy_from_slice(&u64::to_le_bytes(synced));
                assert_eq!(BlockHeader::find_synced(&bytes, first, Lsn(7993)), found, "{place}: {synced}");
            }
            bytes[place * 8 + SYNCED_AT..][..8].copy_from_slice(&own.to_le_bytes());
            let cut = &bytes[..bytes.len() - 1];
            assert_eq!(BlockHeader::find_synced(cut, first, Lsn(7993)).is_none(), place + 1 == places);
        }
        assert_eq!(BlockHeader::find_synced(&[0xff; 31], first, Lsn(0)), None);
    }
}
