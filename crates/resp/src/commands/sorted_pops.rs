//! Commands that pop from sorted sets.

use super::call::{Call, counted_keys, popped_count};
use super::sorted::{SORTED, Scored, remove, reply_scored};
use super::sorted_spans::{Limit, Span};
use crate::fault::{Done, Fault};
use crate::layout::Event;
use crate::wire::reply::Protocol;

/// Removes up to `count` members with the lowest or the highest scores, and returns them.
fn pop_members(call: &mut Call, key: &[u8], highest: bool, count: u64) -> Done<Vec<Scored>> {
    let Some(mut header) = call.space.collection_to_write(key, SORTED)? else { return Ok(Vec::new()) };
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
    let count = match call.len() {
        2 => 1,
        3 => u64::try_from(call.integer(2)?)
            .map_err(|_| Fault::fixed("ERR value is out of range, must be positive"))?,
        _ => return Err(Fault::SYNTAX),
    };
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
    let last = call.len() - 1;
    for key in call.from(1).take(last - 1) {
        if let Some((member, score)) = pop_members(call, key, highest, 1)?.pop() {
            call.out.array(3);
            call.out.bulk(key);
            call.out.bulk(&member);
            call.out.double(score);
            return Ok(());
        }
    }
    call.space.would_block = true;
    call.out.null_array();
    Ok(())
}

/// Pops up to a number of members from the first of several sorted sets that exists. The number of keys is the word at
/// `at`.
fn pop_many(call: &mut Call, at: usize) -> Done {
    let (keys, next) = counted_keys(call, at)?;
    let highest = match () {
        () if call.is(next, "min") => false,
        () if call.is(next, "max") => true,
        () => return Err(Fault::SYNTAX),
    };
    let most = popped_count(call, next + 1)?;
    for key in keys {
        let found = pop_members(call, key, highest, most)?;
        if !found.is_empty() {
            call.out.array(2);
            call.out.bulk(key);
            call.out.array(found.len());
            for (member, score) in &found {
                call.out.array(2);
                call.out.bulk(member);
                call.out.double(*score);
            }
            return call.check_reply();
        }
    }
    call.space.would_block = true;
    call.out.null_array();
    Ok(())
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
