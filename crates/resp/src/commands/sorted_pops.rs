//! Commands that pop from sorted sets.

use super::call::{Call, asked_count, counted_keys, pop_from_first, popped_count};
use super::sorted::{SORTED, Scored, remove, reply_scored};
use super::sorted_spans::{Limit, Span};
use crate::fault::{Done, Fault};
use crate::layout::Event;
use crate::wire::reply::Protocol;

/// Removes up to `count` members with the lowest or the highest scores, and returns them.
fn pop_members(call: &mut Call, key: &[u8], highest: bool, count: u64) -> Done<Vec<Scored>> {
    let Some(mut header) = call.space.collection_to_pop(key, SORTED)? else { return Ok(Vec::new()) };
    let found = Span::Places(0, -1).collect(call, &header, highest, Limit { offset: 0, count })?;
    for (member, score) in &found {
        remove(call, &mut header, member, *score)?;
    }
    if !found.is_empty() {
        call.space.save(key, &header, Event::ZPop)?;
    }
    Ok(found)
}

fn pop(call: &mut Call, highest: bool) -> Done {
    let count = asked_count(call)?.unwrap_or(1);
    let found = pop_members(call, call.word(1), highest, count)?;
    if call.len() == 2 && call.out.protocol == Protocol::Resp3 {
        // One member without a count is not nested.
        call.out.array(found.len() * 2);
        for (member, score) in &found {
            call.out.bulk(member);
            call.out.double(*score);
        }
        return Ok(());
    }
    reply_scored(call, &found, true)
}

pub fn zpopmin(call: &mut Call) -> Done {
    pop(call, false)
}

pub fn zpopmax(call: &mut Call) -> Done {
    pop(call, true)
}

fn pop_first(call: &mut Call, highest: bool) -> Done {
    pop_from_first(call, call.keys_before_timeout(), |call, key| {
        let Some((member, score)) = pop_members(call, key, highest, 1)?.pop() else { return Ok(false) };
        call.out.array(3);
        call.out.bulk(key);
        call.out.bulk(&member);
        call.out.double(score);
        Ok(true)
    })
}

/// Pops up to a number of members from the first of several sorted sets that exists. The number of keys is the word at
/// `at`.
fn pop_many(call: &mut Call, at: usize) -> Done {
    let (keys, next) = counted_keys(call, at)?;
    let highest = call.is(next, "max");
    if !highest && !call.is(next, "min") {
        return Err(Fault::SYNTAX);
    }
    let most = popped_count(call, next + 1)?;
    pop_from_first(call, keys, |call, key| {
        let found = pop_members(call, key, highest, most)?;
        if found.is_empty() {
            return Ok(false);
        }
        call.out.array(2);
        call.out.bulk(key);
        call.out.array(found.len());
        for (member, score) in &found {
            call.out.array(2);
            call.out.bulk(member);
            call.out.double(*score);
        }
        call.check_reply().map(|()| true)
    })
}

pub fn zmpop(call: &mut Call) -> Done {
    pop_many(call, 1)
}

pub fn bzmpop(call: &mut Call) -> Done {
    pop_many(call, 2)
}

pub fn bzpopmin(call: &mut Call) -> Done {
    pop_first(call, false)
}

pub fn bzpopmax(call: &mut Call) -> Done {
    pop_first(call, true)
}
