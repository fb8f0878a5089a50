use crate::client::{Client, Served, encoded};
use pando::Database;
use pando_resp::{Options, Permission};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::thread;
use std::time::{Duration, Instant};

/// What a client gets for these bytes, until the connection ends.
fn all_replies(served: &Served, bytes: &[u8]) -> String {
    let mut client = served.client();
    let _ = client.stream.write_all(bytes);
    let _ = client.stream.shutdown(Shutdown::Write);
    let mut replies = Vec::new();
    let _ = client.stream.read_to_end(&mut replies);
    String::from_utf8_lossy(&replies).into_owned()
}

#[test]
fn garbage_gets_an_error_and_ends_the_connection() {
    let served = Served::start();
    for (bytes, said) in [
        (&b"*1\r\n$999999999999\r\n"[..], "-ERR Protocol error: invalid bulk length"),
        (b"*-5\r\n*3\r\nxx\r\n", "-ERR Protocol error: expected '$'"),
        (b"*99999999\r\n", "-ERR Protocol error: invalid multibulk length"),
        (b"SET \"a b\r\n", "-ERR Protocol error: unbalanced quotes"),
        (b"\x00\x01\x02\r\n", "-ERR unknown command"),
        (b"*2\r\n$3\r\nGET\r\n$3\r\nabcd\r\n", "-ERR Protocol error: expected the end"),
    ] {
        let replies = all_replies(&served, bytes);
        assert!(replies.starts_with(said), "{}: {replies}", String::from_utf8_lossy(bytes));
    }
    // The replies of what came before are not lost.
    let replies = all_replies(&served, b"SET a 1\r\nGET a\r\n*1\r\n!\r\nGET a\r\n");
    assert!(replies.starts_with("+OK\r\n$1\r\n1\r\n-ERR Protocol error"), "{replies}");
    let mut random = 7u64;
    for _ in 0..300 {
        let bytes: Vec<u8> = (0..200)
            .map(|_| {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                b"*$\r\n0123456789-+ \"'abcGETset\x00\xff"[(random >> 33) as usize % 30]
            })
            .collect();
        all_replies(&served, &bytes);
    }
    assert_eq!(served.client().ask("GET a"), "\"1\"");
}

#[test]
fn a_million_commands_without_reading_the_replies() {
    let served = Served::start();
    let mut client = served.client();
    client.ask_words(&[b"SET", b"long", &vec![b'x'; 4000]]);
    let mut stream = client.stream.try_clone().unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let pipeline: Vec<u8> = (0..1000).flat_map(|_| encoded(&[b"GET", b"long"])).collect();
    let written = (0..1000).take_while(|_| stream.write_all(&pipeline).is_ok()).count();
    assert!(written < 1000, "the server stopped reading");
    // Others are served, and the replies that were read are right.
    let begun = Instant::now();
    assert_eq!(served.client().ask("INCR n"), "1");
    assert!(begun.elapsed() < Duration::from_secs(20));
    for _ in 0..1000 {
        assert_eq!(client.reply().len(), 4002);
    }
}

#[test]
fn long_commands_of_many_clients_share_a_bound() {
    let served =
        Served::with(Options { receiving_bytes: 4 << 20, command_bytes: 2 << 20, ..Options::default() });
    let mut clients: Vec<Client> = (0..5).map(|_| served.client()).collect();
    let (mut refused, half) = (0, vec![b'x'; 1 << 20]);
    for client in &mut clients {
        let _ =
            client.stream.write_all(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", 2_000_000).as_bytes());
        let _ = client.stream.write_all(&half);
        thread::sleep(Duration::from_millis(50));
    }
    for client in &mut clients {
        client.stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        refused +=
            usize::from(client.try_reply().is_some_and(|reply| reply.contains("too many long commands")));
    }
    assert!((1..5).contains(&refused), "{refused} were refused");
    drop(clients);
    let (mut client, begun) = (served.client(), Instant::now());
    while client.ask_words(&[b"SET", b"k", &half]) != "OK" {
        assert!(begun.elapsed() < Duration::from_secs(20), "the memory does not come back");
        thread::sleep(Duration::from_millis(20));
        client = served.client();
    }
    let reply = all_replies(&served, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3000000\r\n");
    assert!(reply.contains("the command is too long"), "{reply}");
}

#[test]
fn long_replies_of_many_clients_share_a_bound() {
    const LONG: usize = 3 << 20;
    let served = Served::with(Options { replying_bytes: 2 * LONG + (1 << 20), ..Options::default() });
    let (mut slow, mut third) = ([served.client(), served.client()], served.client());
    assert_eq!(third.ask_words(&[b"SET", b"long", &vec![b'x'; LONG]]), "OK");
    // More than the system holds for a connection, so that its thread waits with a reply in its hands.
    for client in &mut slow {
        (0..40).for_each(|_| client.send(&[b"GET", b"long"]));
    }
    wait_until_stuck(&served, 2 * LONG);
    assert!(third.ask("GET long").contains("too many long replies"));
    // A short one always fits.
    assert_eq!(third.ask("INCR n"), "1");
    for client in &mut slow {
        (0..40).for_each(|at| assert_eq!(client.reply().len(), LONG + 2, "reply {at}"));
    }
    assert_eq!(third.ask("GET long").len(), LONG + 2, "the memory is free again");
}

/// Waits until long replies have had this memory for half a second.
fn wait_until_stuck(served: &Served, bytes: usize) {
    let (until, mut since) = (Instant::now() + Duration::from_secs(60), Instant::now());
    while since.elapsed() < Duration::from_millis(500) {
        let figures = served.door.prometheus();
        let figure = figures.lines().find_map(|line| line.strip_prefix("pando_redis_replying_bytes "));
        if figure.unwrap().parse::<usize>().unwrap() < bytes {
            since = Instant::now();
        }
        assert!(Instant::now() < until, "{figure:?} bytes of replies wait");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn connections_beyond_the_limit_are_refused() {
    let served = Served::with(Options { connections: 3, ..Options::default() });
    let mut clients: Vec<Client> = (0..3).map(|_| served.client()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.ask("PING"), "PONG"));
    assert_eq!(served.client().reply(), "-ERR max number of clients reached");
    clients.pop();
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let mut client = served.client();
        client.send(&[b"PING"]);
        if client.try_reply().is_some_and(|reply| reply == "PONG") {
            break;
        }
        assert!(Instant::now() < until);
    }
}

#[test]
fn tokens_say_what_a_client_may_do() {
    let served = Served::start();
    served.client().ask("SET a 1");
    assert!(served.client().ask("AUTH x").starts_with("-ERR AUTH was called, but this server has no tokens"));
    *served.host.tokens.lock().unwrap() = vec![("reads", Permission::Read), ("writes", Permission::Write)];
    let mut client = served.client();
    client.check(&[
        ("GET a", "-NOAUTH Authentication required."),
        ("SUBSCRIBE a", "-NOAUTH Authentication required."),
        ("AUTH wrong", "-WRONGPASS invalid username-password pair or user is disabled."),
        ("AUTH reads", "OK"),
        ("GET a", "\"1\""),
        ("SET a 2", "-NOPERM this token has no permission to run the 'set' command"),
        ("PUBLISH a 2", "-NOPERM this token has no permission to run the 'publish' command"),
        ("MULTI", "OK"),
        ("DEL a", "-NOPERM this token has no permission to run the 'del' command"),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        ("AUTH anybody writes", "OK"),
        ("SET a 2", "OK"),
    ]);
    assert!(served.client().ask("HELLO 3 AUTH default writes").starts_with('{'));
    assert!(served.client().ask("HELLO 3").starts_with("-NOAUTH"));
    served.host.tokens.lock().unwrap().pop();
    assert_eq!(client.ask("SET a 3"), "-NOAUTH Authentication required.", "the token was revoked");
    let long = encoded(&[b"SET", b"a", &vec![0; 20_000]]);
    assert!(all_replies(&served, &long).contains("unauthenticated bulk length"));
}

#[test]
fn only_the_database_whose_table_has_other_contents_is_refused() {
    let db = Database::builder().in_memory().unwrap();
    let table = db.ensure_table("redis-3").unwrap();
    db.put(&table, "key", "value").unwrap();
    let served = Served::over(db.clone(), Options::default());
    let mut client = served.client();
    let refused = |reply: String| assert!(reply.starts_with("-ERR table \"redis-3\" is not"), "{reply}");
    client.check(&[("SET a 1", "OK"), ("GET a", "\"1\"")]);
    refused(client.ask("SELECT 3"));
    refused(client.ask("MOVE a 3"));
    refused(client.ask("COPY a b DB 3"));
    client.check(&[("MULTI", "OK"), ("MOVE a 3", "QUEUED"), ("SET b 2", "QUEUED"), ("SELECT 3", "QUEUED")]);
    refused(client.ask("EXEC").trim_start_matches('[').to_owned());
    // A command that is refused leaves the connection in the database that it had.
    client.check(&[("GET b", "\"2\""), ("SELECT 4", "OK"), ("SET c 1", "OK")]);
    assert!(client.ask("INFO keyspace").contains("db4:keys=1"), "the others are counted");
    assert_eq!(client.ask("FLUSHALL"), "OK", "the others are emptied");
    assert_eq!(db.get(&table, "key").unwrap().unwrap(), b"value");
    // The database is served as soon as the table has another name.
    db.drop_table("redis-3").unwrap();
    client.check(&[("SELECT 3", "OK"), ("SET d 1", "OK"), ("GET d", "\"1\""), ("DBSIZE", "1")]);
}

#[test]
fn a_table_that_appears_in_place_of_a_database_is_refused() {
    let served = Served::start();
    let (mut client, mut other) = (served.client(), served.client());
    client.check(&[("SELECT 3", "OK"), ("SET a 1", "OK")]);
    other.check(&[("SELECT 5", "OK"), ("SET a 1", "OK"), ("SELECT 0", "OK"), ("SET a 1", "OK")]);
    let db = &served.host.db;
    for name in ["redis-3", "redis-5"] {
        db.drop_table(name).unwrap();
        let table = db.ensure_table(name).unwrap();
        db.put(&table, "key", "value").unwrap();
    }
    for command in ["SET a 1", "GET a", "FLUSHDB", "WATCH a"] {
        let reply = client.ask(command);
        assert!(reply.starts_with("-ERR table \"redis-3\" is not"), "{command}: {reply}");
    }
    // A database that is dropped meanwhile is empty, and usable.
    db.drop_table("redis-0").unwrap();
    other.check(&[("GET a", "nil"), ("SET a 2", "OK"), ("GET a", "\"2\""), ("MGET a", "[\"2\"]")]);
    db.drop_table("redis-0").unwrap();
    other.check(&[("SET a 3", "OK"), ("GET a", "\"3\"")]);
}

#[test]
fn the_replies_of_a_transaction_are_bounded() {
    let served = Served::start();
    let mut client = served.client();
    client.ask_words(&[b"SET", b"long", &vec![b'x'; 60 << 20]]);
    for reads in ["GET long", "GETEX long"] {
        let transaction =
            format!("MULTI\r\n{}SET done 1\r\nEXEC\r\nQUIT\r\n", format!("{reads}\r\n").repeat(6));
        let mut client = served.client();
        client.stream.write_all(transaction.as_bytes()).unwrap();
        let mut replies = Vec::new();
        client.stream.read_to_end(&mut replies).unwrap();
        assert!(replies.len() < 257 << 20, "{} bytes", replies.len());
        let end = String::from_utf8_lossy(&replies[replies.len() - 200..]).into_owned();
        assert!(end.contains("-ERR the reply is too long") && end.ends_with("+OK\r\n+OK\r\n"), "{end}");
    }
    assert_eq!(client.ask("GET done"), "\"1\"");
}

#[test]
fn a_request_of_http_runs_nothing_of_its_body() {
    let served = Served::start();
    assert_eq!(served.client().ask("SET a 1"), "OK");
    let body = "FLUSHALL\r\nSET a 2\r\n";
    for head in [
        "POST / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "post /x HTTP/1.0\r\n\r\n",
        // A client of HTTP may begin with any method, and with any header.
        "GET / HTTP/1.1\r\n\r\n",
        "PUT /x HTTP/1.1\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "FETCH / HTTP/1.1\r\nhOST: localhost\r\n\r\n",
        "accept: */*\r\nHost: localhost\r\n\r\n",
        "*1\r\n$4\r\nPOST\r\n",
        "MULTI\r\nHost: localhost\r\nEXEC\r\n",
    ] {
        let replies = all_replies(&served, format!("{head}{body}").as_bytes());
        assert!(!replies.contains(":1") && !replies.contains("+OK\r\n+OK"), "{head}: {replies}");
        assert_eq!(served.client().ask("GET a"), "\"1\"", "{head}");
    }
    // What came before has its reply, and keys and values may look like HTTP.
    assert_eq!(all_replies(&served, b"SET POST Host:\r\nPOST / HTTP/1.1\r\nGET POST\r\n"), "+OK\r\n");
    served.client().check(&[("GET POST", "\"Host:\""), ("GETRANGE POST 0 -1", "\"Host:\"")]);
}

#[test]
fn a_client_without_a_token_is_disconnected_after_a_time() {
    let patience = Duration::from_millis(300);
    let served = Served::with(Options { authentication: patience, ..Options::default() });
    let mut early = served.client();
    assert_eq!(early.ask("PING"), "PONG");
    thread::sleep(patience * 3);
    assert_eq!(early.ask("PING"), "PONG", "no token is needed");
    *served.host.tokens.lock().unwrap() = vec![("secret", Permission::Read)];
    let mut knows = served.client();
    assert_eq!(knows.ask("AUTH secret"), "OK");
    let (begun, mut silent, mut slow) = (Instant::now(), served.client(), served.client());
    // A byte now and then does not help.
    let ended = (0..200).find(|_| {
        thread::sleep(patience / 10);
        slow.stream.write_all(b" ").is_err()
    });
    assert!(ended.is_some());
    for client in [&mut silent, &mut slow, &mut early] {
        if let Some(reply) = client.try_reply() {
            assert_eq!(reply, "-NOAUTH this connection has not sent a valid token in time");
            assert_eq!(client.try_reply(), None, "the connection is closed");
        }
    }
    assert!(begun.elapsed() >= patience && begun.elapsed() < Duration::from_secs(15));
    assert_eq!(knows.ask("GET a"), "nil");
    // A token that is revoked gives no more time than none.
    served.host.tokens.lock().unwrap()[0].0 = "other";
    assert!(knows.try_reply().is_some_and(|reply| reply.starts_with("-NOAUTH")));
}
