use crate::client::Served;
use std::thread::sleep;
use std::time::{Duration, Instant};

#[test]
fn moments_are_set_read_and_removed() {
    let served = Served::start();
    served.client().check(&[
        ("TTL a", "-2"),
        ("SET a 1", "OK"),
        ("TTL a", "-1"),
        ("EXPIRE a 100", "1"),
        ("TTL a", "100"),
        ("EXPIRE a 200 LT", "0"),
        ("EXPIRE a 200 GT", "1"),
        ("EXPIRE a 50 NX", "0"),
        ("EXPIRE a 50 NX XX", "-ERR NX and XX, GT or LT options at the same time are not compatible"),
        ("INCR a", "2"),
        ("TTL a", "200"),
        ("APPEND a 0", "2"),
        ("TTL a", "200"),
        ("SET a 1 KEEPTTL", "OK"),
        ("TTL a", "200"),
        ("SET a 1", "OK"),
        ("TTL a", "-1"),
        ("PERSIST a", "0"),
        ("EXPIREAT a 9999999999", "1"),
        ("EXPIRETIME a", "9999999999"),
        ("PEXPIRETIME a", "9999999999000"),
        ("RENAME a b", "OK"),
        ("EXPIRETIME b", "9999999999"),
        ("PERSIST b", "1"),
        ("TTL b", "-1"),
        ("GETEX b EX 30", "\"1\""),
        ("TTL b", "30"),
        ("GETEX b PERSIST", "\"1\""),
        ("TTL b", "-1"),
        ("SETEX b 10 v", "OK"),
        ("EXPIRE b -1", "1"),
        ("EXISTS b", "0"),
        ("EXPIRE nothing 10", "0"),
        ("EXPIRE nothing 10 SOMETIMES", "-ERR Unsupported option SOMETIMES"),
        ("EXPIRE b 9223372036854775807", "-ERR invalid expire time in 'expire' command"),
    ]);
}

#[test]
fn what_has_expired_is_hidden_at_once_and_removed_later() {
    let served = Served::start();
    let mut client = served.client();
    for command in ["SET s v", "RPUSH l a b", "SET kept v"] {
        client.ask(command);
    }
    client.check(&[("PEXPIRE s 300", "1"), ("PEXPIRE l 300", "1"), ("PEXPIRE kept 60000", "1")]);
    sleep(Duration::from_millis(310));
    client.check(&[
        ("GET s", "nil"),
        ("LRANGE l 0 -1", "[]"),
        ("TYPE l", "none"),
        ("KEYS *", "[\"kept\"]"),
        ("DBSIZE", "1"),
        // A new list of the same name has nothing of the old one.
        ("RPUSH l c", "1"),
        ("TTL l", "-1"),
        ("LRANGE l 0 -1", "[\"c\"]"),
    ]);
    let table = served.host.db.table("redis-0").unwrap().unwrap();
    let count = || served.host.db.snapshot().unwrap().range(&table, ..).unwrap().count();
    let until = Instant::now() + Duration::from_secs(20);
    // The layout, two headers, an element, an expiry.
    while count() > 5 {
        assert!(Instant::now() < until, "{} records remain", count());
        sleep(Duration::from_millis(20));
    }
    assert_eq!(count(), 5);
    client.check(&[("GET kept", "\"v\""), ("LRANGE l 0 -1", "[\"c\"]")]);
}
