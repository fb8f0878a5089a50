//! Unions and intersections of sorted sets.

use super::call::{Call, counted_keys, float};
use super::sorted::{MEMBERS, Scored, put, reply_scored, stored_score};
use crate::fault::{Done, Fault};
use crate::layout::{Event, Kind};
use crate::space::Parts;
use std::collections::HashMap;

/// Calls `each` on the members of a set or a sorted set and their scores. A member of a set has the score 1.
fn each_score(call: &Call, key: &[u8], mut each: impl FnMut(&[u8], f64) -> Done) -> Done {
    let Some(entry) = call.space.find(key)? else { return Ok(()) };
    let is_sorted = entry.header.kind == Kind::Sorted;
    if !is_sorted && entry.header.kind != Kind::Set {
        return Err(Fault::WRONG_TYPE);
    }
    let prefix = if is_sorted { MEMBERS } else { b"" };
    call.space.each_element(&entry.header, &Parts { prefix, ..Parts::ALL }, |part, value| {
        let score = if is_sorted { stored_score(value)? } else { 1.0 };
        each(&part[prefix.len()..], score).map(|()| true)
    })
}

/// Combines the sets whose number is the word at `at`. Returns the members in the order of their scores, and whether
/// WITHSCORES was given.
fn combine(call: &Call, at: usize, intersects: bool) -> Done<(Vec<Scored>, bool)> {
    let (keys, mut at) = counted_keys(call, at)?;
    let mut weights = vec![1.0; keys.len()];
    let mut aggregate: fn(f64, f64) -> f64 =
        |one, other| if (one + other).is_nan() { 0.0 } else { one + other };
    let mut has_scores = false;
    while at < call.len() {
        if call.is(at, "weights") && at + keys.len() < call.len() {
            for (weight, word) in weights.iter_mut().zip(call.from(at + 1)) {
                *weight = float(word).map_err(|_| Fault::fixed("ERR weight value is not a float"))?;
            }
            at += keys.len() + 1;
        } else if call.is(at, "aggregate") && at + 1 < call.len() {
            aggregate = match call.word(at + 1).to_ascii_lowercase().as_slice() {
                b"sum" => aggregate,
                b"min" => f64::min,
                b"max" => f64::max,
                _ => return Err(Fault::SYNTAX),
            };
            at += 2;
        } else if call.is(at, "withscores") {
            has_scores = true;
            at += 1;
        } else {
            return Err(Fault::SYNTAX);
        }
    }
    let mut found: HashMap<Vec<u8>, (f64, usize)> = HashMap::new();
    for (key, weight) in keys.iter().zip(&weights) {
        each_score(call, key, |member, score| {
            let weighted = score * weight;
            let weighted = if weighted.is_nan() { 0.0 } else { weighted };
            match found.get_mut(member) {
                Some((sum, times)) => (*sum, *times) = (aggregate(*sum, weighted), *times + 1),
                None => {
                    call.charge(member.len())?;
                    found.insert(member.to_vec(), (weighted, 1));
                }
            }
            Ok(())
        })?;
    }
    let is_in = |times: usize| !intersects || times == keys.len();
    let mut found: Vec<Scored> = found
        .into_iter()
        .filter(|(_, (_, times))| is_in(*times))
        .map(|(member, (score, _))| (member, score))
        .collect();
    found.sort_by(|one, other| one.1.total_cmp(&other.1).then_with(|| one.0.cmp(&other.0)));
    Ok((found, has_scores))
}

fn show(call: &mut Call, intersects: bool) -> Done {
    let (found, has_scores) = combine(call, 1, intersects)?;
    reply_scored(call, &found, has_scores)
}

fn store(call: &mut Call, intersects: bool) -> Done {
    let (found, has_scores) = combine(call, 2, intersects)?;
    if has_scores {
        return Err(Fault::SYNTAX);
    }
    let key = call.word(1);
    call.space.remove(key)?;
    let mut header = call.space.new_collection(Kind::Sorted)?;
    for (member, score) in &found {
        put(call, &mut header, member, None, *score)?;
    }
    if header.count > 0 {
        call.space.save(key, &header, Event::ZStore)?;
    }
    call.out.count(found.len());
    Ok(())
}

pub fn zunion(call: &mut Call) -> Done {
    show(call, false)
}

pub fn zinter(call: &mut Call) -> Done {
    show(call, true)
}

pub fn zunionstore(call: &mut Call) -> Done {
    store(call, false)
}

pub fn zinterstore(call: &mut Call) -> Done {
    store(call, true)
}
