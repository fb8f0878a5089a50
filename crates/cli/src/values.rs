//! Copies values between files, standard input and standard output without holding a whole value in memory.

use crate::failure::{Failure, Outcome};
use indicatif::{ProgressBar, ProgressStyle};
use pando::Error;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

/// The longest value that is read as a whole. Longer ones are copied in pieces.
pub const SHORT_BYTES: u64 = 1 << 20;

/// The length from which progress is shown.
const SLOW_BYTES: u64 = 64 << 20;

/// The source of a value.
pub struct Input {
    pub bytes: Box<dyn Read>,
    /// The length of a long value; `None` if it is short, or not known.
    pub long_bytes: Option<u64>,
}

/// Opens the source of a value: standard input for `-`, else a file. Progress is shown on standard error if that is a
/// terminal and the length is not known to be small.
pub fn input(path: &Path) -> Outcome<Input> {
    if path == Path::new("-") {
        return Ok(Input { bytes: Box::new(progress(None).wrap_read(io::stdin())), long_bytes: None });
    }
    let refused = |cause| Failure::system(format_args!("open {}", path.display()), cause);
    let file = File::open(path).map_err(refused)?;
    let metadata = file.metadata().map_err(refused)?;
    let bar = progress(Some(metadata.len()));
    if !metadata.is_file() || metadata.len() <= SHORT_BYTES {
        // Files that the kernel makes up say that they are empty.
        return Ok(Input { bytes: Box::new(bar.wrap_read(file)), long_bytes: None });
    }
    // What is appended from now on is not a part of the value.
    let bytes = Box::new(bar.wrap_read(file.take(metadata.len())));
    Ok(Input { bytes, long_bytes: Some(metadata.len()) })
}

/// Writes a whole value, of `bytes` bytes if that is known, and returns its last byte.
pub fn write_all(
    mut from: impl Read,
    bytes: Option<u64>,
    out: &mut dyn Write,
    refused: impl Fn(io::Error) -> Failure,
) -> Outcome<Option<u8>> {
    let bar = progress(bytes);
    let (mut piece, mut last) = (vec![0; 256 << 10], None);
    loop {
        let count = from.read(&mut piece).map_err(reading_failed)?;
        let Some(&end) = piece[..count].last() else { break };
        out.write_all(&piece[..count]).map_err(&refused)?;
        last = Some(end);
        bar.inc(count as u64);
    }
    bar.finish_and_clear();
    Ok(last)
}

/// Unwraps an error of the engine that comes through `std::io`.
fn reading_failed(error: io::Error) -> Failure {
    match error.downcast::<Error>() {
        Ok(error) => error.into(),
        Err(cause) => Failure::system("read the value", cause),
    }
}

/// Returns a progress bar; `None` is an unknown length.
fn progress(bytes: Option<u64>) -> ProgressBar {
    const TEMPLATE: &str = "{bytes} of {total_bytes}, {bytes_per_sec}, {eta} to go";
    match bytes {
        Some(bytes) if bytes < SLOW_BYTES => ProgressBar::hidden(),
        Some(bytes) => match ProgressStyle::with_template(TEMPLATE) {
            Ok(style) => ProgressBar::new(bytes).with_style(style),
            Err(_) => ProgressBar::new(bytes),
        },
        None => match ProgressStyle::with_template("{bytes}, {bytes_per_sec}") {
            Ok(style) => ProgressBar::new_spinner().with_style(style),
            Err(_) => ProgressBar::new_spinner(),
        },
    }
}
