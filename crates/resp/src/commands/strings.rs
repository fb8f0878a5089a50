//! Commands on strings.

use super::call::{Call, float, integer};
use super::expiry::{Unit, moment};
use crate::fault::{Done, Fault};
use crate::layout::{Event, Header};
use crate::space::Entry;
use crate::wire::numbers::{parse_f64, parse_i64, show_f64};

pub fn get(call: &mut Call) -> Done {
    let (key, out) = (call.word(1), &mut *call.out);
    call.space.with_string(key, |value| out.bulk_or_null(value))
}

pub fn mget(call: &mut Call) -> Done {
    call.out.array(call.len() - 1);
    for key in call.from(1) {
        let out = &mut *call.out;
        match call.space.with_string(key, |value| out.bulk_or_null(value)) {
            Err(Fault::Reply(_)) => call.out.null(),
            done => done?,
        }
        call.check_reply()?;
    }
    Ok(())
}

/// The options of SET and GETEX.
#[derive(Default)]
struct Options {
    if_absent: bool,
    if_present: bool,
    get: bool,
    keeps_expiry: bool,
    persist: bool,
    expires_ms: Option<u64>,
}

fn options(call: &Call, first: usize, is_set: bool) -> Done<Options> {
    let mut options = Options::default();
    let mut at = first;
    while at < call.len() {
        let unit = Unit::of_option(call.word(at));
        let has_expiry = options.expires_ms.is_some() || options.keeps_expiry || options.persist;
        if let Some(unit) = unit.filter(|_| !has_expiry && at + 1 < call.len()) {
            let name = if is_set { "set" } else { "getex" };
            options.expires_ms = Some(moment(call, unit, call.word(at + 1), name)?);
            at += 1;
        } else if is_set && call.is(at, "nx") && !options.if_present {
            options.if_absent = true;
        } else if is_set && call.is(at, "xx") && !options.if_absent {
            options.if_present = true;
        } else if is_set && call.is(at, "get") {
            options.get = true;
        } else if is_set && call.is(at, "keepttl") && !has_expiry {
            options.keeps_expiry = true;
        } else if !is_set && call.is(at, "persist") && !has_expiry {
            options.persist = true;
        } else {
            return Err(Fault::SYNTAX);
        }
        at += 1;
    }
    Ok(options)
}

pub fn set(call: &mut Call) -> Done {
    let options = options(call, 3, true)?;
    let (key, value) = (call.word(1), call.word(2));
    let old = call.space.find_to_write(key)?;
    if options.get {
        let value = old.as_ref().map(|old| old.string()).transpose()?;
        call.out.bulk_or_null(value);
    }
    if (options.if_absent && old.is_some()) || (options.if_present && old.is_none()) {
        if !options.get {
            call.out.null();
        }
        return Ok(());
    }
    let old = old.as_ref().map(|old| &old.header);
    let kept = old.filter(|_| options.keeps_expiry).map_or(0, |old| old.expires_ms);
    let expires_ms = options.expires_ms.unwrap_or(kept);
    call.space.put_string(key, value, expires_ms, old, Event::Set)?;
    if !options.get {
        call.out.ok();
    }
    Ok(())
}

pub fn getex(call: &mut Call) -> Done {
    let options = options(call, 2, false)?;
    let key = call.word(1);
    let Some(old) = call.space.find_to_write(key)? else {
        call.out.null();
        return Ok(());
    };
    call.out.bulk(old.string()?);
    let event = if options.persist { Event::Persist } else { Event::Expire };
    let expires_ms = if options.persist { Some(0) } else { options.expires_ms };
    match expires_ms.filter(|&expires_ms| expires_ms != old.header.expires_ms) {
        Some(expires_ms) => call.space.put_entry(key, &old, expires_ms, old.header.indexed_ms, event),
        None => Ok(()),
    }
}

pub fn getdel(call: &mut Call) -> Done {
    let key = call.word(1);
    let old = call.space.find_to_write(key)?;
    let value = old.as_ref().map(|old| old.string()).transpose()?;
    call.out.bulk_or_null(value);
    if let Some(old) = &old {
        call.space.erase(key, &old.header)?;
    }
    Ok(())
}

pub fn getset(call: &mut Call) -> Done {
    let key = call.word(1);
    let old = call.space.find_to_write(key)?;
    let value = old.as_ref().map(|old| old.string()).transpose()?;
    call.out.bulk_or_null(value);
    call.space.put_string(key, call.word(2), 0, old.as_ref().map(|old| &old.header), Event::Set)
}

pub fn setnx(call: &mut Call) -> Done {
    let key = call.word(1);
    let is_new = call.space.find_to_write(key)?.is_none();
    if is_new {
        call.space.put_string(key, call.word(2), 0, None, Event::Set)?;
    }
    call.out.flag(is_new);
    Ok(())
}

fn set_with_expiry(call: &mut Call, unit: Unit, name: &str) -> Done {
    let key = call.word(1);
    let expires_ms = moment(call, unit, call.word(2), name)?;
    let old = call.space.find_to_write(key)?;
    let old = old.as_ref().map(|old| &old.header);
    call.space.put_string(key, call.word(3), expires_ms, old, Event::Set)?;
    call.out.ok();
    Ok(())
}

pub fn setex(call: &mut Call) -> Done {
    set_with_expiry(call, Unit::SECONDS, "setex")
}

pub fn psetex(call: &mut Call) -> Done {
    set_with_expiry(call, Unit::MILLISECONDS, "psetex")
}

fn set_all(call: &mut Call) -> Done {
    for at in (1..call.len()).step_by(2) {
        let key = call.word(at);
        let old = call.space.find_to_write(key)?;
        let old = old.as_ref().map(|old| &old.header);
        call.space.put_string(key, call.word(at + 1), 0, old, Event::Set)?;
    }
    Ok(())
}

fn check_pairs(call: &Call, name: &str) -> Done {
    if call.len().is_multiple_of(2) {
        return Err(Fault::wrong_arity(name));
    }
    Ok(())
}

pub fn mset(call: &mut Call) -> Done {
    check_pairs(call, "mset")?;
    set_all(call)?;
    call.out.ok();
    Ok(())
}

pub fn msetnx(call: &mut Call) -> Done {
    check_pairs(call, "msetnx")?;
    for at in (1..call.len()).step_by(2) {
        if call.space.find(call.word(at))?.is_some() {
            call.out.integer(0);
            return Ok(());
        }
    }
    set_all(call)?;
    call.out.integer(1);
    Ok(())
}

/// Returns the header of what a key held, and the expiry that it keeps.
pub fn kept(old: &Option<Entry>) -> (Option<&Header>, u64) {
    let header = old.as_ref().map(|old| &old.header);
    (header, header.map_or(0, |header| header.expires_ms))
}

fn increase(call: &mut Call, by: i64) -> Done {
    let key = call.word(1);
    let old = call.space.find_to_write(key)?;
    let number = match &old {
        Some(old) => parse_i64(old.string()?).ok_or(Fault::NOT_INTEGER)?,
        None => 0,
    };
    let number = number.checked_add(by).ok_or(Fault::fixed("ERR increment or decrement would overflow"))?;
    let (old, expires_ms) = kept(&old);
    call.space.put_string(key, number.to_string().as_bytes(), expires_ms, old, Event::IncrBy)?;
    call.out.integer(number);
    Ok(())
}

pub fn incr(call: &mut Call) -> Done {
    increase(call, 1)
}

pub fn decr(call: &mut Call) -> Done {
    increase(call, -1)
}

pub fn incrby(call: &mut Call) -> Done {
    increase(call, call.integer(2)?)
}

pub fn decrby(call: &mut Call) -> Done {
    let by = call.integer(2)?.checked_neg().ok_or(Fault::fixed("ERR decrement would overflow"))?;
    increase(call, by)
}

/// Returns the sum, which must be finite.
pub fn finite_sum(number: f64, by: f64) -> Done<f64> {
    let sum = number + by;
    if sum.is_finite() { Ok(sum) } else { Err(Fault::fixed("ERR increment would produce NaN or Infinity")) }
}

pub fn incrbyfloat(call: &mut Call) -> Done {
    let (key, by) = (call.word(1), float(call.word(2))?);
    let old = call.space.find_to_write(key)?;
    let number = match &old {
        Some(old) => parse_f64(old.string()?).ok_or(Fault::NOT_FLOAT)?,
        None => 0.0,
    };
    let text = show_f64(finite_sum(number, by)?);
    let (old, expires_ms) = kept(&old);
    call.space.put_string(key, text.as_bytes(), expires_ms, old, Event::IncrByFloat)?;
    call.out.bulk(text.as_bytes());
    Ok(())
}

pub fn append(call: &mut Call) -> Done {
    let (key, more) = (call.word(1), call.word(2));
    let old = call.space.find_to_write(key)?;
    let before = old.as_ref().map(|old| old.string()).transpose()?.unwrap_or_default();
    call.check_length(before.len() + more.len())?;
    let value = [before, more].concat();
    let (old, expires_ms) = kept(&old);
    call.space.put_string(key, &value, expires_ms, old, Event::Append)?;
    call.out.count(value.len());
    Ok(())
}

pub fn strlen(call: &mut Call) -> Done {
    let (key, out) = (call.word(1), &mut *call.out);
    call.space.with_string(key, |value| out.count(value.map_or(0, <[u8]>::len)))
}

pub fn getrange(call: &mut Call) -> Done {
    let (start, stop) = (call.integer(2)?, call.integer(3)?);
    let (key, out) = (call.word(1), &mut *call.out);
    call.space.with_string(key, |value| {
        let value = value.unwrap_or_default();
        let (start, end) = super::call::bounds(start, stop, value.len() as u64);
        out.bulk(&value[start as usize..end as usize]);
    })
}

pub fn setrange(call: &mut Call) -> Done {
    let (key, offset, piece) = (call.word(1), integer(call.word(2))?, call.word(3));
    let offset = usize::try_from(offset).map_err(|_| Fault::fixed("ERR offset is out of range"))?;
    let old = call.space.find_to_write(key)?;
    let before = old.as_ref().map(|old| old.string()).transpose()?.unwrap_or_default();
    if piece.is_empty() {
        call.out.count(before.len());
        return Ok(());
    }
    let end = offset.saturating_add(piece.len());
    call.check_length(end)?;
    let mut value = before.to_vec();
    value.resize(value.len().max(end), 0);
    value[offset..end].copy_from_slice(piece);
    let (old, expires_ms) = kept(&old);
    call.space.put_string(key, &value, expires_ms, old, Event::SetRange)?;
    call.out.count(value.len());
    Ok(())
}
