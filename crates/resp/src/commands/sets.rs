//! Commands on sets. A part is a member, and its value is empty.

use super::call::{Call, all_elements, asked_count, integer, reply_elements, reply_len};
use super::random::{choose, choose_signed};
use crate::fault::{Done, Fault};
use crate::layout::{Event, Header, Kind};
use crate::space::Parts;
use std::collections::BTreeSet;

const SET: Kind = Kind::Set;

fn members(call: &Call, key: &[u8]) -> Done<Vec<Vec<u8>>> {
    let Some(header) = call.space.collection(key, SET)? else { return Ok(Vec::new()) };
    members_of(call, &header)
}

fn members_of(call: &Call, header: &Header) -> Done<Vec<Vec<u8>>> {
    Ok(all_elements(call, header)?.into_iter().map(|(member, _)| member).collect())
}

fn reply(call: &mut Call, members: &[Vec<u8>]) -> Done {
    call.out.set(members.len());
    members.iter().try_for_each(|member| {
        call.out.bulk(member);
        call.check_reply()
    })
}

/// Adds a member if it is new, and returns whether it was.
fn add(call: &mut Call, header: &mut Header, member: &[u8]) -> Done<bool> {
    let is_new = call.space.element(header, member)?.is_none();
    if is_new {
        call.space.put_element(header, member, b"")?;
        header.count += 1;
    }
    Ok(is_new)
}

/// Removes a member if it exists, and returns whether it did.
fn remove(call: &mut Call, header: &mut Header, member: &[u8]) -> Done<bool> {
    let exists = call.space.element(header, member)?.is_some();
    if exists {
        call.space.delete_element(header, member)?;
        header.count = header.count.saturating_sub(1);
    }
    Ok(exists)
}

pub fn sadd(call: &mut Call) -> Done {
    let key = call.word(1);
    let mut header = call.space.collection_or_new(key, SET)?;
    let mut added = 0;
    for member in call.from(2) {
        added += usize::from(add(call, &mut header, member)?);
    }
    if added > 0 {
        call.space.save(key, &header, Event::SAdd)?;
    }
    call.out.count(added);
    Ok(())
}

pub fn srem(call: &mut Call) -> Done {
    let key = call.word(1);
    let mut removed = 0;
    if let Some(mut header) = call.space.collection_to_write(key, SET)? {
        for member in call.from(2) {
            removed += usize::from(remove(call, &mut header, member)?);
        }
        if removed > 0 {
            call.space.save(key, &header, Event::SRem)?;
        }
    }
    call.out.count(removed);
    Ok(())
}

fn is_member(call: &Call, header: Option<&Header>, member: &[u8]) -> Done<bool> {
    let Some(header) = header else { return Ok(false) };
    Ok(call.space.element(header, member)?.is_some())
}

pub fn sismember(call: &mut Call) -> Done {
    let header = call.space.collection(call.word(1), SET)?;
    let is_member = is_member(call, header.as_ref(), call.word(2))?;
    call.out.flag(is_member);
    Ok(())
}

pub fn smismember(call: &mut Call) -> Done {
    let header = call.space.collection(call.word(1), SET)?;
    call.out.array(call.len() - 2);
    for member in call.from(2) {
        let is_member = is_member(call, header.as_ref(), member)?;
        call.out.flag(is_member);
    }
    Ok(())
}

pub fn smembers(call: &mut Call) -> Done {
    let Some(header) = call.space.collection(call.word(1), SET)? else {
        call.out.set(0);
        return Ok(());
    };
    call.out.set(header.count as usize);
    reply_elements(call, &header, &Parts::ALL, header.count, |out, member, _| out.bulk(member))
}

pub fn scard(call: &mut Call) -> Done {
    reply_len(call, SET)
}

pub fn spop(call: &mut Call) -> Done {
    let most = asked_count(call)?;
    let key = call.word(1);
    let mut popped = Vec::new();
    if let Some(mut header) = call.space.collection_to_write(key, SET)? {
        let mut members = members_of(call, &header)?;
        for at in choose(
            call.space,
            members.len(),
            most.map_or(1, |most| usize::try_from(most).unwrap_or(usize::MAX)),
        ) {
            remove(call, &mut header, &members[at])?;
            popped.push(std::mem::take(&mut members[at]));
        }
        if !popped.is_empty() {
            call.space.save(key, &header, Event::SPop)?;
        }
    }
    match most {
        Some(_) => reply(call, &popped),
        None => {
            call.out.bulk_or_null(popped.first().map(Vec::as_slice));
            Ok(())
        }
    }
}

pub fn srandmember(call: &mut Call) -> Done {
    let members = members(call, call.word(1))?;
    match call.len() {
        2 => {
            let chosen = choose(call.space, members.len(), 1);
            call.out.bulk_or_null(chosen.first().map(|&at| &members[at][..]));
        }
        3 => {
            let chosen = choose_signed(call.space, members.len(), call.integer(2)?)?;
            call.out.array(chosen.len());
            for at in chosen {
                call.out.bulk(&members[at]);
                call.check_reply()?;
            }
        }
        _ => return Err(Fault::SYNTAX),
    }
    Ok(())
}

pub fn smove(call: &mut Call) -> Done {
    let (from, to, member) = (call.word(1), call.word(2), call.word(3));
    let source = call.space.collection_to_write(from, SET)?;
    let target = call.space.collection_to_write(to, SET)?;
    let mut is_moved = false;
    if let Some(mut source) = source {
        is_moved = is_member(call, Some(&source), member)?;
        if is_moved && from != to {
            remove(call, &mut source, member)?;
            call.space.save(from, &source, Event::SRem)?;
            let mut target = match target {
                Some(target) => target,
                None => call.space.new_collection(SET)?,
            };
            if add(call, &mut target, member)? {
                call.space.save(to, &target, Event::SAdd)?;
            }
        }
    }
    call.out.flag(is_moved);
    Ok(())
}

/// How several sets are combined.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Combine {
    Intersect,
    Unite,
    Subtract,
}

fn combine<'k>(call: &Call, keys: impl Iterator<Item = &'k [u8]>, how: Combine) -> Done<Vec<Vec<u8>>> {
    let mut result: BTreeSet<Vec<u8>> = BTreeSet::new();
    for (at, key) in keys.enumerate() {
        let header = call.space.collection(key, SET)?;
        let mut common = BTreeSet::new();
        if let Some(header) = &header {
            call.space.each_element(header, &Parts::ALL, |member, _| {
                match how {
                    Combine::Subtract if at > 0 => drop(result.remove(member)),
                    Combine::Intersect if at > 0 => common.extend(result.take(member)),
                    _ if result.contains(member) => {}
                    _ => {
                        call.charge(member.len())?;
                        result.insert(member.to_vec());
                    }
                }
                Ok(true)
            })?;
        }
        if how == Combine::Intersect && at > 0 {
            result = common;
        }
    }
    Ok(result.into_iter().collect())
}

fn show(call: &mut Call, how: Combine) -> Done {
    let members = combine(call, call.from(1), how)?;
    reply(call, &members)
}

fn store(call: &mut Call, how: Combine) -> Done {
    let members = combine(call, call.from(2), how)?;
    let key = call.word(1);
    call.space.remove(key)?;
    let mut header = call.space.new_collection(SET)?;
    header.count = members.len() as u64;
    for member in &members {
        call.space.put_element(&header, member, b"")?;
    }
    if header.count > 0 {
        call.space.save(key, &header, Event::SStore)?;
    }
    call.out.count(members.len());
    Ok(())
}

pub fn sinter(call: &mut Call) -> Done {
    show(call, Combine::Intersect)
}

pub fn sunion(call: &mut Call) -> Done {
    show(call, Combine::Unite)
}

pub fn sdiff(call: &mut Call) -> Done {
    show(call, Combine::Subtract)
}

pub fn sinterstore(call: &mut Call) -> Done {
    store(call, Combine::Intersect)
}

pub fn sunionstore(call: &mut Call) -> Done {
    store(call, Combine::Unite)
}

pub fn sdiffstore(call: &mut Call) -> Done {
    store(call, Combine::Subtract)
}

pub fn sintercard(call: &mut Call) -> Done {
    let (keys, next) = super::call::counted_keys(call, 1)?;
    let limit = match call.len() - next {
        0 => 0,
        2 if call.is(next, "limit") => usize::try_from(integer(call.word(next + 1))?)
            .map_err(|_| Fault::fixed("ERR LIMIT can't be negative"))?,
        _ => return Err(Fault::SYNTAX),
    };
    let count = combine(call, keys.into_iter(), Combine::Intersect)?.len();
    call.out.count(if limit == 0 { count } else { count.min(limit) });
    Ok(())
}
