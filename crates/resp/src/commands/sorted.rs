//! Commands on sorted sets. Each member has two elements: under [`MEMBERS`] and the member, its score; under
//! [`SCORES`], its score as a key and the member, nothing. The second are in the order of the scores, and of the
//! members where the scores are equal.

use super::call::{Call, float, reply_len};
use crate::fault::{Done, Fault};
use crate::layout::{Event, Header, Kind};
use crate::wire::numbers::{key_score, score_key};
use crate::wire::reply::Protocol;

/// The type of these keys.
pub const SORTED: Kind = Kind::Sorted;
/// The first byte of a part with a member.
pub const MEMBERS: &[u8] = &[0];
/// The first byte of a part with a score.
pub const SCORES: &[u8] = &[1];

/// A member and its score.
pub type Scored = (Vec<u8>, f64);

/// Returns the part of a member.
pub fn member_part(member: &[u8]) -> Vec<u8> {
    [MEMBERS, member].concat()
}

fn score_part(score: f64, member: &[u8]) -> Vec<u8> {
    [SCORES, &score_key(score)[..], member].concat()
}

/// Returns the score that the value of a member's element holds.
pub fn stored_score(value: &[u8]) -> Done<f64> {
    let key = <[u8; 8]>::try_from(value);
    key.map(key_score).map_err(|_| Fault::Database(pando::Error::corruption("a score does not have 8 bytes")))
}

/// Returns the member and the score of a part with a score.
pub fn parse_score_part(part: &[u8]) -> Option<(&[u8], f64)> {
    let (key, member) = part.get(1..)?.split_first_chunk()?;
    Some((member, key_score(*key)))
}

pub fn score_of(call: &Call, header: &Header, member: &[u8]) -> Done<Option<f64>> {
    call.space.element(header, &member_part(member))?.map(|value| stored_score(&value)).transpose()
}

/// Sets the score of a member; `old` is the one that it has.
pub fn put(call: &mut Call, header: &mut Header, member: &[u8], old: Option<f64>, score: f64) -> Done {
    match old {
        Some(old) => call.space.delete_element(header, &score_part(old, member))?,
        None => header.count += 1,
    }
    call.space.put_element(header, &member_part(member), &score_key(score))?;
    call.space.put_element(header, &score_part(score, member), b"")
}

/// Removes a member with its score.
pub fn remove(call: &mut Call, header: &mut Header, member: &[u8], score: f64) -> Done {
    call.space.delete_element(header, &member_part(member))?;
    call.space.delete_element(header, &score_part(score, member))?;
    header.count = header.count.saturating_sub(1);
    Ok(())
}

pub fn zadd(call: &mut Call) -> Done {
    let (mut nx, mut xx, mut gt, mut lt, mut ch, mut incr) = (false, false, false, false, false, false);
    let mut at = 2;
    while at < call.len() {
        match call.word(at).to_ascii_lowercase().as_slice() {
            b"nx" => nx = true,
            b"xx" => xx = true,
            b"gt" => gt = true,
            b"lt" => lt = true,
            b"ch" => ch = true,
            b"incr" => incr = true,
            _ => break,
        }
        at += 1;
    }
    let pairs = call.len() - at;
    if pairs == 0 || pairs % 2 == 1 {
        return Err(Fault::SYNTAX);
    }
    if nx && xx {
        return Err(Fault::fixed("ERR XX and NX options at the same time are not compatible"));
    }
    if (gt && lt) || (nx && (gt || lt)) {
        return Err(Fault::fixed("ERR GT, LT, and/or NX options at the same time are not compatible"));
    }
    if incr && pairs != 2 {
        return Err(Fault::fixed("ERR INCR option supports a single increment-element pair"));
    }
    let scores: Vec<f64> = call.from(at).step_by(2).map(float).collect::<Done<_>>()?;
    let key = call.word(1);
    let mut header = call.space.collection_or_new(key, SORTED)?;
    let (mut added, mut changed, mut last) = (0, 0, None);
    for (score, member) in scores.into_iter().zip(call.from(at + 1).step_by(2)) {
        let old = score_of(call, &header, member)?;
        let score = if incr { sum(old.unwrap_or(0.0), score)? } else { score };
        let is_refused = match old {
            None => xx,
            Some(old) => nx || (gt && score <= old) || (lt && score >= old),
        };
        if is_refused {
            continue;
        }
        last = Some(score);
        if old != Some(score) {
            put(call, &mut header, member, old, score)?;
            added += usize::from(old.is_none());
            changed += usize::from(old.is_some());
        }
    }
    if added + changed > 0 {
        call.space.save(key, &header, if incr { Event::ZIncr } else { Event::ZAdd })?;
    }
    match (incr, last) {
        (true, Some(score)) => call.out.double(score),
        (true, None) => call.out.null(),
        (false, _) => call.out.count(if ch { added + changed } else { added }),
    }
    Ok(())
}

fn sum(score: f64, by: f64) -> Done<f64> {
    let sum = score + by;
    if sum.is_nan() { Err(Fault::fixed("ERR resulting score is not a number (NaN)")) } else { Ok(sum) }
}

pub fn zincrby(call: &mut Call) -> Done {
    let (key, by, member) = (call.word(1), float(call.word(2))?, call.word(3));
    let mut header = call.space.collection_or_new(key, SORTED)?;
    let old = score_of(call, &header, member)?;
    let score = sum(old.unwrap_or(0.0), by)?;
    put(call, &mut header, member, old, score)?;
    call.space.save(key, &header, Event::ZIncr)?;
    call.out.double(score);
    Ok(())
}

pub fn zrem(call: &mut Call) -> Done {
    let key = call.word(1);
    let mut removed = 0;
    if let Some(mut header) = call.space.collection_to_write(key, SORTED)? {
        for member in call.from(2) {
            if let Some(score) = score_of(call, &header, member)? {
                remove(call, &mut header, member, score)?;
                removed += 1;
            }
        }
        if removed > 0 {
            call.space.save(key, &header, Event::ZRem)?;
        }
    }
    call.out.count(removed);
    Ok(())
}

fn reply_score(call: &mut Call, header: Option<&Header>, member: &[u8]) -> Done {
    let score = match header {
        Some(header) => score_of(call, header, member)?,
        None => None,
    };
    match score {
        Some(score) => call.out.double(score),
        None => call.out.null(),
    }
    Ok(())
}

pub fn zscore(call: &mut Call) -> Done {
    let header = call.space.collection(call.word(1), SORTED)?;
    reply_score(call, header.as_ref(), call.word(2))
}

pub fn zmscore(call: &mut Call) -> Done {
    let header = call.space.collection(call.word(1), SORTED)?;
    call.out.array(call.len() - 2);
    call.from(2).try_for_each(|member| reply_score(call, header.as_ref(), member))
}

pub fn zcard(call: &mut Call) -> Done {
    reply_len(call, SORTED)
}

pub fn reply_scored(call: &mut Call, found: &[Scored], has_scores: bool) -> Done {
    let is_nested = has_scores && call.out.protocol == Protocol::Resp3;
    call.out.array(found.len() * if has_scores && !is_nested { 2 } else { 1 });
    for (member, score) in found {
        if is_nested {
            call.out.array(2);
        }
        call.out.bulk(member);
        if has_scores {
            call.out.double(*score);
        }
        call.check_reply()?;
    }
    Ok(())
}
