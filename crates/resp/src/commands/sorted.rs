//! Commands on sorted sets. Each member has two elements: under [`MEMBERS`] and the member, its score; under
//! [`SCORES`], its score as a key and the member, nothing. The second are in the order of the scores, and of the
//! members where the scores are equal.

use super::call::{Call, bounds, counted_keys, float, popped_count};
use crate::fault::{Done, Fault};
use crate::layout::{Event, Header, Kind};
use crate::space::Parts;
use crate::wire::numbers::{key_score, parse_f64, score_key};
use crate::wire::reply::Protocol;
use std::ops::Bound;

const SORTED: Kind = Kind::Sorted;
/// The first byte of a part with a member.
pub const MEMBERS: &[u8] = &[0];
/// The first byte of a part with a score.
pub const SCORES: &[u8] = &[1];

/// A member and its score.
pub type Scored = (Vec<u8>, f64);

fn member_part(member: &[u8]) -> Vec<u8> {
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
fn parse_score_part(part: &[u8]) -> Option<Scored> {
    let (key, member) = part.get(1..)?.split_first_chunk()?;
    Some((member.to_vec(), key_score(*key)))
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

fn remove(call: &mut Call, header: &mut Header, member: &[u8], score: f64) -> Done {
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
    let header = call.space.collection(call.word(1), SORTED)?;
    call.out.integer(header.map_or(0, |header| header.count as i64));
    Ok(())
}

/// Which members a command is about.
enum Span {
    Places(i64, i64),
    Scores(Bound<f64>, Bound<f64>),
    Names(Bound<Vec<u8>>, Bound<Vec<u8>>),
}

fn score_bound(word: &[u8]) -> Done<Bound<f64>> {
    let number = |word| parse_f64(word).ok_or(Fault::fixed("ERR min or max is not a float"));
    match word.strip_prefix(b"(") {
        Some(rest) => number(rest).map(Bound::Excluded),
        None => number(word).map(Bound::Included),
    }
}

/// Returns a bound of members.
fn name_bound(word: &[u8]) -> Done<Bound<Vec<u8>>> {
    match word {
        b"-" | b"+" => Ok(Bound::Unbounded),
        [b'[', rest @ ..] => Ok(Bound::Included(rest.to_vec())),
        [b'(', rest @ ..] => Ok(Bound::Excluded(rest.to_vec())),
        _ => Err(Fault::fixed("ERR min or max not valid string range item")),
    }
}

impl Span {
    fn places(call: &Call, at: usize) -> Done<Self> {
        Ok(Span::Places(call.integer(at)?, call.integer(at + 1)?))
    }

    /// Reads the bounds at two places; those of a command that goes backwards name the end first.
    fn scores(call: &Call, start: usize, end: usize) -> Done<Self> {
        Ok(Span::Scores(score_bound(call.word(start))?, score_bound(call.word(end))?))
    }

    fn names(call: &Call, start: usize, end: usize) -> Done<Self> {
        let (start, end) = (call.word(start), call.word(end));
        let bounds = (name_bound(start)?, name_bound(end)?);
        // Nothing is after the largest member, or before the smallest.
        let is_empty = start == b"+" || end == b"-";
        Ok(if is_empty { Span::Places(1, 0) } else { Span::Names(bounds.0, bounds.1) })
    }

    /// Calls `each` on the members of the span in order, or backwards, until it returns false.
    fn each(
        &self,
        call: &Call,
        header: &Header,
        backwards: bool,
        mut each: impl FnMut(&[u8], f64) -> Done<bool>,
    ) -> Done {
        let mut visit = |part: &[u8], _: &[u8]| {
            let found = parse_score_part(part);
            let corrupt = || Fault::Database(pando::Error::corruption("a part of a sorted set has no score"));
            let (member, score) = found.ok_or_else(corrupt)?;
            each(&member, score)
        };
        let all = Parts { prefix: SCORES, backwards, ..Parts::ALL };
        match self {
            Span::Places(start, stop) => {
                let (start, end) = bounds(*start, *stop, header.count);
                let mut at = 0;
                call.space.each_element(header, &all, |part, value| {
                    let is_in = (start..end).contains(&at);
                    at += 1;
                    if is_in && !visit(part, value)? {
                        return Ok(false);
                    }
                    Ok(at < end)
                })
            }
            Span::Scores(start, end) => {
                // A score is a prefix of the parts that have it.
                let part = |score: f64, is_after: bool| {
                    let mut part = [SCORES, &score_key(score)[..]].concat();
                    if is_after {
                        part = pando::keys::prefix_end(&part).unwrap_or(part);
                    }
                    part
                };
                let start = match *start {
                    Bound::Included(score) => part(score, false),
                    Bound::Excluded(score) => part(score, true),
                    Bound::Unbounded => SCORES.to_vec(),
                };
                let end = match *end {
                    Bound::Included(score) => part(score, true),
                    Bound::Excluded(score) => part(score, false),
                    Bound::Unbounded => vec![SCORES[0] + 1],
                };
                if start >= end {
                    return Ok(());
                }
                let span = Parts { start: Bound::Included(&start), end: Bound::Excluded(&end), ..all };
                call.space.each_element(header, &span, visit)
            }
            // All members are supposed to have the same score, so that both orders are the same.
            Span::Names(start, end) => call.space.each_element(header, &all, |part, value| {
                let member = part.get(9..).unwrap_or_default();
                let is_after_start = match start {
                    Bound::Included(start) => member >= &start[..],
                    Bound::Excluded(start) => member > &start[..],
                    Bound::Unbounded => true,
                };
                let is_before_end = match end {
                    Bound::Included(end) => member <= &end[..],
                    Bound::Excluded(end) => member < &end[..],
                    Bound::Unbounded => true,
                };
                if is_after_start && is_before_end { visit(part, value) } else { Ok(true) }
            }),
        }
    }

    fn collect(&self, call: &Call, header: &Header, backwards: bool, limit: Limit) -> Done<Vec<Scored>> {
        let (mut found, mut skipped, mut bytes) = (Vec::new(), 0, 0);
        if limit.count == 0 {
            return Ok(found);
        }
        self.each(call, header, backwards, |member, score| {
            if skipped < limit.offset {
                skipped += 1;
                return Ok(true);
            }
            bytes += member.len() + 64;
            found.push((member.to_vec(), score));
            if bytes > 512 << 20 { Err(Fault::TOO_LONG_REPLY) } else { Ok(found.len() as u64 != limit.count) }
        })?;
        Ok(found)
    }
}

/// LIMIT of a range.
#[derive(Clone, Copy)]
struct Limit {
    offset: u64,
    count: u64,
}

impl Limit {
    const NONE: Limit = Limit { offset: 0, count: u64::MAX };

    fn parse(call: &Call, at: usize) -> Done<Self> {
        let (offset, count) = (call.integer(at)?, call.integer(at + 1)?);
        Ok(match u64::try_from(offset) {
            Ok(offset) => Limit { offset, count: u64::try_from(count).unwrap_or(u64::MAX) },
            Err(_) => Limit { offset: 0, count: 0 },
        })
    }
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

fn reply_span(call: &mut Call, span: &Span, backwards: bool, limit: Limit, has_scores: bool) -> Done {
    let found = match call.space.collection(call.word(1), SORTED)? {
        Some(header) => span.collect(call, &header, backwards, limit)?,
        None => Vec::new(),
    };
    reply_scored(call, &found, has_scores)
}

/// Reads WITHSCORES and LIMIT from the word at `at` on.
fn range_options(call: &Call, mut at: usize, allows_limit: bool) -> Done<(Limit, bool)> {
    let (mut limit, mut has_scores) = (Limit::NONE, false);
    while at < call.len() {
        if call.is(at, "withscores") {
            has_scores = true;
            at += 1;
        } else if allows_limit && call.is(at, "limit") && at + 2 < call.len() {
            limit = Limit::parse(call, at + 1)?;
            at += 3;
        } else {
            return Err(Fault::SYNTAX);
        }
    }
    Ok((limit, has_scores))
}

pub fn zrange(call: &mut Call) -> Done {
    let (mut by_score, mut by_name, mut backwards, mut has_scores) = (false, false, false, false);
    let mut limit = None;
    let mut at = 4;
    while at < call.len() {
        if call.is(at, "byscore") {
            by_score = true;
        } else if call.is(at, "bylex") {
            by_name = true;
        } else if call.is(at, "rev") {
            backwards = true;
        } else if call.is(at, "withscores") {
            has_scores = true;
        } else if call.is(at, "limit") && at + 2 < call.len() {
            limit = Some(Limit::parse(call, at + 1)?);
            at += 2;
        } else {
            return Err(Fault::SYNTAX);
        }
        at += 1;
    }
    if by_name && (by_score || has_scores) {
        return Err(Fault::SYNTAX);
    }
    if limit.is_some() && !by_score && !by_name {
        let text = "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
        return Err(Fault::fixed(text));
    }
    let (start, end) = if backwards { (3, 2) } else { (2, 3) };
    let span = match (by_score, by_name) {
        (true, _) => Span::scores(call, start, end)?,
        (_, true) => Span::names(call, start, end)?,
        _ => Span::places(call, 2)?,
    };
    reply_span(call, &span, backwards, limit.unwrap_or(Limit::NONE), has_scores)
}

pub fn zrevrange(call: &mut Call) -> Done {
    let (_, has_scores) = range_options(call, 4, false)?;
    let span = Span::places(call, 2)?;
    reply_span(call, &span, true, Limit::NONE, has_scores)
}

pub fn zrangebyscore(call: &mut Call) -> Done {
    let (limit, has_scores) = range_options(call, 4, true)?;
    let span = Span::scores(call, 2, 3)?;
    reply_span(call, &span, false, limit, has_scores)
}

pub fn zrevrangebyscore(call: &mut Call) -> Done {
    let (limit, has_scores) = range_options(call, 4, true)?;
    let span = Span::scores(call, 3, 2)?;
    reply_span(call, &span, true, limit, has_scores)
}

pub fn zrangebylex(call: &mut Call) -> Done {
    let (limit, _) = range_options(call, 4, true)?;
    let span = Span::names(call, 2, 3)?;
    reply_span(call, &span, false, limit, false)
}

pub fn zrevrangebylex(call: &mut Call) -> Done {
    let (limit, _) = range_options(call, 4, true)?;
    let span = Span::names(call, 3, 2)?;
    reply_span(call, &span, true, limit, false)
}

fn reply_count(call: &mut Call, span: &Span) -> Done {
    let mut count = 0;
    if let Some(header) = call.space.collection(call.word(1), SORTED)? {
        span.each(call, &header, false, |_, _| {
            count += 1;
            Ok(true)
        })?;
    }
    call.out.integer(count);
    Ok(())
}

pub fn zcount(call: &mut Call) -> Done {
    let span = Span::scores(call, 2, 3)?;
    reply_count(call, &span)
}

pub fn zlexcount(call: &mut Call) -> Done {
    let span = Span::names(call, 2, 3)?;
    reply_count(call, &span)
}

fn reply_rank(call: &mut Call, backwards: bool) -> Done {
    let has_score = match call.len() {
        3 => false,
        4 if call.is(3, "withscore") => true,
        _ => return Err(Fault::SYNTAX),
    };
    let member = call.word(2);
    let header = call.space.collection(call.word(1), SORTED)?;
    let score = match &header {
        Some(header) => score_of(call, header, member)?,
        None => None,
    };
    let (Some(header), Some(score)) = (header, score) else {
        if has_score {
            call.out.null_array()
        } else {
            call.out.null()
        }
        return Ok(());
    };
    let mut rank = 0;
    Span::Places(0, -1).each(call, &header, backwards, |other, _| {
        let is_found = other == member;
        rank += i64::from(!is_found);
        Ok(!is_found)
    })?;
    if has_score {
        call.out.array(2);
        call.out.integer(rank);
        call.out.double(score);
    } else {
        call.out.integer(rank);
    }
    Ok(())
}

pub fn zrank(call: &mut Call) -> Done {
    reply_rank(call, false)
}

pub fn zrevrank(call: &mut Call) -> Done {
    reply_rank(call, true)
}

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

fn remove_span(call: &mut Call, span: &Span) -> Done {
    let key = call.word(1);
    let mut removed = 0;
    if let Some(mut header) = call.space.collection_to_write(key, SORTED)? {
        let found = span.collect(call, &header, false, Limit::NONE)?;
        for (member, score) in &found {
            remove(call, &mut header, member, *score)?;
        }
        removed = found.len();
        if removed > 0 {
            call.space.save(key, &header, Event::ZRem)?;
        }
    }
    call.out.count(removed);
    Ok(())
}

pub fn zremrangebyrank(call: &mut Call) -> Done {
    let span = Span::places(call, 2)?;
    remove_span(call, &span)
}

pub fn zremrangebyscore(call: &mut Call) -> Done {
    let span = Span::scores(call, 2, 3)?;
    remove_span(call, &span)
}

pub fn zremrangebylex(call: &mut Call) -> Done {
    let span = Span::names(call, 2, 3)?;
    remove_span(call, &span)
}
