//! The commands.
//!
//! [`COMMANDS`] lists them. `call` is what a command works with; the other modules have the commands, by the type of
//! their keys. A command reads its arguments first, then the keys, and writes last.

// Each command is a function of its own name, which Redis documents.
#![allow(missing_docs)]

pub mod call;
mod random;
mod scans;
mod expiry;
mod strings;
mod bits;
pub mod keys;
mod hashes;
mod sets;
mod lists;
mod sorted;
mod sorted_spans;
mod sorted_pops;
mod sorted_sums;
pub mod general;

use crate::fault::{Done, Fault};
use crate::space::Space;
use crate::wire::reply::Out;
use crate::wire::request::Command;
use call::{Around, Call};
use std::time::Instant;

/// What a command does to keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It concerns the connection, which handles it by itself.
    Connection,
    /// It reads keys, or none.
    Read,
    /// It reads no keys, and sends messages after the commit.
    Publish,
    /// It can change keys.
    Write,
    /// It can change keys, and can wait for another client to do so.
    Block,
}

/// A command.
#[derive(Debug)]
pub struct Spec {
    /// The name, in small letters.
    pub name: &'static str,
    /// The number of words; negative: at least so many.
    pub arity: i16,
    /// What it does to keys.
    pub effect: Effect,
    /// Whether it is quick, however large the collections are that it is about.
    pub is_quick: bool,
    /// The places of the first and the last key, and from one key to the next.
    pub keys: (i8, i8, i8),
    run: Option<fn(&mut Call) -> Done>,
}

impl Spec {
    /// Returns whether it can change keys.
    pub fn writes(&self) -> bool {
        matches!(self.effect, Effect::Write | Effect::Block)
    }

    /// Fails if a call has the wrong number of words.
    pub fn check(&self, words: usize) -> Done {
        let least = usize::from(self.arity.unsigned_abs());
        let is_right = if self.arity < 0 { words >= least } else { words == least };
        if is_right { Ok(()) } else { Err(Fault::wrong_arity(self.name)) }
    }
}

/// Returns the fault of a command that does not exist.
pub fn unknown(command: &Command) -> Fault {
    const SHOWN: usize = 128;
    let show = |word: &[u8]| String::from_utf8_lossy(&word[..word.len().min(SHOWN)]).into_owned();
    let arguments: Vec<String> = command.from(1).take(3).map(|word| format!("'{}' ", show(word))).collect();
    let (name, arguments) = (show(&command[0]), arguments.concat());
    Fault::new(format!("ERR unknown command '{name}', with args beginning with: {arguments}"))
}

const fn spec(
    name: &'static str,
    arity: i16,
    effect: Effect,
    is_quick: bool,
    keys: (i8, i8, i8),
    run: Option<fn(&mut Call) -> Done>,
) -> Spec {
    Spec { name, arity, effect, is_quick, keys, run }
}

/// All commands, in the order of their names.
#[rustfmt::skip]
pub static COMMANDS: &[Spec] = &[
    spec("append", 3, Effect::Write, true, (1, 1, 1), Some(strings::append)),
    spec("auth", -2, Effect::Connection, true, (0, 0, 0), None),
    spec("bitcount", -2, Effect::Read, true, (1, 1, 1), Some(bits::bitcount)),
    spec("blmove", 6, Effect::Block, true, (1, 2, 1), Some(lists::lmove)),
    spec("blmpop", -5, Effect::Block, true, (0, 0, 0), Some(lists::blmpop)),
    spec("blpop", -3, Effect::Block, true, (1, -2, 1), Some(lists::blpop)),
    spec("brpop", -3, Effect::Block, true, (1, -2, 1), Some(lists::brpop)),
    spec("brpoplpush", 4, Effect::Block, true, (1, 2, 1), Some(lists::rpoplpush)),
    spec("bzmpop", -5, Effect::Block, true, (0, 0, 0), Some(sorted_pops::bzmpop)),
    spec("bzpopmax", -3, Effect::Block, true, (1, -2, 1), Some(sorted_pops::bzpopmax)),
    spec("bzpopmin", -3, Effect::Block, true, (1, -2, 1), Some(sorted_pops::bzpopmin)),
    spec("client", -2, Effect::Connection, true, (0, 0, 0), None),
    spec("command", -1, Effect::Read, true, (0, 0, 0), Some(general::command)),
    spec("config", -2, Effect::Read, true, (0, 0, 0), Some(general::config)),
    spec("copy", -3, Effect::Write, false, (1, 2, 1), Some(keys::copy)),
    spec("dbsize", 1, Effect::Read, false, (0, 0, 0), Some(keys::dbsize)),
    spec("decr", 2, Effect::Write, true, (1, 1, 1), Some(strings::decr)),
    spec("decrby", 3, Effect::Write, true, (1, 1, 1), Some(strings::decrby)),
    spec("del", -2, Effect::Write, true, (1, -1, 1), Some(keys::del)),
    spec("discard", 1, Effect::Connection, true, (0, 0, 0), None),
    spec("echo", 2, Effect::Read, true, (0, 0, 0), Some(general::echo)),
    spec("exec", 1, Effect::Connection, true, (0, 0, 0), None),
    spec("exists", -2, Effect::Read, true, (1, -1, 1), Some(keys::exists)),
    spec("expire", -3, Effect::Write, true, (1, 1, 1), Some(expiry::expire)),
    spec("expireat", -3, Effect::Write, true, (1, 1, 1), Some(expiry::expireat)),
    spec("expiretime", 2, Effect::Read, true, (1, 1, 1), Some(expiry::expiretime)),
    spec("flushall", -1, Effect::Write, true, (0, 0, 0), Some(keys::flushall)),
    spec("flushdb", -1, Effect::Write, true, (0, 0, 0), Some(keys::flushdb)),
    spec("get", 2, Effect::Read, true, (1, 1, 1), Some(strings::get)),
    spec("getbit", 3, Effect::Read, true, (1, 1, 1), Some(bits::getbit)),
    spec("getdel", 2, Effect::Write, true, (1, 1, 1), Some(strings::getdel)),
    spec("getex", -2, Effect::Write, true, (1, 1, 1), Some(strings::getex)),
    spec("getrange", 4, Effect::Read, true, (1, 1, 1), Some(strings::getrange)),
    spec("getset", 3, Effect::Write, true, (1, 1, 1), Some(strings::getset)),
    spec("hdel", -3, Effect::Write, true, (1, 1, 1), Some(hashes::hdel)),
    spec("hello", -1, Effect::Connection, true, (0, 0, 0), None),
    spec("hexists", 3, Effect::Read, true, (1, 1, 1), Some(hashes::hexists)),
    spec("hget", 3, Effect::Read, true, (1, 1, 1), Some(hashes::hget)),
    spec("hgetall", 2, Effect::Read, false, (1, 1, 1), Some(hashes::hgetall)),
    spec("hincrby", 4, Effect::Write, true, (1, 1, 1), Some(hashes::hincrby)),
    spec("hincrbyfloat", 4, Effect::Write, true, (1, 1, 1), Some(hashes::hincrbyfloat)),
    spec("hkeys", 2, Effect::Read, false, (1, 1, 1), Some(hashes::hkeys)),
    spec("hlen", 2, Effect::Read, true, (1, 1, 1), Some(hashes::hlen)),
    spec("hmget", -3, Effect::Read, true, (1, 1, 1), Some(hashes::hmget)),
    spec("hmset", -4, Effect::Write, true, (1, 1, 1), Some(hashes::hmset)),
    spec("hrandfield", -2, Effect::Read, false, (1, 1, 1), Some(hashes::hrandfield)),
    spec("hscan", -3, Effect::Read, false, (1, 1, 1), Some(scans::hscan)),
    spec("hset", -4, Effect::Write, true, (1, 1, 1), Some(hashes::hset)),
    spec("hsetnx", 4, Effect::Write, true, (1, 1, 1), Some(hashes::hsetnx)),
    spec("hstrlen", 3, Effect::Read, true, (1, 1, 1), Some(hashes::hstrlen)),
    spec("hvals", 2, Effect::Read, false, (1, 1, 1), Some(hashes::hvals)),
    spec("incr", 2, Effect::Write, true, (1, 1, 1), Some(strings::incr)),
    spec("incrby", 3, Effect::Write, true, (1, 1, 1), Some(strings::incrby)),
    spec("incrbyfloat", 3, Effect::Write, true, (1, 1, 1), Some(strings::incrbyfloat)),
    spec("info", -1, Effect::Read, false, (0, 0, 0), Some(general::info)),
    spec("keys", 2, Effect::Read, false, (0, 0, 0), Some(keys::keys)),
    spec("lindex", 3, Effect::Read, true, (1, 1, 1), Some(lists::lindex)),
    spec("linsert", 5, Effect::Write, false, (1, 1, 1), Some(lists::linsert)),
    spec("llen", 2, Effect::Read, true, (1, 1, 1), Some(lists::llen)),
    spec("lmove", 5, Effect::Write, true, (1, 2, 1), Some(lists::lmove)),
    spec("lmpop", -4, Effect::Write, true, (0, 0, 0), Some(lists::lmpop)),
    spec("lpop", -2, Effect::Write, true, (1, 1, 1), Some(lists::lpop)),
    spec("lpos", -3, Effect::Read, false, (1, 1, 1), Some(lists::lpos)),
    spec("lpush", -3, Effect::Write, true, (1, 1, 1), Some(lists::lpush)),
    spec("lpushx", -3, Effect::Write, true, (1, 1, 1), Some(lists::lpushx)),
    spec("lrange", 4, Effect::Read, false, (1, 1, 1), Some(lists::lrange)),
    spec("lrem", 4, Effect::Write, false, (1, 1, 1), Some(lists::lrem)),
    spec("lset", 4, Effect::Write, true, (1, 1, 1), Some(lists::lset)),
    spec("ltrim", 4, Effect::Write, false, (1, 1, 1), Some(lists::ltrim)),
    spec("mget", -2, Effect::Read, true, (1, -1, 1), Some(strings::mget)),
    spec("move", 3, Effect::Write, true, (1, 1, 1), Some(keys::move_key)),
    spec("mset", -3, Effect::Write, true, (1, -1, 2), Some(strings::mset)),
    spec("msetnx", -3, Effect::Write, true, (1, -1, 2), Some(strings::msetnx)),
    spec("multi", 1, Effect::Connection, true, (0, 0, 0), None),
    spec("persist", 2, Effect::Write, true, (1, 1, 1), Some(expiry::persist)),
    spec("pexpire", -3, Effect::Write, true, (1, 1, 1), Some(expiry::pexpire)),
    spec("pexpireat", -3, Effect::Write, true, (1, 1, 1), Some(expiry::pexpireat)),
    spec("pexpiretime", 2, Effect::Read, true, (1, 1, 1), Some(expiry::pexpiretime)),
    spec("ping", -1, Effect::Read, true, (0, 0, 0), Some(general::ping)),
    spec("psetex", 4, Effect::Write, true, (1, 1, 1), Some(strings::psetex)),
    spec("psubscribe", -2, Effect::Connection, true, (0, 0, 0), None),
    spec("pttl", 2, Effect::Read, true, (1, 1, 1), Some(expiry::pttl)),
    spec("publish", 3, Effect::Publish, true, (0, 0, 0), Some(general::publish)),
    spec("pubsub", -2, Effect::Read, true, (0, 0, 0), Some(general::pubsub)),
    spec("punsubscribe", -1, Effect::Connection, true, (0, 0, 0), None),
    spec("quit", -1, Effect::Connection, true, (0, 0, 0), None),
    spec("randomkey", 1, Effect::Read, true, (0, 0, 0), Some(keys::randomkey)),
    spec("rename", 3, Effect::Write, true, (1, 2, 1), Some(keys::rename)),
    spec("renamenx", 3, Effect::Write, true, (1, 2, 1), Some(keys::renamenx)),
    spec("reset", 1, Effect::Connection, true, (0, 0, 0), None),
    spec("rpop", -2, Effect::Write, true, (1, 1, 1), Some(lists::rpop)),
    spec("rpoplpush", 3, Effect::Write, true, (1, 2, 1), Some(lists::rpoplpush)),
    spec("rpush", -3, Effect::Write, true, (1, 1, 1), Some(lists::rpush)),
    spec("rpushx", -3, Effect::Write, true, (1, 1, 1), Some(lists::rpushx)),
    spec("sadd", -3, Effect::Write, true, (1, 1, 1), Some(sets::sadd)),
    spec("scan", -2, Effect::Read, false, (0, 0, 0), Some(scans::scan)),
    spec("scard", 2, Effect::Read, true, (1, 1, 1), Some(sets::scard)),
    spec("sdiff", -2, Effect::Read, false, (1, -1, 1), Some(sets::sdiff)),
    spec("sdiffstore", -3, Effect::Write, false, (1, -1, 1), Some(sets::sdiffstore)),
    spec("select", 2, Effect::Connection, true, (0, 0, 0), Some(keys::select)),
    spec("set", -3, Effect::Write, true, (1, 1, 1), Some(strings::set)),
    spec("setbit", 4, Effect::Write, true, (1, 1, 1), Some(bits::setbit)),
    spec("setex", 4, Effect::Write, true, (1, 1, 1), Some(strings::setex)),
    spec("setnx", 3, Effect::Write, true, (1, 1, 1), Some(strings::setnx)),
    spec("setrange", 4, Effect::Write, true, (1, 1, 1), Some(strings::setrange)),
    spec("sinter", -2, Effect::Read, false, (1, -1, 1), Some(sets::sinter)),
    spec("sintercard", -3, Effect::Read, false, (0, 0, 0), Some(sets::sintercard)),
    spec("sinterstore", -3, Effect::Write, false, (1, -1, 1), Some(sets::sinterstore)),
    spec("sismember", 3, Effect::Read, true, (1, 1, 1), Some(sets::sismember)),
    spec("smembers", 2, Effect::Read, false, (1, 1, 1), Some(sets::smembers)),
    spec("smismember", -3, Effect::Read, true, (1, 1, 1), Some(sets::smismember)),
    spec("smove", 4, Effect::Write, true, (1, 2, 1), Some(sets::smove)),
    spec("spop", -2, Effect::Write, false, (1, 1, 1), Some(sets::spop)),
    spec("srandmember", -2, Effect::Read, false, (1, 1, 1), Some(sets::srandmember)),
    spec("srem", -3, Effect::Write, true, (1, 1, 1), Some(sets::srem)),
    spec("sscan", -3, Effect::Read, false, (1, 1, 1), Some(scans::sscan)),
    spec("strlen", 2, Effect::Read, true, (1, 1, 1), Some(strings::strlen)),
    spec("subscribe", -2, Effect::Connection, true, (0, 0, 0), None),
    spec("substr", 4, Effect::Read, true, (1, 1, 1), Some(strings::getrange)),
    spec("sunion", -2, Effect::Read, false, (1, -1, 1), Some(sets::sunion)),
    spec("sunionstore", -3, Effect::Write, false, (1, -1, 1), Some(sets::sunionstore)),
    spec("time", 1, Effect::Read, true, (0, 0, 0), Some(general::time)),
    spec("touch", -2, Effect::Read, true, (1, -1, 1), Some(keys::exists)),
    spec("ttl", 2, Effect::Read, true, (1, 1, 1), Some(expiry::ttl)),
    spec("type", 2, Effect::Read, true, (1, 1, 1), Some(keys::kind)),
    spec("unlink", -2, Effect::Write, true, (1, -1, 1), Some(keys::del)),
    spec("unsubscribe", -1, Effect::Connection, true, (0, 0, 0), None),
    spec("unwatch", 1, Effect::Connection, true, (0, 0, 0), None),
    spec("watch", -2, Effect::Connection, true, (1, -1, 1), None),
    spec("zadd", -4, Effect::Write, true, (1, 1, 1), Some(sorted::zadd)),
    spec("zcard", 2, Effect::Read, true, (1, 1, 1), Some(sorted::zcard)),
    spec("zcount", 4, Effect::Read, false, (1, 1, 1), Some(sorted_spans::zcount)),
    spec("zincrby", 4, Effect::Write, true, (1, 1, 1), Some(sorted::zincrby)),
    spec("zinter", -3, Effect::Read, false, (0, 0, 0), Some(sorted_sums::zinter)),
    spec("zinterstore", -4, Effect::Write, false, (1, 1, 1), Some(sorted_sums::zinterstore)),
    spec("zlexcount", 4, Effect::Read, false, (1, 1, 1), Some(sorted_spans::zlexcount)),
    spec("zmpop", -4, Effect::Write, true, (0, 0, 0), Some(sorted_pops::zmpop)),
    spec("zmscore", -3, Effect::Read, true, (1, 1, 1), Some(sorted::zmscore)),
    spec("zpopmax", -2, Effect::Write, true, (1, 1, 1), Some(sorted_pops::zpopmax)),
    spec("zpopmin", -2, Effect::Write, true, (1, 1, 1), Some(sorted_pops::zpopmin)),
    spec("zrange", -4, Effect::Read, false, (1, 1, 1), Some(sorted_spans::zrange)),
    spec("zrangebylex", -4, Effect::Read, false, (1, 1, 1), Some(sorted_spans::zrangebylex)),
    spec("zrangebyscore", -4, Effect::Read, false, (1, 1, 1), Some(sorted_spans::zrangebyscore)),
    spec("zrank", -3, Effect::Read, false, (1, 1, 1), Some(sorted_spans::zrank)),
    spec("zrem", -3, Effect::Write, true, (1, 1, 1), Some(sorted::zrem)),
    spec("zremrangebylex", 4, Effect::Write, false, (1, 1, 1), Some(sorted_spans::zremrangebylex)),
    spec("zremrangebyrank", 4, Effect::Write, false, (1, 1, 1), Some(sorted_spans::zremrangebyrank)),
    spec("zremrangebyscore", 4, Effect::Write, false, (1, 1, 1), Some(sorted_spans::zremrangebyscore)),
    spec("zrevrange", -4, Effect::Read, false, (1, 1, 1), Some(sorted_spans::zrevrange)),
    spec("zrevrangebylex", -4, Effect::Read, false, (1, 1, 1), Some(sorted_spans::zrevrangebylex)),
    spec("zrevrangebyscore", -4, Effect::Read, false, (1, 1, 1), Some(sorted_spans::zrevrangebyscore)),
    spec("zrevrank", -3, Effect::Read, false, (1, 1, 1), Some(sorted_spans::zrevrank)),
    spec("zscan", -3, Effect::Read, false, (1, 1, 1), Some(scans::zscan)),
    spec("zscore", 3, Effect::Read, true, (1, 1, 1), Some(sorted::zscore)),
    spec("zunion", -3, Effect::Read, false, (0, 0, 0), Some(sorted_sums::zunion)),
    spec("zunionstore", -4, Effect::Write, false, (1, 1, 1), Some(sorted_sums::zunionstore)),
];

/// Returns the index of the command with this name, in capital or small letters.
pub fn find(name: &[u8]) -> Option<usize> {
    const LONGEST: usize = 20;
    let mut small = [0; LONGEST];
    let small = small.get_mut(..name.len())?;
    small.copy_from_slice(name);
    small.make_ascii_lowercase();
    COMMANDS.binary_search_by(|spec| spec.name.as_bytes().cmp(small)).ok()
}

/// The length up to which a reply is not bounded by those before it. The number of commands is bounded.
const SHORT_REPLY_BYTES: usize = 64;

/// Runs a command and adds its reply, which is an error if the command fails.
///
/// # Errors
/// Only those after which the transaction must run again.
pub fn run(index: usize, words: &Command, space: &mut Space<'_>, out: &mut Out, around: &Around) -> Done {
    let spec = &COMMANDS[index];
    let (begun, before) = (Instant::now(), out.len());
    let (messages, database) = (space.messages.len(), space.database);
    let savepoint = if spec.writes() { space.savepoint() } else { None };
    let run = spec.run.ok_or(Fault::fixed("ERR this command is not allowed here"));
    let done = run.and_then(|run| {
        let mut call = Call::new(words, space, out, around);
        run(&mut call)?;
        // A short reply always fits, so that a command that writes does not fail for the replies before it.
        let is_short = call.out.len() - before <= SHORT_REPLY_BYTES && !call.out.is_cut();
        if is_short { Ok(()) } else { call.check_reply() }
    });
    let failed = done.is_err();
    let done = match done {
        Err(fault) if fault.must_run_again() => Err(fault),
        Err(fault) => {
            out.truncate(before);
            space.messages.truncate(messages);
            space.database = database;
            if let Some(savepoint) = &savepoint {
                space.rollback(savepoint)?;
            }
            out.error(&fault.to_string());
            Ok(())
        }
        Ok(()) => {
            if let Some(savepoint) = &savepoint {
                space.release(savepoint)?;
            }
            Ok(())
        }
    };
    around.figures.note(index, begun.elapsed(), failed);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_by_name() {
        assert!(COMMANDS.windows(2).all(|pair| pair[0].name < pair[1].name), "the table is in order");
        for (index, spec) in COMMANDS.iter().enumerate() {
            assert_eq!(find(spec.name.to_ascii_uppercase().as_bytes()), Some(index), "{}", spec.name);
            let is_own = spec.effect == Effect::Connection && spec.name != "select";
            assert_eq!(spec.run.is_none(), is_own, "{}", spec.name);
        }
        assert_eq!(find(b"nothing"), None);
        assert_eq!(find(&[b'x'; 100]), None);
        assert!(COMMANDS[find(b"get").unwrap()].check(2).is_ok());
        assert!(COMMANDS[find(b"get").unwrap()].check(3).is_err());
        assert!(COMMANDS[find(b"mset").unwrap()].check(9).is_ok());
    }
}
