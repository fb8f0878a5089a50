//! SCAN, HSCAN, SSCAN and ZSCAN: pages of what there is.

use super::call::{Call, Items, integer};
use crate::fault::{Done, Fault};
use crate::glob;
use crate::layout::Kind;
use crate::space::Parts;
use crate::wire::numbers::show_f64;
use std::ops::Bound;

/// The number of keys or elements of a page, unless the command says otherwise.
const USUAL_COUNT: usize = 10;

/// What a page of a scan shows.
struct Wanted<'c> {
    pattern: Option<&'c [u8]>,
    kind: Option<&'c [u8]>,
    count: usize,
    has_values: bool,
}

impl<'c> Wanted<'c> {
    fn parse(call: &Call<'c, '_>, first: usize) -> Done<Self> {
        let mut wanted = Wanted { pattern: None, kind: None, count: USUAL_COUNT, has_values: true };
        let mut at = first;
        while at < call.len() {
            let value = call.words.get(at + 1);
            if call.is(at, "match") {
                wanted.pattern = Some(value.ok_or(Fault::SYNTAX)?);
            } else if call.is(at, "count") {
                let count = integer(value.ok_or(Fault::SYNTAX)?)?;
                wanted.count = usize::try_from(count).ok().filter(|&count| count > 0).ok_or(Fault::SYNTAX)?;
            } else if call.is(at, "type") && first == 2 {
                wanted.kind = Some(value.ok_or(Fault::SYNTAX)?);
            } else if call.is(at, "novalues") && call.is(0, "hscan") {
                wanted.has_values = false;
                at += 1;
                continue;
            } else {
                return Err(Fault::SYNTAX);
            }
            at += 2;
        }
        Ok(wanted)
    }

    fn matches(&self, text: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, text))
    }
}

/// Replies with the number of the next page, 0 after the last one, and with the items of this one.
fn reply(call: &mut Call, next: Option<Vec<u8>>, items: Items) -> Done {
    let number = next.map_or(0, |next| call.around.cursors.keep(next));
    call.out.array(2);
    call.out.bulk(number.to_string().as_bytes());
    items.reply(call)
}

pub fn scan(call: &mut Call) -> Done {
    let start = call.around.cursors.find(call.word(1))?;
    let wanted = Wanted::parse(call, 2)?;
    let (mut items, mut next, mut seen) = (Items::new(call), None, 0);
    call.space.each_key(&start, |key, header| {
        if seen == wanted.count {
            next = Some(key.to_vec());
            return Ok(false);
        }
        seen += 1;
        let is_kind = wanted.kind.is_none_or(|kind| kind.eq_ignore_ascii_case(header.kind.name().as_bytes()));
        if is_kind && wanted.matches(key) {
            items.push(key)?;
        }
        Ok(true)
    })?;
    reply(call, next, items)
}

/// Scans a collection. `show` adds what an element shows.
fn scan_elements(
    call: &mut Call,
    kind: Kind,
    prefix: &[u8],
    mut show: impl FnMut(&Wanted, &[u8], &[u8], &mut Items) -> Done,
) -> Done {
    let start = call.around.cursors.find(call.word(2))?;
    let wanted = Wanted::parse(call, 3)?;
    let (mut items, mut next, mut seen) = (Items::new(call), None, 0);
    let Some(header) = call.space.collection(call.word(1), kind)? else { return reply(call, None, items) };
    let start = if start.is_empty() { Bound::Unbounded } else { Bound::Included(&start[..]) };
    call.space.each_element(&header, &Parts { prefix, start, ..Parts::ALL }, |part, value| {
        if seen == wanted.count {
            next = Some(part.to_vec());
            return Ok(false);
        }
        seen += 1;
        let member = &part[prefix.len()..];
        if wanted.matches(member) {
            show(&wanted, member, value, &mut items)?;
        }
        Ok(true)
    })?;
    reply(call, next, items)
}

pub fn hscan(call: &mut Call) -> Done {
    scan_elements(call, Kind::Hash, b"", |wanted, field, value, items| {
        items.push(field)?;
        if wanted.has_values { items.push(value) } else { Ok(()) }
    })
}

pub fn sscan(call: &mut Call) -> Done {
    scan_elements(call, Kind::Set, b"", |_, member, _, items| items.push(member))
}

pub fn zscan(call: &mut Call) -> Done {
    scan_elements(call, Kind::Sorted, super::sorted::MEMBERS, |_, member, score, items| {
        items.push(member)?;
        items.push(show_f64(super::sorted::stored_score(score)?).as_bytes())
    })
}
