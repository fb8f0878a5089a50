use crate::client::{Client, Served, encoded};
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn a_transaction_runs_as_one_or_not_at_all() {
    let served = Served::start();
    let mut client = served.client();
    client.check(&[
        ("EXEC", "-ERR EXEC without MULTI"),
        ("DISCARD", "-ERR DISCARD without MULTI"),
        ("MULTI", "OK"),
        ("MULTI", "-ERR MULTI calls can not be nested"),
        ("DISCARD", "OK"),
        ("MULTI", "OK"),
        ("SET a 1", "QUEUED"),
        ("INCR a", "QUEUED"),
        ("LPUSH a x", "QUEUED"),
        ("GET a", "QUEUED"),
    ]);
    assert_eq!(served.client().ask("GET a"), "nil", "nothing has run yet");
    client.check(&[
        ("EXEC", "[OK, 2, -WRONGTYPE Operation against a key holding the wrong kind of value, \"2\"]"),
        ("MULTI", "OK"),
        ("SET a 5", "QUEUED"),
        ("NOTHING", "-ERR unknown command 'NOTHING', with args beginning with: "),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        ("GET a", "\"2\""),
        ("MULTI", "OK"),
        ("AUTH x", "-ERR auth is not supported inside MULTI"),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        ("MULTI", "OK"),
        ("EXEC", "[]"),
        ("MULTI", "OK"),
        ("BLPOP nothing 0", "QUEUED"),
        ("EXEC", "[nil]"),
        ("MULTI", "OK"),
        ("SELECT 3", "QUEUED"),
        ("SET there 1", "QUEUED"),
        ("EXEC", "[OK, OK]"),
        ("GET there", "\"1\""),
        ("MOVE there 0", "1"),
        ("GET there", "nil"),
        ("SELECT 0", "OK"),
        ("GET there", "\"1\""),
    ]);
}

#[test]
fn a_watched_key_that_changes_stops_the_transaction() {
    let served = Served::start();
    let (mut one, mut other) = (served.client(), served.client());
    // Every kind of change counts: of a string, of an element, of an expiry, a removal, a creation.
    for (prepare, change) in [
        ("SET k 1", "SET k 1"),
        ("HSET k f 1", "HSET k f 2"),
        ("RPUSH k a", "LSET k 0 b"),
        ("ZADD k 1 a", "ZADD k 2 a"),
        ("SET k 1", "EXPIRE k 100"),
        ("SET k 1", "DEL k"),
        ("PING", "SET k 1"),
        ("SET k 1", "FLUSHDB"),
    ] {
        one.ask("DEL k");
        one.ask(prepare);
        one.check(&[("WATCH k", "OK"), ("MULTI", "OK"), ("SET done 1", "QUEUED")]);
        other.ask(change);
        one.check(&[("EXEC", "nil"), ("EXISTS done", "0")]);
        // Transactions that only read are stopped, too.
        one.check(&[("WATCH k", "OK"), ("MULTI", "OK"), ("GET other", "QUEUED")]);
        other.ask("DEL k");
        other.ask("SET k x");
        one.check(&[("EXEC", "nil")]);
    }
    one.check(&[("WATCH k", "OK"), ("MULTI", "OK"), ("SET done 1", "QUEUED")]);
    other.ask("SET unrelated 1");
    one.check(&[("EXEC", "[OK]"), ("WATCH k", "OK"), ("UNWATCH", "OK")]);
    other.ask("SET k 2");
    one.check(&[("MULTI", "OK"), ("SET done 2", "QUEUED"), ("EXEC", "[OK]")]);
    one.ask("SET k 1 PX 400");
    one.check(&[("WATCH k", "OK"), ("MULTI", "OK"), ("SET done 3", "QUEUED")]);
    thread::sleep(Duration::from_millis(410));
    one.check(&[("EXEC", "nil"), ("GET done", "\"2\"")]);
}

#[test]
fn a_watched_key_that_was_absent_and_is_absent_again_stops_the_transaction() {
    let served = Served::start();
    let (mut one, mut other) = (served.client(), served.client());
    for between in [
        &["SET w 1", "DEL w"][..],
        &["RPUSH w x", "LPOP w"],
        &["SET w 1", "FLUSHALL"],
        &["SET other 1", "RENAME other w", "DEL w"],
        &["SET other 1", "COPY other w", "DEL w"],
        &["SET w 1 PX 1"],
        &["MULTI", "SET w 1", "DEL w", "EXEC"],
    ] {
        for unit in ["SET w 2", "GET a"] {
            one.check(&[("WATCH w", "OK")]);
            between.iter().for_each(|command| drop(other.ask(command)));
            thread::sleep(Duration::from_millis(5));
            one.check(&[("MULTI", "OK"), (unit, "QUEUED"), ("EXEC", "nil"), ("EXISTS w", "0")]);
        }
    }
    // A key that stays absent stops nothing, whatever happens to others, and neither does the removal of one that had
    // expired before.
    one.check(&[("SET w 1 PX 1", "OK")]);
    thread::sleep(Duration::from_millis(5));
    one.check(&[("WATCH w", "OK"), ("MULTI", "OK"), ("SET w 3", "QUEUED")]);
    other.check(&[("DEL w", "0"), ("SET unrelated 1", "OK"), ("DEL unrelated", "1")]);
    one.check(&[("EXEC", "[OK]"), ("GET w", "\"3\"")]);
}

#[test]
fn a_bank_keeps_its_sum() {
    let served = Served::start();
    let mut client = served.client();
    for account in 0..5 {
        client.ask(&format!("SET account:{account} 100"));
    }
    let address = served.door.address();
    thread::scope(|scope| {
        for seed in 0..4u64 {
            scope.spawn(move || {
                let mut client = Client::connect(address);
                let (mut random, mut moved) = (seed + 1, 0);
                while moved < 100 {
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    let (from, to) = ((random >> 33) % 5, (random >> 40) % 5);
                    if from == to {
                        continue;
                    }
                    client.ask(&format!("WATCH account:{from} account:{to}"));
                    let read = |client: &mut Client, account: u64| -> i64 {
                        let text = client.ask(&format!("GET account:{account}"));
                        text.trim_matches('"').parse().unwrap()
                    };
                    let (a, b) = (read(&mut client, from), read(&mut client, to));
                    client.ask("MULTI");
                    client.ask(&format!("SET account:{from} {}", a - 1));
                    client.ask(&format!("SET account:{to} {}", b + 1));
                    moved += u64::from(client.ask("EXEC") != "nil");
                }
            });
        }
    });
    let all = client.ask("MGET account:0 account:1 account:2 account:3 account:4");
    let sum: i64 =
        all.trim_matches(['[', ']']).split(", ").map(|n| n.trim_matches('"').parse::<i64>().unwrap()).sum();
    assert_eq!(sum, 500, "{all}");
}

#[test]
fn clients_that_change_one_key_do_not_hinder_each_other() {
    let served = Served::start();
    let address = served.door.address();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(move || {
                let mut client = Client::connect(address);
                (0..100).for_each(|_| assert!(client.ask("INCR counter").parse::<i64>().is_ok()));
            });
        }
    });
    assert_eq!(served.client().ask("GET counter"), "\"800\"");
    // A writer that is no client conflicts, and is not lost.
    let text = served.door.prometheus();
    assert!(text.contains("pando_redis_commands_total{command=\"incr\"} 800"), "{text}");
}

#[test]
fn replies_of_a_pipeline_are_in_order() {
    let served = Served::start();
    let mut client = served.client();
    let mut pipeline = Vec::new();
    for number in 0..5000 {
        let text = number.to_string();
        pipeline.extend(encoded(&[b"SET", b"k", text.as_bytes()]));
        pipeline.extend(encoded(&[b"GET", b"k"]));
        pipeline.extend(encoded(&[b"KEYS", b"*"]));
        pipeline.extend(encoded(&[b"NOTHING"]));
    }
    let mut stream = client.stream.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || stream.write_all(&pipeline).unwrap());
        for number in 0..5000 {
            assert_eq!(client.reply(), "OK");
            assert_eq!(client.reply(), format!("\"{number}\""));
            assert_eq!(client.reply(), "[\"k\"]");
            assert!(client.reply().starts_with("-ERR unknown command"));
        }
    });
}

#[test]
fn a_pop_waits_for_a_push() {
    let served = Served::start();
    let (mut waiting, mut pushing) = (served.client(), served.client());
    waiting.send(&[b"BLPOP", b"one", b"two", b"10"]);
    thread::sleep(Duration::from_millis(50));
    pushing.ask("RPUSH two x y");
    assert_eq!(waiting.reply(), "[\"two\", \"x\"]");
    assert_eq!(waiting.ask("BRPOP two 1"), "[\"two\", \"y\"]");
    let begun = Instant::now();
    assert_eq!(waiting.ask("BLPOP two 0.1"), "nil");
    assert!(begun.elapsed() >= Duration::from_millis(100));
    waiting.send(&[b"BLMOVE", b"a", b"b", b"LEFT", b"LEFT", b"0"]);
    thread::sleep(Duration::from_millis(20));
    pushing.ask("RPUSH a moved");
    assert_eq!(waiting.reply(), "\"moved\"");
    waiting.send(&[b"BZPOPMIN", b"z", b"5"]);
    thread::sleep(Duration::from_millis(20));
    pushing.ask("ZADD z 2 b 1 a");
    assert_eq!(waiting.reply(), "[\"z\", \"a\", \"1\"]");
    assert_eq!(
        waiting.ask("BLPOP z 1"),
        "-WRONGTYPE Operation against a key holding the wrong kind of value"
    );
    assert_eq!(waiting.ask("BLPOP x -1"), "-ERR timeout is negative");
    // Each element goes to one of those who wait.
    let address = served.door.address();
    let popped: usize = thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(move || {
                    let mut client = Client::connect(address);
                    (0..).take_while(|_| client.ask("BLPOP queue 0.5") != "nil").count()
                })
            })
            .collect();
        (0..40).for_each(|number| drop(pushing.ask(&format!("RPUSH queue {number}"))));
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert_eq!(popped, 40);
}
