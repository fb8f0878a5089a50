//! A call of a command: its words, and what it works with.

use crate::cursors::Cursors;
use crate::fault::{Done, Fault};
use crate::figures::Figures;
use crate::layout::{Header, Kind};
use crate::pubsub::Hub;
use crate::room::{Room, Share};
use crate::space::{Parts, Space};
use crate::wire::numbers::{parse_f64, parse_i64};
use crate::wire::reply::Out;
use crate::wire::request::Command;
use std::cell::RefCell;
use std::sync::Arc;

/// The memory in bytes of elements that a command holds at a time.
const MOST_HELD_BYTES: usize = 512 << 20;
/// The memory in bytes that a command holds without a part of that which all share.
const FREE_HELD_BYTES: usize = 64 << 10;
/// What an element takes beside its bytes.
const EACH_BYTES: usize = 64;

/// What all connections share, as far as commands need it.
#[derive(Debug)]
pub struct Around {
    /// Where scans continue.
    pub cursors: Cursors,
    /// The subscribers of channels.
    pub hub: Hub,
    /// The counters.
    pub figures: Figures,
    /// The longest command in bytes, and so the longest string.
    pub most_bytes: usize,
    /// The memory of long replies.
    pub replying: Arc<Room>,
}

/// A call of a command.
#[derive(Debug)]
pub struct Call<'c, 'a> {
    /// The name and the arguments.
    pub words: &'c Command,
    /// The keys.
    pub space: &'c mut Space<'a>,
    /// The replies.
    pub out: &'c mut Out,
    /// What connections share.
    pub around: &'c Around,
    held: RefCell<Held>,
}

/// The elements that a command holds until its end.
#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    /// The part of the memory of long replies; `None` while the elements are few.
    share: Option<Share>,
}

impl<'c, 'a> Call<'c, 'a> {
    /// Creates a call.
    pub fn new(words: &'c Command, space: &'c mut Space<'a>, out: &'c mut Out, around: &'c Around) -> Self {
        Call { words, space, out, around, held: RefCell::default() }
    }

    /// Counts an element of this length that the command holds until its end.
    ///
    /// # Errors
    /// [`Fault::TOO_LARGE`] if it holds too much, [`Fault::TOO_MANY_REPLIES`] if all commands together do.
    pub fn charge(&self, element_bytes: usize) -> Done {
        let mut held = self.held.borrow_mut();
        held.bytes += element_bytes + EACH_BYTES;
        if held.bytes > MOST_HELD_BYTES {
            return Err(Fault::TOO_LARGE);
        }
        let bytes = held.bytes;
        if bytes <= FREE_HELD_BYTES {
            return Ok(());
        }
        let share = held.share.get_or_insert_with(|| Share::new(&self.around.replying));
        if share.set(bytes) { Ok(()) } else { Err(Fault::TOO_MANY_REPLIES) }
    }
    /// Returns the word at `at`, which the arity guarantees.
    pub fn word(&self, at: usize) -> &'c [u8] {
        &self.words[at]
    }

    /// Returns the number of words, including the name.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns the words from the one at `from` on.
    pub fn from(&self, from: usize) -> impl ExactSizeIterator<Item = &'c [u8]> + use<'c> {
        self.words.from(from)
    }

    /// Returns the integer at `at`.
    pub fn integer(&self, at: usize) -> Done<i64> {
        integer(self.words.get(at).ok_or(Fault::SYNTAX)?)
    }

    /// Returns whether the word at `at` exists and is this one, in capital or small letters.
    pub fn is(&self, at: usize, word: &str) -> bool {
        self.words.get(at).is_some_and(|own| own.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// Returns the keys of a blocking pop, which are followed by its timeout.
    pub fn keys_before_timeout(&self) -> impl Iterator<Item = &'c [u8]> + use<'c> {
        self.from(1).take(self.len() - 2)
    }

    /// Fails if the reply has become too long, or those of all clients together have.
    pub fn check_reply(&mut self) -> Done {
        self.out.check()
    }

    /// Fails if a string of `len` bytes would be too long.
    pub fn check_length(&self, len: usize) -> Done {
        if len > self.around.most_bytes {
            let most = self.around.most_bytes;
            return Err(Fault::new(format!("ERR string exceeds maximum allowed size ({most} bytes)")));
        }
        Ok(())
    }
}

/// Returns the integer that a word holds.
pub fn integer(word: &[u8]) -> Done<i64> {
    parse_i64(word).ok_or(Fault::NOT_INTEGER)
}

/// Returns the number that a word holds.
pub fn float(word: &[u8]) -> Done<f64> {
    parse_f64(word).ok_or(Fault::NOT_FLOAT)
}

/// Returns the keys whose number is the word at `at`, and the place of the word after them.
///
/// # Errors
/// If there are none, or fewer than the number says.
pub fn counted_keys<'c>(call: &Call<'c, '_>, at: usize) -> Done<(Vec<&'c [u8]>, usize)> {
    let count =
        call.integer(at).ok().and_then(|count| usize::try_from(count).ok()).filter(|&count| count > 0);
    let count = count.ok_or(Fault::fixed("ERR numkeys should be greater than 0"))?;
    let keys: Vec<&[u8]> = call.from(at + 1).take(count).collect();
    if keys.len() < count {
        return Err(Fault::fixed("ERR Number of keys can't be greater than number of args"));
    }
    Ok((keys, at + 1 + count))
}

/// Returns the number after COUNT at `at`, which is 1 without it.
pub fn popped_count(call: &Call, at: usize) -> Done<u64> {
    match call.len().saturating_sub(at) {
        0 => Ok(1),
        2 if call.is(at, "count") => {
            let count = call.integer(at + 1).ok().and_then(|count| u64::try_from(count).ok());
            count.filter(|&count| count > 0).ok_or(Fault::fixed("ERR count should be greater than 0"))
        }
        _ => Err(Fault::SYNTAX),
    }
}

/// Returns the elements of a collection and their values.
///
/// # Errors
/// Those of [`Call::charge`].
pub fn all_elements(call: &Call, header: &Header) -> Done<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut all = Vec::new();
    call.space.each_element(header, &Parts::ALL, |part, value| {
        call.charge(part.len() + value.len())?;
        all.push((part.to_vec(), value.to_vec()));
        Ok(true)
    })?;
    Ok(all)
}

/// Replies that are gathered before their number is known.
#[derive(Debug)]
pub struct Items {
    out: Out,
    count: usize,
}

impl Items {
    /// Creates a list without replies.
    pub fn new(call: &Call) -> Self {
        Items { out: Out::within(&call.around.replying, call.out.protocol), count: 0 }
    }

    /// Adds a byte string.
    ///
    /// # Errors
    /// Those of [`Out::check`].
    pub fn push(&mut self, item: &[u8]) -> Done {
        self.out.bulk(item);
        self.count += 1;
        self.out.check()
    }

    /// Replies with the array of what was added.
    pub fn reply(self, call: &mut Call) -> Done {
        call.out.array(self.count);
        call.out.append(self.out);
        call.check_reply()
    }
}

/// Replies with the elements of a span, of which there are `count`, as `show` adds them.
pub fn reply_elements(
    call: &mut Call,
    header: &Header,
    span: &Parts<'_>,
    count: u64,
    show: impl Fn(&mut Out, &[u8], &[u8]),
) -> Done {
    let (out, mut found) = (&mut *call.out, 0);
    call.space.each_element(header, span, |part, value| {
        show(out, part, value);
        found += 1;
        out.check().map(|()| true)
    })?;
    if found == count {
        return Ok(());
    }
    let text = format!("a collection has {found} elements where its header says {count}");
    Err(Fault::Database(pando::Error::corruption(text)))
}

/// Returns how many elements a pop asks for in the word at 2; `None` if it names no number.
pub fn asked_count(call: &Call) -> Done<Option<u64>> {
    match call.len() {
        2 => Ok(None),
        3 => u64::try_from(call.integer(2)?)
            .map(Some)
            .map_err(|_| Fault::fixed("ERR value is out of range, must be positive")),
        _ => Err(Fault::SYNTAX),
    }
}

/// Calls `pop` on the keys in order until it has popped and replied. If it never does, the reply is null, and the
/// client can wait for an element.
pub fn pop_from_first<'c, 'a>(
    call: &mut Call<'c, 'a>,
    keys: impl IntoIterator<Item = &'c [u8]>,
    mut pop: impl FnMut(&mut Call<'c, 'a>, &'c [u8]) -> Done<bool>,
) -> Done {
    for key in keys {
        if pop(call, key)? {
            return Ok(());
        }
    }
    call.space.would_block = true;
    call.out.null_array();
    Ok(())
}

/// Replies with the number of elements of the key.
pub fn reply_len(call: &mut Call, kind: Kind) -> Done {
    let header = call.space.collection(call.word(1), kind)?;
    call.out.integer(header.map_or(0, |header| header.count as i64));
    Ok(())
}

/// Returns the bounds of a range of indexes in a sequence of `count`: `[start, end)`. Negative ones count from the end.
pub fn bounds(start: i64, stop: i64, count: u64) -> (u64, u64) {
    let count = count as i64;
    let absolute = |index: i64| if index < 0 { index.saturating_add(count) } else { index };
    let start = absolute(start).max(0);
    let end = absolute(stop).min(count - 1) + 1;
    if start >= end { (0, 0) } else { (start as u64, end as u64) }
}

#[cfg(test)]
mod tests {
    use super::bounds;

    #[test]
    fn indexes_count_from_both_ends() {
        for ((start, stop, count), expected) in [
            ((0, -1, 3), (0, 3)),
            ((1, 1, 3), (1, 2)),
            ((-2, -1, 3), (1, 3)),
            ((-100, 100, 3), (0, 3)),
            ((2, 1, 3), (0, 0)),
            ((3, 5, 3), (0, 0)),
            ((0, -4, 3), (0, 0)),
            ((0, -1, 0), (0, 0)),
            ((i64::MIN, i64::MAX, 3), (0, 3)),
        ] {
            assert_eq!(bounds(start, stop, count), expected, "{start} {stop} of {count}");
        }
    }
}
