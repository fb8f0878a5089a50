//! Ranges of sorted sets: by place, by score and by member.

use super::call::{Call, bounds};
use super::sorted::{
    MEMBERS, SCORES, SORTED, Scored, member_part, parse_score_part, remove, reply_scored, score_of,
    stored_score,
};
use crate::fault::{Done, Fault};
use crate::layout::{Event, Header};
use crate::space::Parts;
use crate::wire::numbers::{parse_f64, score_key};
use std::ops::Bound;

/// Which members a command is about.
pub enum Span {
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
            each(member, score)
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
            // All members are supposed to have the same score, so that the order of the members is that of the range.
            Span::Names(start, end) => {
                let part = |bound: &Bound<Vec<u8>>| bound.as_ref().map(|member| member_part(member));
                let (start, end) = (part(start), part(end));
                let span = Parts {
                    prefix: MEMBERS,
                    start: start.as_ref().map(|part| &part[..]),
                    end: end.as_ref().map(|part| &part[..]),
                    backwards,
                };
                call.space.each_element(header, &span, |part, value| each(&part[1..], stored_score(value)?))
            }
        }
    }

    /// Returns the members of the span in order, or backwards.
    pub fn collect(&self, call: &Call, header: &Header, backwards: bool, limit: Limit) -> Done<Vec<Scored>> {
        let (mut found, mut skipped) = (Vec::new(), 0);
        if limit.count == 0 {
            return Ok(found);
        }
        self.each(call, header, backwards, |member, score| {
            if skipped < limit.offset {
                skipped += 1;
                return Ok(true);
            }
            call.charge(member.len())?;
            found.push((member.to_vec(), score));
            Ok(found.len() as u64 != limit.count)
        })?;
        Ok(found)
    }
}

/// LIMIT of a range.
#[derive(Clone, Copy)]
pub struct Limit {
    /// The number of members that are left out first.
    pub offset: u64,
    /// The largest number of members.
    pub count: u64,
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
    let (limit, has_scores) = range_options(call, 4, true)?;
    if has_scores {
        return Err(Fault::SYNTAX);
    }
    let span = Span::names(call, 2, 3)?;
    reply_span(call, &span, false, limit, false)
}

pub fn zrevrangebylex(call: &mut Call) -> Done {
    let (limit, has_scores) = range_options(call, 4, true)?;
    if has_scores {
        return Err(Fault::SYNTAX);
    }
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
