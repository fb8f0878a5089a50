//! Commands about the server.

use super::call::{Call, Items};
use super::{COMMANDS, Spec, find};
use crate::fault::{Done, Fault};
use crate::glob;
use crate::tables::DATABASES;
use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

/// The version of Redis whose commands are implemented. Clients look at it to know what they can use.
pub const REDIS_VERSION: &str = "7.0.0";

pub fn ping(call: &mut Call) -> Done {
    match call.len() {
        1 => call.out.simple("PONG"),
        2 => call.out.bulk(call.word(1)),
        _ => return Err(Fault::wrong_arity("ping")),
    }
    Ok(())
}

pub fn echo(call: &mut Call) -> Done {
    call.out.bulk(call.word(1));
    Ok(())
}

pub fn time(call: &mut Call) -> Done {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    call.out.array(2);
    call.out.bulk(now.as_secs().to_string().as_bytes());
    call.out.bulk(now.subsec_micros().to_string().as_bytes());
    Ok(())
}

pub fn info(call: &mut Call) -> Done {
    let asked: Vec<String> =
        call.from(1).map(|word| String::from_utf8_lossy(word).to_ascii_lowercase()).collect();
    let is_wanted = |section: &str| {
        let is_general = |word: &String| matches!(word.as_str(), "default" | "all" | "everything");
        asked.is_empty() || asked.iter().any(|word| is_general(word) || word == section)
    };
    let figures = &call.around.figures;
    let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::SeqCst);
    let mut text = String::new();
    if is_wanted("server") {
        let (version, uptime) = (env!("CARGO_PKG_VERSION"), figures.uptime().as_secs());
        let _ = write!(
            text,
            "# Server\r\nredis_version:{REDIS_VERSION}\r\npando_version:{version}\r\n\
             redis_mode:standalone\r\nprocess_id:{}\r\nuptime_in_seconds:{uptime}\r\n\r\n",
            std::process::id()
        );
    }
    if is_wanted("clients") {
        let _ = write!(
            text,
            "# Clients\r\nconnected_clients:{}\r\nblocked_clients:{}\r\n\r\n",
            load(&figures.connections),
            load(&figures.blocked)
        );
    }
    if is_wanted("persistence") {
        let _ = write!(text, "# Persistence\r\nloading:0\r\naof_enabled:1\r\n\r\n");
    }
    if is_wanted("stats") {
        let _ = write!(
            text,
            "# Stats\r\ntotal_connections_received:{}\r\ntotal_commands_processed:{}\r\nexpired_keys:{}\r\n\
             rejected_connections:{}\r\n\r\n",
            load(&figures.accepted),
            figures.commands(),
            load(&figures.expired),
            load(&figures.refused)
        );
    }
    if is_wanted("replication") {
        let _ = write!(text, "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n");
    }
    if is_wanted("keyspace") {
        // Counting visits each key, so that it is left out unless it is asked for.
        text.push_str("# Keyspace\r\n");
        if !asked.is_empty() {
            let own = call.space.database;
            for database in call.space.usable_databases() {
                call.space.database = database;
                let (mut keys, mut expires) = (0u64, 0u64);
                call.space.each_key(b"", |_, header| {
                    keys += 1;
                    expires += u64::from(header.expires_ms != 0);
                    Ok(true)
                })?;
                if keys > 0 {
                    let _ = write!(text, "db{database}:keys={keys},expires={expires},avg_ttl=0\r\n");
                }
            }
            call.space.database = own;
        }
    }
    call.out.verbatim(&text);
    Ok(())
}

/// Returns what `CONFIG GET` shows. None of these settings can be changed.
fn settings(call: &Call) -> Vec<(&'static str, String)> {
    vec![
        ("appendfsync", "always".to_owned()),
        ("appendonly", "yes".to_owned()),
        ("databases", DATABASES.to_string()),
        ("maxmemory", "0".to_owned()),
        ("maxmemory-policy", "noeviction".to_owned()),
        ("notify-keyspace-events", "AKE".to_owned()),
        ("proto-max-bulk-len", call.around.most_bytes.to_string()),
        ("save", String::new()),
        ("timeout", "0".to_owned()),
    ]
}

pub fn config(call: &mut Call) -> Done {
    if !call.is(1, "get") {
        return Err(unknown_subcommand(call, "config", "only CONFIG GET is supported"));
    }
    if call.len() < 3 {
        return Err(Fault::wrong_arity("config|get"));
    }
    let asked: Vec<Vec<u8>> = call.from(2).map(<[u8]>::to_ascii_lowercase).collect();
    let is_asked = |name: &str| asked.iter().any(|pattern| glob::matches(pattern, name.as_bytes()));
    let found: Vec<_> = settings(call).into_iter().filter(|(name, _)| is_asked(name)).collect();
    call.out.map(found.len());
    for (name, value) in found {
        call.out.bulk(name.as_bytes());
        call.out.bulk(value.as_bytes());
    }
    Ok(())
}

/// Returns the fault of a subcommand that does not exist.
pub fn unknown_subcommand(call: &Call, command: &str, advice: &str) -> Fault {
    let word = String::from_utf8_lossy(call.words.get(1).unwrap_or_default()).into_owned();
    Fault::new(format!("ERR unknown subcommand '{word}' of '{command}': {advice}"))
}

fn describe(call: &mut Call, spec: &Spec) {
    call.out.array(6);
    call.out.bulk(spec.name.as_bytes());
    call.out.integer(spec.arity.into());
    let flag = if spec.writes() { "write" } else { "readonly" };
    let flags = [flag, "fast"];
    let flags = if spec.is_quick { &flags[..] } else { &flags[..1] };
    call.out.set(flags.len());
    flags.iter().for_each(|flag| call.out.simple(flag));
    for number in [spec.keys.0, spec.keys.1, spec.keys.2] {
        call.out.integer(number.into());
    }
}

pub fn command(call: &mut Call) -> Done {
    let Some(subcommand) = call.words.get(1) else {
        call.out.array(COMMANDS.len());
        COMMANDS.iter().for_each(|spec| describe(call, spec));
        return Ok(());
    };
    match subcommand.to_ascii_lowercase().as_slice() {
        b"count" => call.out.count(COMMANDS.len()),
        b"docs" => call.out.map(0),
        b"list" => {
            call.out.array(COMMANDS.len());
            COMMANDS.iter().for_each(|spec| call.out.bulk(spec.name.as_bytes()));
        }
        b"info" => {
            call.out.array(call.len() - 2);
            for name in call.from(2) {
                match find(name) {
                    Some(index) => describe(call, &COMMANDS[index]),
                    None => call.out.null_array(),
                }
                call.check_reply()?;
            }
        }
        _ => return Err(unknown_subcommand(call, "command", "there are COUNT, DOCS, INFO and LIST")),
    }
    Ok(())
}

pub fn publish(call: &mut Call) -> Done {
    let (channel, text) = (call.word(1), call.word(2));
    let listeners = call.around.hub.listeners(channel);
    call.space.messages.push((channel.to_vec(), text.to_vec()));
    call.out.count(listeners);
    Ok(())
}

pub fn pubsub(call: &mut Call) -> Done {
    let hub = &call.around.hub;
    if call.is(1, "channels") {
        let mut channels = Items::new(call);
        hub.each_channel(call.words.get(2).unwrap_or(b"*"), |name| channels.push(name))?;
        channels.reply(call)?;
    } else if call.is(1, "numsub") {
        call.out.array((call.len() - 2) * 2);
        for channel in call.from(2) {
            call.out.bulk(channel);
            call.out.count(hub.subscribers(channel));
        }
    } else if call.is(1, "numpat") {
        call.out.count(hub.patterns());
    } else {
        return Err(unknown_subcommand(call, "pubsub", "there are CHANNELS, NUMSUB and NUMPAT"));
    }
    Ok(())
}
