//! Commands on keys of any type.

use super::call::{Call, Items, all_elements};
use crate::fault::{Done, Fault};
use crate::glob;
use crate::layout::{Event, Kind};
use crate::space::Entry;
use crate::tables::DATABASES;
use crate::wire::numbers::parse_i64;

/// The number of keys among which RANDOMKEY chooses.
const MOST_CHOICES: usize = 1000;

pub fn del(call: &mut Call) -> Done {
    let mut count = 0;
    for key in call.from(1) {
        count += usize::from(call.space.remove(key)?);
    }
    call.out.count(count);
    Ok(())
}

pub fn exists(call: &mut Call) -> Done {
    let mut count = 0;
    for key in call.from(1) {
        count += usize::from(call.space.find(key)?.is_some());
    }
    call.out.count(count);
    Ok(())
}

pub fn kind(call: &mut Call) -> Done {
    let found = call.space.find(call.word(1))?;
    call.out.simple(found.map_or("none", |entry| entry.header.kind.name()));
    Ok(())
}

/// Moves a key. Returns whether it did; if not, the new key exists.
fn rename_key(call: &mut Call, replaces: bool) -> Done<bool> {
    let (from, to) = (call.word(1), call.word(2));
    let entry = call.space.find_to_write(from)?.ok_or(Fault::NO_KEY)?;
    let old = if from == to { None } else { call.space.find_to_write(to)? };
    if !replaces && (from == to || old.is_some()) {
        return Ok(false);
    }
    if from != to {
        if let Some(old) = old {
            call.space.erase(to, &old.header)?;
        }
        call.space.detach(from, &entry.header)?;
        call.space.put_entry(to, &entry, entry.header.expires_ms, 0, Event::RenameTo)?;
    }
    Ok(true)
}

pub fn rename(call: &mut Call) -> Done {
    rename_key(call, true)?;
    call.out.ok();
    Ok(())
}

pub fn renamenx(call: &mut Call) -> Done {
    let is_renamed = rename_key(call, false)?;
    call.out.flag(is_renamed);
    Ok(())
}

/// Returns the database whose number a word holds.
pub fn database(word: &[u8]) -> Done<usize> {
    let number = parse_i64(word).ok_or(Fault::fixed("ERR invalid DB index"))?;
    let number = usize::try_from(number).ok().filter(|&number| number < DATABASES);
    number.ok_or(Fault::fixed("ERR DB index is out of range"))
}

/// Copies an entry with its elements to a key of a database, in place of what is there. Returns false if something is
/// there and must not be replaced.
fn copy_to(
    call: &mut Call,
    entry: &Entry,
    key: &[u8],
    database: usize,
    replaces: bool,
    event: Event,
) -> Done<bool> {
    let is_string = entry.header.kind == Kind::String;
    let elements = if is_string { Vec::new() } else { all_elements(call, &entry.header)? };
    let own = std::mem::replace(&mut call.space.database, database);
    let old = call.space.find_to_write(key)?;
    let copies = replaces || old.is_none();
    if copies {
        if let Some(old) = old {
            call.space.erase(key, &old.header)?;
        }
        let new = if is_string { 0 } else { call.space.new_collection(entry.header.kind)?.generation };
        let copy = entry.with_generation(new);
        for (part, value) in elements {
            call.space.put_element(&copy.header, &part, &value)?;
        }
        call.space.put_entry(key, &copy, entry.header.expires_ms, 0, event)?;
    }
    call.space.database = own;
    Ok(copies)
}

pub fn copy(call: &mut Call) -> Done {
    let (mut replaces, mut target, mut at) = (false, call.space.database, 3);
    while at < call.len() {
        if call.is(at, "replace") {
            replaces = true;
            at += 1;
        } else if call.is(at, "db") && at + 1 < call.len() {
            target = database(call.word(at + 1))?;
            at += 2;
        } else {
            return Err(Fault::SYNTAX);
        }
    }
    let (from, to) = (call.word(1), call.word(2));
    if from == to && target == call.space.database {
        return Err(Fault::fixed("ERR source and destination objects are the same"));
    }
    let is_copied = match call.space.find_to_write(from)? {
        Some(entry) => copy_to(call, &entry, to, target, replaces, Event::CopyTo)?,
        None => false,
    };
    call.out.flag(is_copied);
    Ok(())
}

pub fn move_key(call: &mut Call) -> Done {
    let (key, target) = (call.word(1), database(call.word(2))?);
    if target == call.space.database {
        return Err(Fault::fixed("ERR source and destination objects are the same"));
    }
    let mut is_moved = false;
    if let Some(entry) = call.space.find_to_write(key)? {
        is_moved = copy_to(call, &entry, key, target, false, Event::MoveTo)?;
        if is_moved {
            call.space.erase(key, &entry.header)?;
        }
    }
    call.out.flag(is_moved);
    Ok(())
}

pub fn select(call: &mut Call) -> Done {
    call.space.database = database(call.word(1))?;
    call.space.table()?;
    call.out.ok();
    Ok(())
}

pub fn keys(call: &mut Call) -> Done {
    let (pattern, mut found) = (call.word(1), Items::new(call));
    call.space.each_key(b"", |key, _| {
        if glob::matches(pattern, key) {
            found.push(key)?;
        }
        Ok(true)
    })?;
    found.reply(call)
}

pub fn randomkey(call: &mut Call) -> Done {
    // The next keys from a random place on: quick, and uniform only among keys whose first bytes are spread.
    let place = call.space.random().to_be_bytes();
    let mut keys = Vec::new();
    for start in [&place[..], b""] {
        call.space.each_key(start, |key, _| {
            keys.push(key.to_vec());
            Ok(keys.len() < MOST_CHOICES)
        })?;
        if !keys.is_empty() {
            break;
        }
    }
    let chosen = super::random::choose(call.space, keys.len(), 1);
    call.out.bulk_or_null(chosen.first().map(|&at| &keys[at][..]));
    Ok(())
}

pub fn dbsize(call: &mut Call) -> Done {
    let mut count = 0;
    call.space.each_key(b"", |_, _| {
        count += 1;
        Ok(true)
    })?;
    call.out.count(count);
    Ok(())
}

fn check_flush(call: &Call) -> Done {
    match call.len() {
        1 => Ok(()),
        2 if call.is(1, "sync") || call.is(1, "async") => Ok(()),
        _ => Err(Fault::SYNTAX),
    }
}

pub fn flushdb(call: &mut Call) -> Done {
    check_flush(call)?;
    call.space.flush()?;
    call.out.ok();
    Ok(())
}

pub fn flushall(call: &mut Call) -> Done {
    check_flush(call)?;
    let own = call.space.database;
    // The tables of others are theirs to empty.
    for database in call.space.usable_databases() {
        call.space.database = database;
        call.space.flush()?;
    }
    call.space.database = own;
    call.out.ok();
    Ok(())
}
