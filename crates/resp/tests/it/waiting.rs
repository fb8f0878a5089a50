//! Clients that wait for an element.

use crate::client::{Client, Served};
use std::thread;
use std::time::Duration;

fn waits(served: &Served, command: &str) -> Client {
    let mut client = served.client();
    client.send(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    served.await_blocked(1);
    client
}

#[test]
fn a_client_that_has_left_pops_nothing_although_it_has_sent_more() {
    let served = Served::start();
    let mut client = waits(&served, "BLPOP queue 0");
    client.send(&[b"PING"]);
    drop(client);
    served.await_blocked(0);
    served.await_figure("pando_redis_connections", 0);
    served.client().check(&[("RPUSH queue x", "1"), ("LLEN queue", "1")]);
}

#[test]
fn what_a_client_sends_while_it_waits_is_run_afterwards() {
    let served = Served::start();
    let mut client = waits(&served, "BLPOP queue 0");
    client.send(&[b"PING"]);
    thread::sleep(Duration::from_millis(600));
    assert_eq!(served.client().ask("RPUSH queue x"), "1");
    assert_eq!(client.reply(), "[\"queue\", \"x\"]");
    assert_eq!(client.reply(), "PONG");
}

#[test]
fn a_client_that_waits_is_served_whatever_type_other_keys_get() {
    let served = Served::start();
    let mut other = served.client();
    for (command, element, reply) in [
        ("BLPOP a b 0", "RPUSH b x", "[\"b\", \"x\"]"),
        ("BRPOP a b 0", "RPUSH b x", "[\"b\", \"x\"]"),
        ("BLMPOP 0 2 a b LEFT", "RPUSH b x", "[\"b\", [\"x\"]]"),
        ("BLMOVE a c LEFT LEFT 0", "RPUSH a x", "\"x\""),
        ("BRPOPLPUSH a c 0", "RPUSH a x", "\"x\""),
        ("BZPOPMIN a b 0", "ZADD b 1 x", "[\"b\", \"x\", \"1\"]"),
        ("BZMPOP 0 2 a b MIN", "ZADD b 1 x", "[\"b\", [[\"x\", \"1\"]]]"),
    ] {
        let mut client = waits(&served, command);
        // The push wakes the client, which meets a key of another type.
        other.check(&[("SET a text", "OK"), ("RPUSH elsewhere x", "1")]);
        thread::sleep(Duration::from_millis(50));
        if element.contains(" a ") {
            assert_eq!(other.ask("DEL a"), "1");
        }
        assert_eq!(other.ask(element), "1", "{command}");
        assert_eq!(client.reply(), reply, "{command}");
        assert_eq!(other.ask("FLUSHDB"), "OK");
        served.await_blocked(0);
    }
    // Before it waits, it gets an error.
    other.check(&[("SET a text", "OK"), ("RPUSH b x", "1")]);
    assert!(other.ask("BLPOP a b 0").starts_with("-WRONGTYPE"));
}

#[test]
fn a_move_to_a_key_of_another_type_is_an_error_also_after_waiting() {
    let served = Served::start();
    let mut other = served.client();
    other.ask("SET text x");
    for command in ["BLMOVE queue text LEFT LEFT 0", "BRPOPLPUSH queue text 0"] {
        let mut client = waits(&served, command);
        assert_eq!(other.ask("RPUSH queue x"), "1", "{command}");
        assert!(client.reply().starts_with("-WRONGTYPE"), "{command}");
        other.check(&[("LRANGE queue 0 -1", "[\"x\"]"), ("DEL queue", "1")]);
        served.await_blocked(0);
    }
}
