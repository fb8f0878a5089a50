//! Commands on hashes. A part is a field.

use super::call::{Call, all_elements, float, integer, reply_elements, reply_len};
use super::strings::finite_sum;
use crate::fault::{Done, Fault};
use crate::layout::{Event, Header, Kind};
use crate::space::Parts;
use crate::wire::numbers::{parse_f64, parse_i64, show_f64};
use crate::wire::reply::{Out, Protocol};

const HASH: Kind = Kind::Hash;

/// Sets the fields after the key, and returns how many are new.
fn set_fields(call: &mut Call, name: &str) -> Done<usize> {
    if call.len() % 2 == 1 {
        return Err(Fault::wrong_arity(name));
    }
    let key = call.word(1);
    let mut header = call.space.collection_or_new(key, HASH)?;
    let mut new = 0;
    for at in (2..call.len()).step_by(2) {
        let field = call.word(at);
        new += usize::from(call.space.element(&header, field)?.is_none());
        call.space.put_element(&header, field, call.word(at + 1))?;
    }
    header.count += new as u64;
    call.space.save(key, &header, Event::HSet)?;
    Ok(new)
}

pub fn hset(call: &mut Call) -> Done {
    let new = set_fields(call, "hset")?;
    call.out.count(new);
    Ok(())
}

pub fn hmset(call: &mut Call) -> Done {
    set_fields(call, "hmset")?;
    call.out.ok();
    Ok(())
}

pub fn hsetnx(call: &mut Call) -> Done {
    let (key, field) = (call.word(1), call.word(2));
    let mut header = call.space.collection_or_new(key, HASH)?;
    let is_new = call.space.element(&header, field)?.is_none();
    if is_new {
        call.space.put_element(&header, field, call.word(3))?;
        header.count += 1;
        call.space.save(key, &header, Event::HSet)?;
    }
    call.out.flag(is_new);
    Ok(())
}

pub fn hget(call: &mut Call) -> Done {
    let value = match call.space.collection(call.word(1), HASH)? {
        Some(header) => call.space.element(&header, call.word(2))?,
        None => None,
    };
    call.out.bulk_or_null(value.as_deref());
    Ok(())
}

pub fn hmget(call: &mut Call) -> Done {
    let header = call.space.collection(call.word(1), HASH)?;
    call.out.array(call.len() - 2);
    for field in call.from(2) {
        let value = match &header {
            Some(header) => call.space.element(header, field)?,
            None => None,
        };
        call.out.bulk_or_null(value.as_deref());
        call.check_reply()?;
    }
    Ok(())
}

pub fn hgetall(call: &mut Call) -> Done {
    let header = call.space.collection(call.word(1), HASH)?;
    call.out.map(header.map_or(0, |header| header.count as usize));
    show_all(call, header, |out, field, value| {
        out.bulk(field);
        out.bulk(value);
    })
}

pub fn hkeys(call: &mut Call) -> Done {
    show_array(call, |out, field, _| out.bulk(field))
}

pub fn hvals(call: &mut Call) -> Done {
    show_array(call, |out, _, value| out.bulk(value))
}

fn show_array(call: &mut Call, show: impl Fn(&mut Out, &[u8], &[u8])) -> Done {
    let header = call.space.collection(call.word(1), HASH)?;
    call.out.array(header.map_or(0, |header| header.count as usize));
    show_all(call, header, show)
}

fn show_all(call: &mut Call, header: Option<Header>, show: impl Fn(&mut Out, &[u8], &[u8])) -> Done {
    match header {
        Some(header) => reply_elements(call, &header, &Parts::ALL, header.count, show),
        None => Ok(()),
    }
}

pub fn hdel(call: &mut Call) -> Done {
    let key = call.word(1);
    let mut removed = 0;
    if let Some(mut header) = call.space.collection_to_write(key, HASH)? {
        for field in call.from(2) {
            if call.space.element(&header, field)?.is_some() {
                call.space.delete_element(&header, field)?;
                removed += 1;
            }
        }
        if removed > 0 {
            header.count = header.count.saturating_sub(removed);
            call.space.save(key, &header, Event::HDel)?;
        }
    }
    call.out.integer(removed as i64);
    Ok(())
}

pub fn hlen(call: &mut Call) -> Done {
    reply_len(call, HASH)
}

fn field_len(call: &Call) -> Done<Option<usize>> {
    let Some(header) = call.space.collection(call.word(1), HASH)? else { return Ok(None) };
    Ok(call.space.element(&header, call.word(2))?.map(|value| value.len()))
}

pub fn hexists(call: &mut Call) -> Done {
    let exists = field_len(call)?.is_some();
    call.out.flag(exists);
    Ok(())
}

pub fn hstrlen(call: &mut Call) -> Done {
    let length = field_len(call)?.unwrap_or(0);
    call.out.count(length);
    Ok(())
}

/// Replaces the value of a field by what `change` makes of it, and returns that.
fn change_field(
    call: &mut Call,
    event: Event,
    change: impl FnOnce(Option<&[u8]>) -> Done<String>,
) -> Done<String> {
    let (key, field) = (call.word(1), call.word(2));
    let mut header = call.space.collection_or_new(key, HASH)?;
    let old = call.space.element(&header, field)?;
    let new = change(old.as_deref())?;
    call.space.put_element(&header, field, new.as_bytes())?;
    header.count += u64::from(old.is_none());
    call.space.save(key, &header, event)?;
    Ok(new)
}

pub fn hincrby(call: &mut Call) -> Done {
    let by = integer(call.word(3))?;
    let sum = change_field(call, Event::HIncrBy, |old| {
        let old = old.map_or(Some(0), parse_i64).ok_or(Fault::fixed("ERR hash value is not an integer"))?;
        let sum = old.checked_add(by).ok_or(Fault::fixed("ERR increment or decrement would overflow"))?;
        Ok(sum.to_string())
    })?;
    call.out.integer(parse_i64(sum.as_bytes()).unwrap_or_default());
    Ok(())
}

pub fn hincrbyfloat(call: &mut Call) -> Done {
    let by = float(call.word(3))?;
    let sum = change_field(call, Event::HIncrByFloat, |old| {
        let old = old.map_or(Some(0.0), parse_f64).ok_or(Fault::fixed("ERR hash value is not a float"))?;
        Ok(show_f64(finite_sum(old, by)?))
    })?;
    call.out.bulk(sum.as_bytes());
    Ok(())
}

pub fn hrandfield(call: &mut Call) -> Done {
    let header = call.space.collection(call.word(1), HASH)?;
    let has_values = match call.len() {
        2 | 3 => false,
        4 if call.is(3, "withvalues") => true,
        _ => return Err(Fault::SYNTAX),
    };
    let all = match &header {
        Some(header) => all_elements(call, header)?,
        None => Vec::new(),
    };
    if call.len() == 2 {
        let chosen = super::random::choose(call.space, all.len(), 1);
        call.out.bulk_or_null(chosen.first().map(|&at| &all[at].0[..]));
        return Ok(());
    }
    let chosen = super::random::choose_signed(call.space, all.len(), call.integer(2)?)?;
    let is_nested = has_values && call.out.protocol == Protocol::Resp3;
    call.out.array(chosen.len() * if has_values && !is_nested { 2 } else { 1 });
    for at in chosen {
        if is_nested {
            call.out.array(2);
        }
        call.out.bulk(&all[at].0);
        if has_values {
            call.out.bulk(&all[at].1);
        }
        call.check_reply()?;
    }
    Ok(())
}
