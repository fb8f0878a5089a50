//! Unions and intersections of sorted sets.

use super::call::{Call, all_elements, counted_keys, float};
use super::sorted::{MEMBERS, Scored, put, reply_scored, stored_score};
use crate::fault::{Done, Fault};
use crate::layout::{Event, Kind};
use std::collections::HashMap;

/// Returns the scores of a set or a sorted set. A member of a set has the score 1.
fn scores(call: &Call, key: &[u8]) -> Done<Vec<Scored>> {
    let Some(entry) = call.space.find(key)? else { return Ok(Vec::new()) };
    match entry.header.kind {
        Kind::Set => {
            let all = all_elements(call.space, &entry.header, b"")?;
            Ok(all.into_iter().map(|(member, _)| (member, 1.0)).collect())
        }
        Kind::Sorted => {
            let all = all_elements(call.space, &entry.header, MEMBERS)?;
            all.into_iter().map(|(member, score)| Ok((member, stored_score(&score)?))).collect()
        }
        _ => Err(Fault::WRONG_TYPE),
    }
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
        for (member, score) in scores(call, key)? {
            let weighted = score * weight;
            let weighted = if weighted.is_nan() { 0.0 } else { weighted };
            let sum = found.entry(member).or_insert((weighted, 0));
            if sum.1 > 0 {
                sum.0 = aggregate(sum.0, weighted);
            }
            sum.1 += 1;
        }
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
