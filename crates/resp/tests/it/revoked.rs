//! Tokens that become invalid while a connection waits or listens, and so sends no command.

use crate::client::{Client, Served};
use pando_resp::Permission;
use std::io::Read;
use std::time::{Duration, Instant};

const REVOKED: &str = "-NOAUTH the token of this connection is no longer valid";

fn served() -> (Served, Client) {
    let served = Served::start();
    *served.host.tokens.lock().unwrap() = vec![("old", Permission::Write), ("kept", Permission::Write)];
    let client = authenticated(&served, "kept");
    (served, client)
}

fn authenticated(served: &Served, token: &str) -> Client {
    let mut client = served.client();
    assert_eq!(client.ask(&format!("AUTH {token}")), "OK");
    client
}

fn revoke(served: &Served) {
    served.host.tokens.lock().unwrap().retain(|(token, _)| *token != "old");
}

/// Checks that the connection ends with an error within a second.
#[track_caller]
fn ends(mut client: Client, revoked: Instant) {
    assert_eq!(client.reply(), REVOKED);
    assert!(revoked.elapsed() < Duration::from_secs(1), "{:?}", revoked.elapsed());
    assert_eq!(client.stream.read(&mut [0]).unwrap(), 0, "the connection is closed");
}

#[test]
fn a_client_that_waits_gets_nothing_with_a_revoked_token() {
    let (served, mut other) = served();
    let mut idle = authenticated(&served, "old");
    idle.send(&[b"BLPOP", b"idle", b"0"]);
    served.await_blocked(1);
    let revoked = Instant::now();
    revoke(&served);
    ends(idle, revoked);
    // Also if an element comes at once.
    served.host.tokens.lock().unwrap().push(("old", Permission::Write));
    let mut waits = authenticated(&served, "old");
    waits.send(&[b"BLPOP", b"queue", b"0"]);
    served.await_blocked(1);
    let revoked = Instant::now();
    revoke(&served);
    other.check(&[("RPUSH queue first", "1")]);
    ends(waits, revoked);
    other.check(&[("LRANGE queue 0 -1", "[\"first\"]")]);
    // A token that still reads does not pop either.
    served.host.tokens.lock().unwrap().push(("old", Permission::Write));
    let mut waits = authenticated(&served, "old");
    waits.send(&[b"BLPOP", b"later", b"0"]);
    served.await_blocked(1);
    revoke(&served);
    served.host.tokens.lock().unwrap().push(("old", Permission::Read));
    ends(waits, Instant::now());
}

#[test]
fn a_subscriber_gets_no_message_with_a_revoked_token() {
    let (served, mut speaker) = served();
    let mut listener = authenticated(&served, "old");
    listener.check(&[("SUBSCRIBE news", "[\"subscribe\", \"news\", 1]")]);
    speaker.check(&[("PUBLISH news before", "1")]);
    assert_eq!(listener.reply(), "[\"message\", \"news\", \"before\"]");
    let revoked = Instant::now();
    revoke(&served);
    // The client is silent, and nothing is published.
    ends(listener, revoked);
    let until = Instant::now() + Duration::from_secs(20);
    while speaker.ask("PUBLISH news after") != "0" {
        assert!(Instant::now() < until, "it is still subscribed");
    }
}

#[test]
fn a_subscriber_that_takes_another_token_or_resets_goes_on() {
    let (served, mut speaker) = served();
    let mut listener = authenticated(&served, "old");
    assert!(listener.ask("HELLO 3").starts_with('{'));
    assert_eq!(listener.ask("SUBSCRIBE news"), ">[\"subscribe\", \"news\", 1]");
    assert_eq!(listener.ask("AUTH kept"), "OK");
    let mut reset = authenticated(&served, "old");
    reset.check(&[("SUBSCRIBE news", "[\"subscribe\", \"news\", 1]"), ("RESET", "RESET")]);
    revoke(&served);
    std::thread::sleep(Duration::from_millis(700));
    speaker.check(&[("PUBLISH news x", "1")]);
    assert_eq!(listener.reply(), ">[\"message\", \"news\", \"x\"]");
    reset.check(&[("AUTH kept", "OK"), ("GET a", "nil")]);
}
