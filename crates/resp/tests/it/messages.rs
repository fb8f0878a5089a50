use crate::client::Served;
use std::collections::HashSet;

#[test]
fn messages_reach_subscribers() {
    let served = Served::start();
    let (mut listener, mut speaker) = (served.client(), served.client());
    listener.check(&[
        ("SUBSCRIBE news", "[\"subscribe\", \"news\", 1]"),
        ("PSUBSCRIBE n*", "[\"psubscribe\", \"n*\", 2]"),
        ("PING", "[\"pong\", \"\"]"),
    ]);
    assert!(listener.ask("GET a").contains("are allowed in this context"));
    speaker.check(&[
        ("PUBLISH news hello", "2"),
        ("PUBSUB CHANNELS", "[\"news\"]"),
        ("PUBSUB NUMSUB news other", "[\"news\", 1, \"other\", 0]"),
        ("PUBSUB NUMPAT", "1"),
    ]);
    assert_eq!(listener.reply(), "[\"message\", \"news\", \"hello\"]");
    assert_eq!(listener.reply(), "[\"pmessage\", \"n*\", \"news\", \"hello\"]");
    listener.check(&[
        ("UNSUBSCRIBE", "[\"unsubscribe\", \"news\", 1]"),
        ("PUNSUBSCRIBE n*", "[\"punsubscribe\", \"n*\", 0]"),
        ("UNSUBSCRIBE", "[\"unsubscribe\", nil, 0]"),
        ("GET a", "nil"),
    ]);
    speaker.check(&[
        ("PUBLISH news hello", "0"),
        ("MULTI", "OK"),
        ("SET a 1", "QUEUED"),
        ("PUBLISH x y", "QUEUED"),
        ("EXEC", "[OK, 0]"),
    ]);
    // In version 3 other commands go on, and messages are marked.
    assert!(listener.ask("HELLO 3").starts_with('{'));
    assert_eq!(listener.ask("SUBSCRIBE x"), ">[\"subscribe\", \"x\", 1]");
    assert_eq!(listener.ask("GET a"), "\"1\"");
    speaker.check(&[("MULTI", "OK"), ("PUBLISH x y", "QUEUED"), ("EXEC", "[1]")]);
    assert_eq!(listener.reply(), ">[\"message\", \"x\", \"y\"]");
    assert_eq!(listener.ask("RESET"), "RESET");
    assert_eq!(speaker.ask("PUBLISH x y"), "0");
}

#[test]
fn changes_of_keys_are_told_whoever_makes_them() {
    let served = Served::start();
    let (mut listener, mut client) = (served.client(), served.client());
    listener.ask("PSUBSCRIBE __key*@0__:*");
    let mut events = |count: usize| -> HashSet<String> {
        (0..count)
            .map(|_| {
                let message = listener.reply();
                message.replace("[\"pmessage\", \"__key*@0__:*\", ", "").replace(']', "")
            })
            .collect()
    };
    let expected = |key: &str, event: &str| {
        HashSet::from([
            format!("\"__keyspace@0__:{key}\", \"{event}\""),
            format!("\"__keyevent@0__:{event}\", \"{key}\""),
        ])
    };
    for (command, key, event) in [
        ("SET a 1", "a", "set"),
        ("INCR a", "a", "incrby"),
        ("EXPIRE a 100", "a", "expire"),
        ("DEL a", "a", "del"),
        ("RPUSH l x", "l", "rpush"),
        ("LPOP l", "l", "del"),
        ("HSET h f v", "h", "hset"),
    ] {
        client.ask(command);
        assert_eq!(events(2), expected(key, event), "{command}");
    }
    client.ask("SET e v PX 20");
    assert_eq!(events(2), expected("e", "set"));
    assert_eq!(events(2), expected("e", "expired"));
    let table = served.host.db.table("redis-0").unwrap().unwrap();
    served.host.db.delete(&table, b"\x01h").unwrap();
    assert_eq!(events(2), expected("h", "del"), "another program removed it");
}
