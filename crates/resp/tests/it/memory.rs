//! Memory that clients can make the server hold: each kind of it is bounded.

use crate::client::Served;
use pando_resp::Options;
use std::io::Write;

const FULL: &str = "-ERR the server is receiving too many long commands; try again later";
const TOO_MANY_REPLIES: &str = "-ERR too many long replies wait for their clients; try again later";

fn receiving(bytes: usize) -> Served {
    Served::with(Options { receiving_bytes: bytes, ..Options::default() })
}

/// A name of this length that no other number has.
fn name(number: usize, len: usize) -> Vec<u8> {
    let digits = number.to_string();
    format!("{}{digits}", "0".repeat(len - digits.len())).into_bytes()
}

const FIGURE: &str = "pando_redis_receiving_bytes";

/// Runs a command with different words until it is refused. Returns how often it was not.
fn until_refused(served: &Served, command: &str, len: usize) -> usize {
    let mut client = served.client();
    assert!(client.ask("HELLO 3").starts_with('{'));
    let most = 2000;
    let refused = (0..most).find(|&number| {
        let reply = client.ask_words(&[command.as_bytes(), &name(number, len)]);
        assert!(!reply.starts_with('-') || reply == FULL, "{reply}");
        reply == FULL
    });
    drop(client);
    served.await_figure(FIGURE, 0);
    refused.unwrap_or_else(|| panic!("{most} times {command} are accepted"))
}

/// Checks that what `command` keeps is counted, once, until `end`.
fn is_counted_until(served: &Served, command: &str, len: usize, end: &str, replies: usize) {
    let mut client = served.client();
    assert!(client.ask("HELLO 3").starts_with('{'));
    for number in (0..10).chain(0..10) {
        assert!(!client.ask_words(&[command.as_bytes(), &name(number, len)]).starts_with('-'));
    }
    assert_eq!(client.ask("PING"), "PONG");
    let kept = served.figure(FIGURE);
    assert!((10 * len..40 * len).contains(&kept), "{kept} bytes after {command}");
    client.send(&[end.as_bytes()]);
    (0..replies).for_each(|_| assert!(!client.reply().starts_with('-')));
    assert_eq!(client.ask("PING"), "PONG");
    assert_eq!(served.figure(FIGURE), 0, "after {end}");
}

#[test]
fn names_of_subscriptions_are_counted() {
    let served = receiving(2 << 20);
    for (command, end) in [("SUBSCRIBE", "UNSUBSCRIBE"), ("PSUBSCRIBE", "PUNSUBSCRIBE")] {
        let reply = served.client().ask_words(&[command.as_bytes(), &name(0, (64 << 10) + 1)]);
        assert_eq!(reply, "-ERR the name of a channel can have at most 65536 bytes");
        // The server has two copies of a name.
        let count = until_refused(&served, command, 50_000);
        assert!((10..=21).contains(&count), "{count}");
        is_counted_until(&served, command, 50_000, end, 10);
        is_counted_until(&served, command, 50_000, "RESET", 1);
    }
}

#[test]
fn watched_keys_and_names_of_clients_are_counted() {
    let served = receiving(1 << 20);
    let count = until_refused(&served, "WATCH", 3900);
    assert!((150..300).contains(&count), "{count}");
    let served = Served::start();
    let mut client = served.client();
    let keys: Vec<Vec<u8>> = (0..100).map(|number| name(number, 3900)).collect();
    let words: Vec<&[u8]> = [&b"WATCH"[..]].into_iter().chain(keys.iter().map(Vec::as_slice)).collect();
    for end in ["UNWATCH", "RESET", "EXEC", "DISCARD"] {
        assert_eq!(client.ask_words(&words), "OK");
        assert_eq!(client.ask_words(&words), "OK");
        assert_eq!(client.ask("MULTI"), "OK");
        assert!((390_000..800_000).contains(&served.figure(FIGURE)), "{}", served.figure(FIGURE));
        if end == "UNWATCH" {
            assert_eq!(client.ask("DISCARD"), "OK");
        }
        assert!(!client.ask(end).starts_with('-'));
        assert_eq!(client.ask("PING"), "PONG");
        assert_eq!(served.figure(FIGURE), 0, "{end}");
    }
    let reply = client.ask_words(&[b"CLIENT", b"SETNAME", &name(0, (64 << 10) + 1)]);
    assert_eq!(reply, "-ERR the name of a client can have at most 65536 bytes");
    assert_eq!(client.ask_words(&[b"CLIENT", b"SETNAME", &name(0, 64 << 10)]), "OK");
    assert!(client.ask("CLIENT GETNAME").len() > 64 << 10);
}

#[test]
fn many_keys_are_watched_in_a_short_time() {
    let served = Served::start();
    let mut client = served.client();
    let keys: Vec<Vec<u8>> = (0..100_000).map(|number| name(number, 6)).collect();
    let words: Vec<&[u8]> = [&b"WATCH"[..]].into_iter().chain(keys.iter().map(Vec::as_slice)).collect();
    assert_eq!(client.ask_words(&words), "OK");
    assert_eq!(client.ask_words(&words), "OK");
    client.check(&[("MULTI", "OK"), ("SET a 1", "QUEUED"), ("EXEC", "[OK]")]);
    assert_eq!(client.ask_words(&words), "OK");
    served.client().ask("SET 000007 x");
    client.check(&[("MULTI", "OK"), ("SET a 2", "QUEUED"), ("EXEC", "nil")]);
}

#[test]
fn short_commands_of_a_transaction_are_counted() {
    let served = Served::with(Options { command_bytes: 1 << 20, ..Options::default() });
    let mut client = served.client();
    client.ask("MULTI");
    client.stream.write_all(&b"PING\r\n".repeat(10_000)).unwrap();
    let replies: Vec<String> = (0..10_000).map(|_| client.reply()).collect();
    assert_eq!(replies[0], "QUEUED");
    assert_eq!(replies[9999], "-ERR the transaction is too long");
}

#[test]
fn elements_that_a_command_gathers_share_a_bound() {
    let served = Served::with(Options { replying_bytes: 1 << 20, ..Options::default() });
    let mut client = served.client();
    for key in ["one", "other"] {
        for batch in 0..6 {
            let members: Vec<Vec<u8>> =
                (0..100).map(|at| [key.as_bytes(), &name(batch * 100 + at, 1000)].concat()).collect();
            let words: Vec<&[u8]> =
                [b"SADD", key.as_bytes()].into_iter().chain(members.iter().map(Vec::as_slice)).collect();
            assert_eq!(client.ask_words(&words), "100");
        }
    }
    for command in
        ["SUNIONSTORE to one other", "SUNION one other", "ZUNIONSTORE to 2 one other", "ZUNION 2 one other"]
    {
        assert_eq!(client.ask(command), TOO_MANY_REPLIES, "{command}");
        assert_eq!(client.ask("EXISTS to"), "0", "{command}");
        assert_eq!(served.figure("pando_redis_replying_bytes"), 0, "{command}");
    }
    // What is in several sets, or not in the result, is held once or not at all.
    client.check(&[
        ("SUNIONSTORE to one one one", "600"),
        ("SDIFFSTORE to one other", "600"),
        ("SINTERSTORE to one other", "0"),
        ("SINTERCARD 2 one one", "600"),
        ("ZUNIONSTORE to 2 one one", "600"),
    ]);
    for key in 0..1200 {
        assert_eq!(client.ask_words(&[b"SET", &name(key, 1000), b""]), "OK");
    }
    for command in ["SCAN 0 COUNT 1000000", "KEYS *"] {
        assert_eq!(client.ask(command), TOO_MANY_REPLIES, "{command}");
    }
    assert!(client.ask("SSCAN one 0 COUNT 1000000").starts_with("[\"0\", ["));
    // The reply is given back after it was written.
    served.await_figure("pando_redis_replying_bytes", 0);
}
