//! Parts of values (`Range`), and of documents (PATCH).

use crate::http::{Reply, Server};

const ENTRIES: &str = "/v1/databases/default/tables/t/entries";

fn started() -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    // With the default, a client that takes nothing would be given up while a slow machine still begins others.
    let server = Server::start_with(dir.path(), &["--head-timeout", "600"]);
    assert_eq!(server.ask("PUT", "/v1/databases/default/tables/t", b"").status, 201);
    (dir, server)
}

#[test]
fn a_range_gets_its_part_of_a_value() {
    let (_dir, server) = started();
    let short = b"0123456789".to_vec();
    let long: Vec<u8> = (0..3_u32 << 20).map(|n| (n % 251) as u8).collect();
    for (key, value) in [("short", &short), ("long", &long), ("empty", &Vec::new())] {
        assert_eq!(server.ask("PUT", &format!("{ENTRIES}/{key}"), value).status, 204);
    }
    let get = |key: &str, headers: &[(&str, &str)]| -> Reply {
        server.ask_with("GET", &format!("{ENTRIES}/{key}"), headers, b"")
    };
    for (key, value) in [("short", &short), ("long", &long)] {
        let length = value.len();
        for (range, start, end) in [
            ("bytes=0-0".to_owned(), 0, 1),
            ("bytes=2-5".to_owned(), 2, 6),
            ("bytes=3-".to_owned(), 3, length),
            ("bytes=-4".to_owned(), length - 4, length),
            (format!("bytes={}-{}", length - 2, length + 7), length - 2, length),
        ] {
            let reply = get(key, &[("range", &range)]);
            assert_eq!(reply.status, 206, "{key} {range}");
            assert!(reply.body == value[start..end], "{key} {range}");
            let shown = format!("bytes {start}-{}/{length}", end - 1);
            assert_eq!(reply.header("content-range"), Some(&*shown), "{key}");
            assert_eq!(reply.header("content-length"), Some(&*(end - start).to_string()));
        }
        // Several ranges, and what cannot be understood, get the whole value.
        for range in ["bytes=0-1,3-4", "lines=0-1", "bytes=x"] {
            let reply = get(key, &[("range", range)]);
            assert!(reply.status == 200 && reply.body == *value, "{key} {range}");
        }
        let reply = get(key, &[("range", &format!("bytes={length}-"))]);
        let shown = format!("bytes */{length}");
        assert_eq!((reply.status, reply.header("content-range")), (416, Some(&*shown)), "{key}");
        assert!(reply.text().contains("urn:pando:problem:range"));
        let head = server.ask_with("HEAD", &format!("{ENTRIES}/{key}"), &[("range", "bytes=0-0")], b"");
        assert_eq!((head.status, head.header("content-length")), (200, Some(&*length.to_string())), "{key}");
        assert_eq!(head.header("accept-ranges"), Some("bytes"));
    }
    assert_eq!(get("empty", &[("range", "bytes=0-")]).status, 416);
    assert_eq!(get("none", &[("range", "bytes=0-")]).status, 404);
    // The condition decides before the range does.
    let tag = get("short", &[]).header("etag").unwrap().to_owned();
    assert_eq!(get("short", &[("range", "bytes=0-0"), ("if-none-match", &tag)]).status, 304);
    assert_eq!(get("short", &[("range", "bytes=0-0"), ("if-match", "\"x\"")]).status, 412);
    let part = get("short", &[("range", "bytes=0-0"), ("if-range", &tag)]);
    assert_eq!((part.status, part.header("etag")), (206, Some(&*tag)));
    for changed in ["\"x\"", &format!("W/{tag}"), "Wed, 21 Oct 2015 07:28:00 GMT"] {
        assert_eq!(get("short", &[("range", "bytes=0-0"), ("if-range", changed)]).status, 200, "{changed}");
    }
    // A tag of a long value is computed if it decides.
    let put = server.ask_with("GET", &format!("{ENTRIES}/long"), &[("if-none-match", "\"x\"")], b"");
    assert_eq!(put.status, 200);
    let of_long = get("long", &[("range", "bytes=1-1"), ("if-range", "\"x\"")]);
    assert!(of_long.status == 200 && of_long.body == long);
}

#[test]
fn a_patch_changes_what_it_names() {
    let (_dir, server) = started();
    let people = "/v1/databases/default/documents/people";
    let schema = "schema=id%20int%20key,name%20text,age%20int%20null,more%20json%20null&unique=by_name=name";
    let rows = concat!(
        r#"{"id":1,"name":"Ann","age":30,"more":{"a":{"b":1,"c":2}}}"#,
        "\n",
        r#"{"id":2,"name":"Bob"}"#,
        "\n"
    );
    assert_eq!(server.ask("POST", &format!("{people}?{schema}"), rows.as_bytes()).status, 200);
    let patch = |key: &str, headers: &[(&str, &str)], body: &str| {
        server.ask_with("PATCH", &format!("{people}/{key}"), headers, body.as_bytes())
    };
    let document = |key: &str| {
        let reply = server.ask("GET", &format!("{people}/{key}"), b"");
        (reply.text().to_owned(), reply.header("etag").unwrap_or_default().to_owned())
    };
    let done = patch("1", &[("content-type", "application/merge-patch+json")], r#"{"age":31}"#);
    assert_eq!(done.status, 204, "{}", done.text());
    let (text, tag) = document("1");
    assert_eq!(text, r#"{"id":1,"name":"Ann","age":31,"more":{"a":{"b":1,"c":2}}}"#);
    assert_eq!(done.header("etag"), Some(&*tag));
    assert!(done.header("pando-commit").is_some());
    // Documents within a column merge at every depth; null removes.
    assert_eq!(patch("1", &[], r#"{"age":null,"more":{"a":{"b":null},"d":[1]}}"#).status, 204);
    assert_eq!(document("1").0, r#"{"id":1,"name":"Ann","age":null,"more":{"a":{"c":2},"d":[1]}}"#);
    assert_eq!(patch("1", &[], "{}").status, 204);
    // Compare and swap.
    let (_, tag) = document("1");
    assert_eq!(patch("1", &[("if-match", "\"x\"")], r#"{"age":1}"#).status, 412);
    assert_eq!(patch("1", &[("if-match", &tag)], r#"{"age":1}"#).status, 204);
    assert_eq!(patch("1", &[("if-match", &tag)], r#"{"age":2}"#).status, 412);
    for (key, body, status) in [
        ("1", r#"{"nothing":1}"#, 400),
        ("1", r#"{"age":"x"}"#, 400),
        ("1", r#"{"name":null}"#, 400),
        ("1", r#"{"id":7}"#, 400),
        ("1", r#"{"id":1}"#, 204),
        ("1", r#"{"name":"Bob"}"#, 409),
        ("1", "[]", 400),
        ("1", "{", 400),
        ("9", "{}", 404),
    ] {
        let reply = patch(key, &[], body);
        assert_eq!(reply.status, status, "{body}: {}", String::from_utf8_lossy(&reply.body));
    }
    let other = patch("1", &[("content-type", "application/json-patch+json")], "[]");
    assert_eq!(other.status, 415);
    // In a transaction, and undone with it.
    let begun = server.ask("POST", "/v1/databases/default/transactions", b"{}");
    let begun: serde_json::Value = serde_json::from_slice(&begun.body).unwrap();
    let token = begun["transaction"].as_str().unwrap();
    assert_eq!(patch("2", &[("pando-transaction", token)], r#"{"age":5}"#).status, 204);
    assert!(document("2").0.contains("\"age\":null"));
    let ended = server.ask("DELETE", &format!("/v1/databases/default/transactions/{token}"), b"");
    assert_eq!(ended.status, 204);
    assert!(document("2").0.contains("\"age\":null"));
}

/// The HTTP library refuses heads in a form to which the server adds a body. A value may have the same bytes.
#[test]
fn a_value_that_looks_like_a_refusal_comes_back_as_it_is() {
    let (_dir, server) = started();
    for status in ["400 Bad Request", "414 URI Too Long", "431 X"] {
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        for (before, after) in [(0, 10), (5000, 2000), (0, 200_000), (0, 1_300_000), (1_500_000, 1_500_000)] {
            let value = [&vec![b'p'; before][..], head.as_bytes(), &vec![b'x'; after]].concat();
            let entry = format!("{ENTRIES}/k");
            assert_eq!(server.ask("PUT", &entry, &value).status, 204);
            let mut client = server.connect();
            client.stream.get_ref().set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
            let reply = client.ask("GET", &entry, &[], b"");
            assert!(reply.status == 200 && reply.body == value, "{status} {before} {after}");
            let range = format!("bytes={before}-");
            let reply = client.ask("GET", &entry, &[("range", &range)], b"");
            assert!(reply.status == 206 && reply.body == value[before..], "{status} {before} {after}");
            // A refusal of the library still gets its body, also after a value and in one piece with its request.
            client
                .send(format!("GET {entry} HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/9.9\r\n\r\n").as_bytes())
                .unwrap();
            let reply = client.reply(false).unwrap();
            assert!(reply.status == 200 && reply.body == value, "{status} {before} {after}");
            let refusal = client.reply(false).unwrap();
            assert!(refusal.status == 400 && refusal.text().contains("not HTTP/1.1"), "{refusal:?}");
        }
    }
}

/// The memory of documents that clients do not take is counted, as that of values is.
#[cfg(feature = "sql")]
#[test]
fn documents_that_clients_do_not_read_are_bounded() {
    let (_dir, server) = started();
    let documents = "/v1/databases/default/documents/d";
    let row = format!("{documents}?schema=id%20int%20key,t%20text");
    assert_eq!(server.ask("POST", &row, b"{\"id\":2,\"t\":\"x\"}\n").status, 200);
    let long = br#"{"sql": "INSERT INTO d VALUES (1, hex(zeroblob(6000000)))"}"#;
    assert_eq!(server.ask("POST", "/v1/databases/default/sql", long).status, 200);
    let before = server.resident_bytes();
    let request = format!("GET {documents}/1 HTTP/1.1\r\nhost: a\r\n\r\n");
    let begin = |_| {
        let mut client = server.connect();
        client.send(request.as_bytes()).unwrap();
        let status = client.reply_head().unwrap().status;
        (client, status)
    };
    let held: Vec<_> = (0..26).map(begin).collect();
    let refused = held.iter().filter(|(_, status)| *status == 503).count();
    assert!((3..12).contains(&refused), "{refused} of {} were refused", held.len());
    let taken = server.resident_bytes().saturating_sub(before);
    assert!(taken < 400 << 20, "{taken} bytes are held");
    drop(held);
    let begun = std::time::Instant::now();
    while begin(0).1 != 200 {
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "the memory does not come back");
    }
}
