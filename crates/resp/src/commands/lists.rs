//! Commands on lists. A part is an index, without gaps from the first to the last: an element at either end costs the
//! same whatever the length, and one inside moves those after it.

use super::call::{
    Call, asked_count, bounds, counted_keys, pop_from_first, popped_count, reply_elements, reply_len,
};
use crate::fault::{Done, Fault};
use crate::layout::{Event, Header, Kind};
use crate::space::Parts;
use pando::keys::i64_key;
use std::ops::Bound;

const LIST: Kind = Kind::List;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The first element.
    Left,
    /// The last element.
    Right,
}

impl End {
    fn parse(word: &[u8]) -> Done<Self> {
        match word.to_ascii_lowercase().as_slice() {
            b"left" => Ok(End::Left),
            b"right" => Ok(End::Right),
            _ => Err(Fault::SYNTAX),
        }
    }

    fn pushed(self) -> Event {
        if self == End::Left { Event::LPush } else { Event::RPush }
    }

    fn popped(self) -> Event {
        if self == End::Left { Event::LPop } else { Event::RPop }
    }
}

/// Returns the part of the element at a place from the beginning.
fn part(header: &Header, at: u64) -> [u8; 8] {
    i64_key(header.first.wrapping_add(at as i64))
}

fn element(call: &Call, header: &Header, at: u64) -> Done<Vec<u8>> {
    let missing = || Fault::Database(pando::Error::corruption(format!("a list has no element {at}")));
    call.space.element(header, &part(header, at))?.ok_or_else(missing)
}

/// Returns all elements.
fn all(call: &Call, header: &Header) -> Done<Vec<Vec<u8>>> {
    let mut elements = Vec::new();
    call.space.each_element(header, &Parts::ALL, |_, value| {
        call.charge(value.len())?;
        elements.push(value.to_vec());
        Ok(true)
    })?;
    Ok(elements)
}

fn push_one(call: &mut Call, header: &mut Header, end: End, value: &[u8]) -> Done {
    if end == End::Left {
        header.first = header.first.wrapping_sub(1);
    }
    header.count += 1;
    let at = if end == End::Left { 0 } else { header.count - 1 };
    let part = part(header, at);
    call.space.put_element(header, &part, value)
}

/// Removes the element at an end of a list that has one.
fn pop_one(call: &mut Call, header: &mut Header, end: End) -> Done<Vec<u8>> {
    let at = if end == End::Left { 0 } else { header.count - 1 };
    let value = element(call, header, at)?;
    let part = part(header, at);
    call.space.delete_element(header, &part)?;
    if end == End::Left {
        header.first = header.first.wrapping_add(1);
    }
    header.count -= 1;
    Ok(value)
}

fn push(call: &mut Call, end: End, creates: bool) -> Done {
    let key = call.word(1);
    let header = match call.space.collection_to_write(key, LIST)? {
        None if !creates => {
            call.out.integer(0);
            return Ok(());
        }
        found => found,
    };
    let mut header = match header {
        Some(header) => header,
        None => call.space.new_collection(LIST)?,
    };
    for value in call.from(2) {
        push_one(call, &mut header, end, value)?;
    }
    call.space.save(key, &header, end.pushed())?;
    call.out.integer(header.count as i64);
    Ok(())
}

pub fn lpush(call: &mut Call) -> Done {
    push(call, End::Left, true)
}

pub fn rpush(call: &mut Call) -> Done {
    push(call, End::Right, true)
}

pub fn lpushx(call: &mut Call) -> Done {
    push(call, End::Left, false)
}

pub fn rpushx(call: &mut Call) -> Done {
    push(call, End::Right, false)
}

fn pop(call: &mut Call, end: End) -> Done {
    let most = asked_count(call)?;
    let key = call.word(1);
    let Some(mut header) = call.space.collection_to_write(key, LIST)? else {
        if most.is_some() {
            call.out.null_array()
        } else {
            call.out.null()
        }
        return Ok(());
    };
    let count = most.unwrap_or(1).min(header.count);
    if most.is_some() {
        call.out.array(count as usize);
    }
    reply_popped(call, key, &mut header, end, count)
}

/// Pops `count` elements, of which there are so many, and replies with each.
fn reply_popped(call: &mut Call, key: &[u8], header: &mut Header, end: End, count: u64) -> Done {
    for _ in 0..count {
        let value = pop_one(call, header, end)?;
        call.out.bulk(&value);
        call.check_reply()?;
    }
    if count > 0 { call.space.save(key, header, end.popped()) } else { Ok(()) }
}

pub fn lpop(call: &mut Call) -> Done {
    pop(call, End::Left)
}

pub fn rpop(call: &mut Call) -> Done {
    pop(call, End::Right)
}

pub fn llen(call: &mut Call) -> Done {
    reply_len(call, LIST)
}

/// Returns the place that an index means, if there is an element.
fn place(header: &Header, index: i64) -> Option<u64> {
    let at = if index < 0 { index.checked_add(header.count as i64)? } else { index };
    u64::try_from(at).ok().filter(|&at| at < header.count)
}

pub fn lindex(call: &mut Call) -> Done {
    let index = call.integer(2)?;
    let found = call.space.collection(call.word(1), LIST)?;
    let value = match found.and_then(|header| Some((header, place(&header, index)?))) {
        Some((header, at)) => Some(element(call, &header, at)?),
        None => None,
    };
    call.out.bulk_or_null(value.as_deref());
    Ok(())
}

pub fn lset(call: &mut Call) -> Done {
    let (key, index) = (call.word(1), call.integer(2)?);
    let header = call.space.collection_to_write(key, LIST)?.ok_or(Fault::NO_KEY)?;
    let at = place(&header, index).ok_or(Fault::fixed("ERR index out of range"))?;
    call.space.put_element(&header, &part(&header, at), call.word(3))?;
    call.space.save(key, &header, Event::LSet)?;
    call.out.ok();
    Ok(())
}

pub fn lrange(call: &mut Call) -> Done {
    let (start, stop) = (call.integer(2)?, call.integer(3)?);
    let Some(header) = call.space.collection(call.word(1), LIST)? else {
        call.out.array(0);
        return Ok(());
    };
    let (start, end) = bounds(start, stop, header.count);
    call.out.array((end - start) as usize);
    let (first, last) = (part(&header, start), part(&header, end));
    let span = Parts { start: Bound::Included(&first), end: Bound::Excluded(&last), ..Parts::ALL };
    reply_elements(call, &header, &span, end - start, |out, _, value| out.bulk(value))
}

pub fn ltrim(call: &mut Call) -> Done {
    let (key, start, stop) = (call.word(1), call.integer(2)?, call.integer(3)?);
    if let Some(mut header) = call.space.collection_to_write(key, LIST)? {
        let (start, end) = bounds(start, stop, header.count);
        if start == end {
            call.space.erase(key, &header)?;
        } else {
            for at in (0..start).chain(end..header.count) {
                call.space.delete_element(&header, &part(&header, at))?;
            }
            header.first = header.first.wrapping_add(start as i64);
            header.count = end - start;
            call.space.save(key, &header, Event::LTrim)?;
        }
    }
    call.out.ok();
    Ok(())
}

/// Replaces the elements from the place `from` on by `rest`.
fn replace_rest(call: &mut Call, header: &mut Header, from: u64, rest: &[Vec<u8>]) -> Done {
    let end = from + rest.len() as u64;
    for (at, value) in (from..).zip(rest) {
        call.space.put_element(header, &part(header, at), value)?;
    }
    for at in end..header.count {
        call.space.delete_element(header, &part(header, at))?;
    }
    header.count = end;
    Ok(())
}

pub fn lrem(call: &mut Call) -> Done {
    let (key, count, value) = (call.word(1), call.integer(2)?, call.word(3));
    let mut removed = 0;
    if let Some(mut header) = call.space.collection_to_write(key, LIST)? {
        let all = all(call, &header)?;
        let most = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
        let mut doomed: Vec<usize> = (0..all.len()).filter(|&at| all[at] == value).collect();
        if count < 0 {
            doomed.reverse();
        }
        doomed.truncate(most);
        doomed.sort_unstable();
        removed = doomed.len();
        if let Some(&first) = doomed.first() {
            let rest = all.into_iter().enumerate().skip(first);
            let rest = rest.filter(|(at, _)| doomed.binary_search(at).is_err());
            let rest: Vec<Vec<u8>> = rest.map(|(_, value)| value).collect();
            replace_rest(call, &mut header, first as u64, &rest)?;
            call.space.save(key, &header, Event::LRem)?;
        }
    }
    call.out.count(removed);
    Ok(())
}

pub fn linsert(call: &mut Call) -> Done {
    let is_before = match call.word(2).to_ascii_lowercase().as_slice() {
        b"before" => true,
        b"after" => false,
        _ => return Err(Fault::SYNTAX),
    };
    let (key, pivot) = (call.word(1), call.word(3));
    let Some(mut header) = call.space.collection_to_write(key, LIST)? else {
        call.out.integer(0);
        return Ok(());
    };
    let mut all = all(call, &header)?;
    let Some(found) = all.iter().position(|value| value == pivot) else {
        call.out.integer(-1);
        return Ok(());
    };
    let at = found + usize::from(!is_before);
    let rest: Vec<Vec<u8>> = std::iter::once(call.word(4).to_vec()).chain(all.drain(at..)).collect();
    replace_rest(call, &mut header, at as u64, &rest)?;
    call.space.save(key, &header, Event::LInsert)?;
    call.out.integer(header.count as i64);
    Ok(())
}

pub fn lpos(call: &mut Call) -> Done {
    let (mut rank, mut count, mut longest) = (1, None, 0);
    if call.len().is_multiple_of(2) {
        return Err(Fault::SYNTAX);
    }
    for at in (3..call.len()).step_by(2) {
        let number = call.integer(at + 1)?;
        if call.is(at, "rank") {
            rank = number;
        } else if call.is(at, "count") {
            count = Some(usize::try_from(number).map_err(|_| Fault::fixed("ERR COUNT can't be negative"))?);
        } else if call.is(at, "maxlen") {
            longest = usize::try_from(number).map_err(|_| Fault::fixed("ERR MAXLEN can't be negative"))?;
        } else {
            return Err(Fault::SYNTAX);
        }
    }
    if rank == 0 || rank == i64::MIN {
        return Err(Fault::fixed("ERR RANK can't be zero: use 1 to start from the first match"));
    }
    let all = match call.space.collection(call.word(1), LIST)? {
        Some(header) => all(call, &header)?,
        None => Vec::new(),
    };
    let places: Vec<usize> = if rank > 0 { (0..all.len()).collect() } else { (0..all.len()).rev().collect() };
    let looked_at = if longest == 0 { usize::MAX } else { longest };
    let found = places.into_iter().take(looked_at).filter(|&at| all[at] == call.word(2));
    let mut found = found.skip(rank.unsigned_abs() as usize - 1);
    match count {
        None => match found.next() {
            Some(at) => call.out.count(at),
            None => call.out.null(),
        },
        Some(most) => {
            let found: Vec<usize> = found.take(if most == 0 { usize::MAX } else { most }).collect();
            call.out.array(found.len());
            found.iter().for_each(|&at| call.out.count(at));
        }
    }
    Ok(())
}

/// Moves an element from an end of a list to an end of a list, perhaps the same. Returns it, if there was one.
fn move_one(call: &mut Call, from: End, to: End) -> Done<Option<Vec<u8>>> {
    let (source_key, target_key) = (call.word(1), call.word(2));
    let Some(mut source) = call.space.collection_to_pop(source_key, LIST)? else { return Ok(None) };
    if source_key == target_key {
        let value = pop_one(call, &mut source, from)?;
        push_one(call, &mut source, to, &value)?;
        call.space.save(source_key, &source, to.pushed())?;
        return Ok(Some(value));
    }
    let mut target = call.space.collection_or_new(target_key, LIST)?;
    let value = pop_one(call, &mut source, from)?;
    call.space.save(source_key, &source, from.popped())?;
    push_one(call, &mut target, to, &value)?;
    call.space.save(target_key, &target, to.pushed())?;
    Ok(Some(value))
}

fn reply_moved(call: &mut Call, from: End, to: End) -> Done {
    let moved = move_one(call, from, to)?;
    call.out.bulk_or_null(moved.as_deref());
    call.space.would_block = moved.is_none();
    Ok(())
}

pub fn lmove(call: &mut Call) -> Done {
    let (from, to) = (End::parse(call.word(3))?, End::parse(call.word(4))?);
    reply_moved(call, from, to)
}

pub fn rpoplpush(call: &mut Call) -> Done {
    reply_moved(call, End::Right, End::Left)
}

/// Pops from the first of several lists that exists.
fn pop_first(call: &mut Call, end: End) -> Done {
    pop_from_first(call, call.keys_before_timeout(), |call, key| {
        let Some(mut header) = call.space.collection_to_pop(key, LIST)? else { return Ok(false) };
        call.out.array(2);
        call.out.bulk(key);
        reply_popped(call, key, &mut header, end, 1)?;
        Ok(true)
    })
}

/// Pops up to a number of elements from the first of several lists that exists. The number of keys is the word at `at`.
fn pop_many(call: &mut Call, at: usize) -> Done {
    let (keys, next) = counted_keys(call, at)?;
    let end = End::parse(call.words.get(next).ok_or(Fault::SYNTAX)?)?;
    let most = popped_count(call, next + 1)?;
    pop_from_first(call, keys, |call, key| {
        let Some(mut header) = call.space.collection_to_pop(key, LIST)? else { return Ok(false) };
        let count = most.min(header.count);
        call.out.array(2);
        call.out.bulk(key);
        call.out.array(count as usize);
        reply_popped(call, key, &mut header, end, count)?;
        Ok(true)
    })
}

pub fn lmpop(call: &mut Call) -> Done {
    pop_many(call, 1)
}

pub fn blmpop(call: &mut Call) -> Done {
    pop_many(call, 2)
}

pub fn blpop(call: &mut Call) -> Done {
    pop_first(call, End::Left)
}

pub fn brpop(call: &mut Call) -> Done {
    pop_first(call, End::Right)
}
