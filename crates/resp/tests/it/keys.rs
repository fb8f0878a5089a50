use crate::client::Served;

#[test]
fn keys_of_any_type() {
    let served = Served::start();
    let mut client = served.client();
    client.check(&[
        ("SET s 1", "OK"),
        ("RPUSH l a b", "2"),
        ("HSET h f v", "1"),
        ("TYPE l", "list"),
        ("TYPE h", "hash"),
        ("TYPE nothing", "none"),
        ("RENAME l m", "OK"),
        ("LRANGE m 0 -1", "[\"a\", \"b\"]"),
        ("EXISTS l", "0"),
        ("RENAME nothing m", "-ERR no such key"),
        ("RENAMENX m s", "0"),
        ("RENAMENX m l", "1"),
        ("COPY l k", "1"),
        ("COPY l k", "0"),
        ("RPUSH k c", "3"),
        ("LRANGE l 0 -1", "[\"a\", \"b\"]"),
        ("COPY s k REPLACE", "1"),
        ("GET k", "\"1\""),
        ("DBSIZE", "4"),
        ("KEYS ?", "[\"h\", \"k\", \"l\", \"s\"]"),
        ("DEL h k nothing", "2"),
        ("UNLINK s", "1"),
        ("SELECT 1", "OK"),
        ("DBSIZE", "0"),
        ("SET s other", "OK"),
        ("SELECT 16", "-ERR DB index is out of range"),
        ("SELECT 0", "OK"),
        ("GET s", "nil"),
        ("FLUSHDB", "OK"),
        ("DBSIZE", "0"),
        ("SELECT 1", "OK"),
        ("GET s", "\"other\""),
        ("FLUSHALL ASYNC", "OK"),
        ("GET s", "nil"),
        ("RANDOMKEY", "nil"),
    ]);
}

#[test]
fn a_scan_meets_every_key_once() {
    let served = Served::start();
    let mut client = served.client();
    for number in 0..200 {
        client.ask(&format!("SET key:{number:03} {number}"));
    }
    client.ask("SADD set a b");
    let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
    loop {
        let reply = client.ask(&format!("SCAN {cursor} COUNT 7 MATCH key:* TYPE string"));
        let (next, keys) = reply.trim_matches(['[', ']']).split_once(", [").unwrap();
        found.extend(keys.split(", ").filter(|key| !key.is_empty()).map(str::to_owned));
        cursor = next.trim_matches('"').to_owned();
        if cursor == "0" {
            break;
        }
    }
    let expected: Vec<String> = (0..200).map(|number| format!("\"key:{number:03}\"")).collect();
    assert_eq!(found, expected);
    assert!(client.ask("SCAN 999999").starts_with("-ERR invalid cursor"));
    assert_eq!(client.ask("SCAN 0 COUNT 0"), "-ERR syntax error");
    assert!(client.ask("RANDOMKEY").starts_with('"'));
}

#[test]
fn a_table_that_is_dropped_is_an_empty_database() {
    let served = Served::start();
    let mut client = served.client();
    client.check(&[("SET a 1", "OK"), ("GET a", "\"1\"")]);
    served.host.db.drop_table("redis-0").unwrap();
    client.check(&[("GET a", "nil"), ("SET a 2", "OK"), ("GET a", "\"2\"")]);
    served.host.db.drop_table("redis-0").unwrap();
    client.check(&[("INCR a", "1"), ("GET a", "\"1\"")]);
}
