//! A look at the footer of a file of Arrow IPC, before the reader of arrow-rs goes by it.
//!
//! That reader reserves and clears the memory of a block before it reads it, as long as the footer gives its length. So
//! a file of some kilobytes could exhaust the memory. What is checked here:
//!
//! 1. A block lies within the file, before the footer.
//! 2. A block is no longer than a batch may be.
//! 3. All blocks together are no longer than the file. Otherwise a file could name one block many times, for example a
//!    dictionary that each time extends the one before.

use arrow_ipc::reader::read_footer_length;
use arrow_ipc::{Block, root_as_footer};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// The length of the footer, and the mark, at the end of a file.
const TAIL_BYTES: usize = 10;

/// Checks the blocks of the file, if it has the form of a file of Arrow IPC at all: otherwise the reader rejects it.
///
/// Errors: what is wrong with a block.
pub(crate) fn check(file: &mut File, most_block_bytes: u64) -> io::Result<Result<(), String>> {
    let length = file.seek(SeekFrom::End(0))?;
    let Some(before_tail) = length.checked_sub(TAIL_BYTES as u64) else { return Ok(Ok(())) };
    let mut tail = [0; TAIL_BYTES];
    file.seek(SeekFrom::Start(before_tail))?;
    file.read_exact(&mut tail)?;
    let Ok(footer_bytes) = read_footer_length(tail) else { return Ok(Ok(())) };
    let Some(blocks_end) = before_tail.checked_sub(footer_bytes as u64) else {
        return Ok(Err("its footer is longer than the file".to_owned()));
    };
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(blocks_end))?;
    file.by_ref().take(footer_bytes as u64).read_to_end(&mut bytes)?;
    file.seek(SeekFrom::Start(0))?;
    let Ok(footer) = root_as_footer(&bytes) else { return Ok(Ok(())) };
    let blocks = footer.dictionaries().into_iter().chain(footer.recordBatches()).flatten();
    Ok(check_blocks(blocks, blocks_end, most_block_bytes))
}

fn check_blocks<'b>(
    blocks: impl Iterator<Item = &'b Block>,
    blocks_end: u64,
    most_block_bytes: u64,
) -> Result<(), String> {
    let mut left = blocks_end;
    for block in blocks {
        let outside = || format!("a block of the file lies outside of it: {block:?}");
        let metadata = u64::try_from(block.metaDataLength()).map_err(|_| outside())?;
        let body = u64::try_from(block.bodyLength()).map_err(|_| outside())?;
        let begin = u64::try_from(block.offset()).map_err(|_| outside())?;
        // None of these exceeds 2^63, and a sum of two fits.
        let bytes = metadata + body;
        if begin.checked_add(bytes).is_none_or(|end| end > blocks_end) {
            return Err(outside());
        }
        if bytes > most_block_bytes {
            let most = most_block_bytes >> 20;
            return Err(format!("a batch has more than {most} MiB; write smaller ones"));
        }
        left = left.checked_sub(bytes).ok_or("its blocks overlap")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 1 << 20;

    fn check(blocks: &[(i64, i32, i64)], file_bytes: u64) -> Result<(), String> {
        let blocks: Vec<_> = blocks.iter().map(|&(at, head, body)| Block::new(at, head, body)).collect();
        check_blocks(blocks.iter(), file_bytes, MOST)
    }

    #[test]
    fn blocks_must_lie_within_the_file_and_not_overlap() {
        assert_eq!(check(&[(8, 32, 60), (100, 32, 68)], 200), Ok(()));
        assert_eq!(check(&[], 0), Ok(()));
        for outside in [
            (8, 32, 161),
            (8, 32, i64::MAX),
            (i64::MAX, i32::MAX, i64::MAX),
            (201, 0, 0),
            (-1, 32, 8),
            (8, -1, 8),
            (8, 32, -8),
        ] {
            let message = check(&[outside], 200).unwrap_err();
            assert!(message.contains("lies outside"), "{message}");
        }
        let message = check(&[(8, 32, MOST as i64)], 3 * MOST).unwrap_err();
        assert!(message.contains("more than 1 MiB"), "{message}");
        let message = check(&[(8, 32, 100), (8, 32, 100)], 200).unwrap_err();
        assert!(message.contains("overlap"), "{message}");
    }
}
