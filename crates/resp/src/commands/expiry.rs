//! Commands on the expiry of keys.

use super::call::{Call, integer};
use crate::fault::{Done, Fault};
use crate::layout::Event;

/// The unit and the origin of a moment in a command.
#[derive(Clone, Copy, Debug)]
pub struct Unit {
    ms: i64,
    is_absolute: bool,
}

impl Unit {
    /// Seconds from now.
    pub const SECONDS: Unit = Unit { ms: 1000, is_absolute: false };
    /// Milliseconds from now.
    pub const MILLISECONDS: Unit = Unit { ms: 1, is_absolute: false };
    /// Seconds since 1970.
    const AT_SECONDS: Unit = Unit { ms: 1000, is_absolute: true };
    /// Milliseconds since 1970.
    const AT_MILLISECONDS: Unit = Unit { ms: 1, is_absolute: true };

    /// Returns the unit of an option of SET.
    pub fn of_option(word: &[u8]) -> Option<Self> {
        match word.to_ascii_lowercase().as_slice() {
            b"ex" => Some(Unit::SECONDS),
            b"px" => Some(Unit::MILLISECONDS),
            b"exat" => Some(Unit::AT_SECONDS),
            b"pxat" => Some(Unit::AT_MILLISECONDS),
            _ => None,
        }
    }

    /// Returns the moment in milliseconds since 1970, which can be in the past.
    fn moment(self, number: i64, now_ms: u64) -> Option<i64> {
        let ms = number.checked_mul(self.ms)?;
        if self.is_absolute { Some(ms) } else { ms.checked_add(now_ms as i64) }
    }
}

fn invalid(command: &str) -> Fault {
    Fault::new(format!("ERR invalid expire time in '{command}' command"))
}

/// Returns the moment that an option names. It must be positive.
pub fn moment(call: &Call, unit: Unit, word: &[u8], command: &str) -> Done<u64> {
    let number = integer(word)?;
    if number <= 0 {
        return Err(invalid(command));
    }
    let moment = unit.moment(number, call.space.now_ms).ok_or_else(|| invalid(command))?;
    Ok(moment as u64)
}

fn expire_in(call: &mut Call, unit: Unit, command: &str) -> Done {
    let (key, number) = (call.word(1), integer(call.word(2))?);
    let moment = unit.moment(number, call.space.now_ms).ok_or_else(|| invalid(command))?;
    let (mut nx, mut xx, mut gt, mut lt) = (false, false, false, false);
    for at in 3..call.len() {
        match call.word(at).to_ascii_lowercase().as_slice() {
            b"nx" => nx = true,
            b"xx" => xx = true,
            b"gt" => gt = true,
            b"lt" => lt = true,
            _ => {
                let shown = String::from_utf8_lossy(call.word(at)).into_owned();
                return Err(Fault::new(format!("ERR Unsupported option {shown}")));
            }
        }
    }
    if nx && (xx || gt || lt) {
        let text = "ERR NX and XX, GT or LT options at the same time are not compatible";
        return Err(Fault::fixed(text));
    }
    if gt && lt {
        return Err(Fault::fixed("ERR GT and LT options at the same time are not compatible"));
    }
    let Some(entry) = call.space.find_to_write(key)? else {
        call.out.integer(0);
        return Ok(());
    };
    let current = entry.header.expires_ms;
    // A key without an expiry lives for ever, which is later than any moment.
    let is_later = current != 0 && moment > current as i64;
    let is_earlier = current == 0 || moment < current as i64;
    if (nx && current != 0) || (xx && current == 0) || (gt && !is_later) || (lt && !is_earlier) {
        call.out.integer(0);
        return Ok(());
    }
    if moment <= call.space.now_ms as i64 {
        call.space.erase(key, &entry.header)?;
    } else {
        call.space.put_entry(key, &entry, moment as u64, entry.header.indexed_ms, Event::Expire)?;
    }
    call.out.integer(1);
    Ok(())
}

pub fn expire(call: &mut Call) -> Done {
    expire_in(call, Unit::SECONDS, "expire")
}

pub fn pexpire(call: &mut Call) -> Done {
    expire_in(call, Unit::MILLISECONDS, "pexpire")
}

pub fn expireat(call: &mut Call) -> Done {
    expire_in(call, Unit::AT_SECONDS, "expireat")
}

pub fn pexpireat(call: &mut Call) -> Done {
    expire_in(call, Unit::AT_MILLISECONDS, "pexpireat")
}

pub fn persist(call: &mut Call) -> Done {
    let key = call.word(1);
    let entry = call.space.find_to_write(key)?.filter(|entry| entry.header.expires_ms != 0);
    call.out.flag(entry.is_some());
    match entry {
        Some(entry) => call.space.put_entry(key, &entry, 0, entry.header.indexed_ms, Event::Persist),
        None => Ok(()),
    }
}

/// Replies with a moment that `show` derives from that of the expiry and the time.
fn reply_expiry(call: &mut Call, show: impl FnOnce(u64, u64) -> u64) -> Done {
    let reply = match call.space.find(call.word(1))?.map(|entry| entry.header.expires_ms) {
        None => -2,
        Some(0) => -1,
        Some(moment) => show(moment, call.space.now_ms) as i64,
    };
    call.out.integer(reply);
    Ok(())
}

pub fn ttl(call: &mut Call) -> Done {
    reply_expiry(call, |moment, now| (moment - now + 500) / 1000)
}

pub fn pttl(call: &mut Call) -> Done {
    reply_expiry(call, |moment, now| moment - now)
}

pub fn expiretime(call: &mut Call) -> Done {
    reply_expiry(call, |moment, _| moment.saturating_add(500) / 1000)
}

pub fn pexpiretime(call: &mut Call) -> Done {
    reply_expiry(call, |moment, _| moment)
}
