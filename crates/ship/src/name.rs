//! The names of objects below a lineage's prefix. Numbers have a fixed width, so that names sort as numbers do.

use base::limits::NUMBER_LIMIT;

pub(crate) const LINEAGE: &str = "lineage";
pub(crate) const EPOCHS: &str = "epochs";
pub(crate) const FLOORS: &str = "floors";
pub(crate) const BASES: &str = "base";
pub(crate) const LOG: &str = "log";
/// The further databases of a name, after the first was dropped.
pub(crate) const INCARNATIONS: &str = "incarnations";
/// The parts of bases.
pub(crate) const BASE_PARTS: &str = "parts/base";
/// The parts of long changes, in a folder for each segment.
pub(crate) const CHANGE_PARTS: &str = "parts/log";
/// Everything that lies directly below the prefix of a lineage, but for [`LINEAGE`].
pub(crate) const OWN_FOLDERS: [&str; 7] = [EPOCHS, FLOORS, BASES, LOG, INCARNATIONS, "parts", PROBES];
/// Objects that test whether conditional puts work.
pub(crate) const PROBES: &str = "probe";

/// Returns the name of a numbered object: `log/00000000000000000007`.
pub(crate) fn numbered(folder: &str, number: u64) -> String {
    format!("{folder}/{number:020}")
}

/// Returns the number of an object of `folder`; `None` for any other name, and for a number that no writer reaches.
pub(crate) fn number_of(folder: &str, name: &str) -> Option<u64> {
    let digits = name.strip_prefix(folder)?.strip_prefix('/')?;
    let number = (digits.len() == 20).then(|| digits.parse().ok()).flatten()?;
    (number < NUMBER_LIMIT).then_some(number)
}

/// Returns the name of a base's manifest: `base/0000000002-00000000000000000123`.
pub(crate) fn manifest(epoch: u64, commit: u64) -> String {
    format!("{BASES}/{epoch:010}-{commit:020}")
}

/// Returns the epoch and commit of the base whose manifest has the name `name`.
pub(crate) fn base_of(name: &str) -> Option<(u64, u64)> {
    let (epoch, commit) = name.strip_prefix(BASES)?.strip_prefix('/')?.split_once('-')?;
    Some((epoch.parse().ok()?, commit.parse().ok()?))
}

/// Returns the folder of the parts of long changes in a segment.
pub(crate) fn change(segment: u64) -> String {
    numbered(CHANGE_PARTS, segment)
}

/// Returns the segment to which the part of a long change belongs.
pub(crate) fn segment_of(part: &str) -> Option<u64> {
    number_of(CHANGE_PARTS, part.rsplit_once('/')?.0)
}

/// Returns the attempt to which the part of a base belongs.
pub(crate) fn attempt_of(part: &str) -> Option<u64> {
    let (attempt, index) = part.strip_prefix(BASE_PARTS)?.strip_prefix('/')?.split_once('-')?;
    let is_ours = attempt.len() == 16 && index.len() >= 6 && index.bytes().all(|byte| byte.is_ascii_digit());
    is_ours.then(|| u64::from_str_radix(attempt, 16).ok()).flatten()
}

/// Returns the name of a part within `folder`.
pub(crate) fn part(folder: &str, attempt: u64, index: usize) -> String {
    format!("{folder}/{attempt:016x}-{index:06}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_give_their_numbers_back() {
        assert_eq!(number_of(LOG, &numbered(LOG, 7)), Some(7));
        assert_eq!(number_of(LOG, &numbered(EPOCHS, 7)), None);
        assert_eq!(number_of(LOG, "log/7"), None);
        assert_eq!(base_of(&manifest(2, 123)), Some((2, 123)));
        assert_eq!(segment_of(&part(&change(7), 9, 1)), Some(7));
        assert_eq!(attempt_of(&part(BASE_PARTS, 0x2_0000_0003, 1)), Some(0x2_0000_0003));
        assert_eq!(attempt_of(&part(&change(7), 9, 1)), None);
        assert_eq!(attempt_of("parts/base/7-000001"), None);
        assert!(numbered(LOG, 9) < numbered(LOG, 10));
    }
}
