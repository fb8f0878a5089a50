//! Commands on the bits of strings. Bit 0 is the highest of the first byte.

use super::call::{Call, bounds};
use super::strings::kept;
use crate::fault::{Done, Fault};
use crate::layout::Event;

/// Returns the byte and the mask of a bit.
fn place(call: &Call, at: usize) -> Done<(usize, u8)> {
    let fault = Fault::fixed("ERR bit offset is not an integer or out of range");
    let Some(offset) = call.integer(at).ok().and_then(|offset| usize::try_from(offset).ok()) else {
        return Err(fault);
    };
    if offset / 8 >= call.around.most_bytes { Err(fault) } else { Ok((offset / 8, 0x80 >> (offset % 8))) }
}

pub fn getbit(call: &mut Call) -> Done {
    let (byte, mask) = place(call, 2)?;
    let (key, out) = (call.word(1), &mut *call.out);
    call.space.with_string(key, |value| {
        let byte = value.and_then(|value| value.get(byte)).copied().unwrap_or(0);
        out.flag(byte & mask != 0);
    })
}

pub fn setbit(call: &mut Call) -> Done {
    let (byte, mask) = place(call, 2)?;
    let bit = match call.word(3) {
        b"0" => 0,
        b"1" => mask,
        _ => return Err(Fault::fixed("ERR bit is not an integer or out of range")),
    };
    let key = call.word(1);
    let old = call.space.find_to_write(key)?;
    let mut value = old.as_ref().map(|old| old.string()).transpose()?.unwrap_or_default().to_vec();
    value.resize(value.len().max(byte + 1), 0);
    let before = value[byte] & mask != 0;
    value[byte] = value[byte] & !mask | bit;
    let (old, expires_ms) = kept(&old);
    call.space.put_string(key, &value, expires_ms, old, Event::SetBit)?;
    call.out.flag(before);
    Ok(())
}

pub fn bitcount(call: &mut Call) -> Done {
    let in_bits = match call.len() {
        2 | 4 => false,
        5 if call.is(4, "byte") => false,
        5 if call.is(4, "bit") => true,
        _ => return Err(Fault::SYNTAX),
    };
    let (start, stop) = if call.len() == 2 { (0, -1) } else { (call.integer(2)?, call.integer(3)?) };
    let (key, out) = (call.word(1), &mut *call.out);
    call.space.with_string(key, |value| {
        let value = value.unwrap_or_default();
        let length = value.len() as u64 * if in_bits { 8 } else { 1 };
        let (start, end) = bounds(start, stop, length);
        let ones = |bytes: &[u8]| bytes.iter().map(|byte| byte.count_ones() as usize).sum::<usize>();
        // The bits before a place, of which the last can be within a byte.
        let ones_before = |bit: u64| {
            let (byte, rest) = ((bit / 8) as usize, bit % 8);
            let part = if rest == 0 { 0 } else { (value[byte] & !(0xff >> rest)).count_ones() };
            ones(&value[..byte]) + part as usize
        };
        let ones = match in_bits {
            true => ones_before(end) - ones_before(start),
            false => ones(&value[start as usize..end as usize]),
        };
        out.count(ones);
    })
}
