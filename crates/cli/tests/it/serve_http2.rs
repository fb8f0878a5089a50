//! HTTP/2: the same operations as over HTTP/1, on a connection with many requests at a time.

use crate::http::Server;
use crate::http2::{Client, read, request, run};
use crate::serving::command;
use bytes::Bytes;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const ENTRIES: &str = "/v1/databases/default/tables/t/entries";

/// A server with a table, whose log is kept.
fn started(dir: &Path, options: &[&str]) -> Server {
    let server = Server::start_with(dir, options);
    assert_eq!(server.ask("PUT", "/v1/databases/default/tables/t", b"").status, 201);
    assert_eq!(server.ask("PUT", "/v0/entity?id=k", b"v").status, 201);
    server
}

#[test]
fn every_method_works_as_over_the_first_version() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &[]);
    run(async {
        let mut client = Client::connect(server.address).await;
        let key = format!("{ENTRIES}/apples");
        let put = client.ask("PUT", &key, b"7").await;
        assert_eq!((put.status, &put.body[..]), (204, &b""[..]));
        let commit: u64 = put.header("pando-commit").unwrap().parse().unwrap();
        assert!(commit > 0);
        let got = client.ask("GET", &key, b"").await;
        assert_eq!((got.status, &got.body[..], got.header("content-length")), (200, &b"7"[..], Some("1")));
        let tag = got.header("etag").unwrap().to_owned();
        let mut again = request("GET", &key);
        again.headers_mut().insert("if-none-match", tag.parse().unwrap());
        assert_eq!(client.try_send(again, b"").await.unwrap().status, 304);
        let head = client.ask("HEAD", &key, b"").await;
        assert_eq!((head.status, head.body.len(), head.header("content-length")), (200, 0, Some("1")));
        assert_eq!(head.header("etag"), Some(&*tag));
        assert_eq!(client.ask("DELETE", &key, b"").await.status, 204);
        let absent = client.ask("GET", &key, b"").await;
        assert_eq!((absent.status, absent.body.len()), (404, 0));
        // A refusal has its problem, as over the first version.
        let refused = client.ask("POST", "/v0/entity?id=k", b"x").await;
        assert_eq!((refused.status, refused.header("allow").is_some()), (405, true));
        assert_eq!(refused.header("content-type"), Some("application/problem+json"));
        let lines = b"{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"b\",\"value\":\"2\"}\n";
        assert_eq!(client.ask("POST", ENTRIES, lines).await.status, 200);
        assert_eq!(client.ask("GET", ENTRIES, b"").await.body, lines);
        assert_eq!(client.ask("GET", "/v0/entity?id=k", b"").await.body, b"v");
    });
    // The server notices the end of the connection by itself.
    let begun = Instant::now();
    let metrics = loop {
        let metrics = server.ask("GET", "/metrics", b"");
        if metrics.text().contains("\npando_http2_connections 0\n") {
            break metrics;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{}", metrics.text());
    };
    for line in ["pando_http_version_requests_total{version=\"2\"} 10", "pando_http2_resets_total 0"] {
        assert!(metrics.text().lines().any(|found| found == line), "{line}: {}", metrics.text());
    }
    let first = metrics.text().lines().find_map(|line| {
        line.strip_prefix("pando_http_version_requests_total{version=\"1\"} ")?.parse::<u64>().ok()
    });
    assert!(first >= Some(2), "{first:?}");
}

/// A response that memory has, one that comes later, a refusal, and one in pieces each have the date once.
#[test]
fn responses_have_a_date() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &[]);
    let seconds_of_day = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() % 86_400;
    run(async {
        let mut client = Client::connect(server.address).await;
        for (method, target) in [
            ("GET", "/v0/entity?id=k"),
            ("HEAD", "/v0/entity?id=k"),
            ("PUT", "/v0/entity?id=other"),
            ("GET", "/v0/nothing"),
            ("GET", ENTRIES),
        ] {
            let before = seconds_of_day();
            let reply = client.ask(method, target, b"").await;
            let after = seconds_of_day();
            assert_eq!(reply.head.headers.get_all("date").iter().count(), 1, "{method} {target}");
            let date = reply.header("date").unwrap();
            // Such as `Sun, 06 Nov 1994 08:49:37 GMT`.
            assert!(date.len() == 29 && date.ends_with(" GMT"), "{date}");
            let time: Vec<u64> = date[17..25].split(':').map(|part| part.parse().unwrap()).collect();
            let since = (time[0] * 3_600 + time[1] * 60 + time[2] + 86_400 - before) % 86_400;
            assert!(since <= (after + 86_400 - before) % 86_400, "{date}: {before} to {after}");
        }
    });
}

/// A response that has begun and cannot be completed is reset. Its client does not take it for the whole, and other
/// requests of the connection go on.
#[cfg(feature = "sql")]
#[test]
fn a_response_that_breaks_off_is_reset() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &[]);
    // The absolute value of the last row's number would not fit into 64 bits.
    let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) \
               SELECT CASE WHEN i < 200 THEN hex(zeroblob(1000)) \
               ELSE abs(-9223372036854775608 - i) END FROM n";
    let body = format!("{{\"sql\":\"{sql}\"}}");
    run(async {
        let mut client = Client::connect(server.address).await;
        let target = "/v1/databases/default/sql?format=json";
        let (response, mut stream) = client.begin(request("POST", target), true).await.unwrap();
        stream.send_data(Bytes::from(body), true).unwrap();
        let response = response.await.unwrap();
        assert_eq!(response.status(), 200);
        let error = read(response.into_body()).await.unwrap_err();
        assert!(error.is_reset() && error.is_remote(), "{error}");
        assert_eq!(error.reason(), Some(h2::Reason::INTERNAL_ERROR));
        assert_eq!(client.ask("GET", "/v0/entity?id=k", b"").await.body, b"v");
    });
    // It was not the client that gave up.
    let metrics = server.ask("GET", "/metrics", b"");
    assert!(metrics.text().contains("pando_http2_resets_total 0\n"), "{}", metrics.text());
}

#[test]
fn long_bodies_pass_in_both_directions_beside_short_ones() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &["--memory", "32M"]);
    let long: Vec<u8> = (0..20_u32 << 20).map(|n| (n % 251) as u8).collect();
    run(async {
        let mut client = Client::with_window(server.address, 64 << 10).await;
        let key = format!("{ENTRIES}/long");
        assert_eq!(client.ask("PUT", &key, &long).await.status, 204);
        let (response, _) = client.begin(request("GET", &key), false).await.unwrap();
        // The long one has begun, and others of its connection do not wait for it.
        let response = response.await.unwrap();
        assert_eq!(response.headers()["content-length"], "20971520");
        for _ in 0..100 {
            assert_eq!(client.ask("GET", "/v0/entity?id=k", b"").await.body, b"v");
        }
        assert!(read(response.into_body()).await.unwrap() == long);
        // A range with a long value in it, and with more records than fit into a batch.
        let lines: String =
            (0..20_000).map(|n| format!("{{\"key\":\"r{n:05}\",\"value\":\"x\"}}\n")).collect();
        assert_eq!(client.ask("POST", ENTRIES, lines.as_bytes()).await.status, 200);
        let range = client.ask("GET", &format!("{ENTRIES}?prefix=r"), b"").await;
        assert!(range.body == lines.as_bytes());
        let all = client.ask("GET", ENTRIES, b"").await.body;
        assert!(all.len() > 2 * long.len() && all.ends_with(b"{\"key\":\"r19999\",\"value\":\"x\"}\n"));
        // Longer than is allowed: refused before its end, and the connection goes on.
        let (response, mut body) = client.begin(request("PUT", &key), true).await.unwrap();
        for _ in 0..65 {
            body.reserve_capacity(1 << 20);
            let _ = body.send_data(Bytes::from(vec![1; 1 << 20]), false);
        }
        assert_eq!(response.await.unwrap().status(), 413);
        drop(body);
        assert_eq!(client.ask("GET", "/v0/entity?id=k", b"").await.body, b"v");
    });
}

#[test]
fn changes_come_as_they_are_made() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &[]);
    run(async {
        let mut client = Client::connect(server.address).await;
        let (response, _) =
            client.begin(request("GET", "/v1/databases/default/changes?table=t"), false).await.unwrap();
        let mut body = response.await.unwrap().into_body();
        for n in 0..3 {
            let key = format!("{ENTRIES}/c{n}");
            assert_eq!(client.ask("PUT", &key, b"1").await.status, 204);
            let mut said = String::new();
            while !said.contains(&format!("\"c{n}\"")) {
                let piece = body.data().await.expect("it does not end").unwrap();
                body.flow_control().release_capacity(piece.len()).unwrap();
                said.push_str(std::str::from_utf8(&piece).unwrap());
            }
        }
    });
}

#[test]
fn many_requests_of_a_connection_run_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &[]);
    run(async {
        let mut client = Client::connect(server.address).await;
        assert_eq!(client.ask("GET", "/v0/status", b"").await.status, 200);
        assert_eq!(client.send.current_max_send_streams(), 100);
        let mut coming = Vec::new();
        for n in 0..1_000 {
            let (response, mut body) =
                client.begin(request("PUT", &format!("{ENTRIES}/m{n}")), true).await.unwrap();
            body.send_data(Bytes::from(n.to_string()), true).unwrap();
            coming
                .push(tokio::spawn(async move { response.await.map(|response| response.status().as_u16()) }));
        }
        for response in coming {
            assert_eq!(response.await.unwrap().unwrap(), 204);
        }
        let last = client.ask("GET", &format!("{ENTRIES}/m999"), b"").await;
        assert_eq!(last.body, b"999");
    });
}

#[test]
fn a_request_names_one_host() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &[]);
    run(async {
        let mut client = Client::connect(server.address).await;
        let mut status = async |uri: &str, host: Option<&str>| {
            let mut asked = request("GET", "/v0/entity?id=k");
            *asked.uri_mut() = uri.parse().unwrap();
            if let Some(host) = host {
                asked.headers_mut().insert("host", host.parse().unwrap());
            }
            client.try_send(asked, b"").await.unwrap().status
        };
        assert_eq!(status("http://localhost/v0/entity?id=k", None).await, 200);
        assert_eq!(status("http://localhost/v0/entity?id=k", Some("localhost")).await, 200);
        assert_eq!(status("http://localhost/v0/entity?id=k", Some("127.0.0.1")).await, 400);
        // Anybody can register this name, and lead it to this machine.
        assert_eq!(status("http://evil.example/v0/entity?id=k", None).await, 403);
    });
}

#[test]
fn the_client_chooses_the_version_in_the_handshake() {
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};
    let dir = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (chain, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    std::fs::write(&chain, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let mut serve = command(&dir.path().join("data"), &[]);
    serve.arg("--tls-cert").arg(&chain).arg("--tls-key").arg(&key);
    let server = Server::of(serve);
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&chain).unwrap()).unwrap();
    let provider = std::sync::Arc::new(crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    run(async {
        for (offered, chosen) in [
            (&[&b"http/1.1"[..], b"h2"][..], Some(&b"h2"[..])),
            (&[b"http/1.1"], Some(b"http/1.1")),
            (&[], None),
        ] {
            config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
            let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config.clone()));
            let tcp = tokio::net::TcpStream::connect(server.address).await.unwrap();
            let name = ServerName::try_from("127.0.0.1").unwrap();
            let mut stream = connector.connect(name, tcp).await.unwrap();
            assert_eq!(stream.get_ref().1.alpn_protocol(), chosen);
            if chosen == Some(b"h2") {
                let mut client = Client::over(stream, &h2::client::Builder::new()).await;
                assert_eq!(client.ask("PUT", "/v0/entity?id=k", b"v").await.status, 201);
                assert_eq!(client.ask("GET", "/v0/entity?id=k", b"").await.body, b"v");
                continue;
            }
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            stream.write_all(b"GET /v0/entity?id=k HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
            let mut begin = [0; 15];
            stream.read_exact(&mut begin).await.unwrap();
            assert_eq!(&begin, b"HTTP/1.1 200 OK");
        }
    });
}

#[test]
fn a_unix_socket_speaks_it_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("pando.sock");
    let _server = Server::start_with(&dir.path().join("data"), &["--unix-socket", socket.to_str().unwrap()]);
    run(async {
        let stream = tokio::net::UnixStream::connect(&socket).await.unwrap();
        let mut client = Client::over(stream, &h2::client::Builder::new()).await;
        assert_eq!(client.ask("PUT", "/v0/entity?id=k", b"v").await.status, 201);
        assert_eq!(client.ask("GET", "/v0/entity?id=k", b"").await.body, b"v");
    });
}

#[test]
fn the_end_of_the_server_completes_what_runs() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path(), &["--drain", "60"]);
    let long = vec![7; 8 << 20];
    run(async {
        let mut client = Client::connect(server.address).await;
        let key = format!("{ENTRIES}/long");
        assert_eq!(client.ask("PUT", &key, &long).await.status, 204);
        let (response, _) = client.begin(request("GET", &key), false).await.unwrap();
        let response = response.await.unwrap();
        server.signal("TERM");
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(read(response.into_body()).await.unwrap() == long, "it is completed");
        // GOAWAY has arrived: the server accepts no more requests on this connection.
        assert!(client.connection.await.unwrap().is_ok());
    });
    let begun = Instant::now();
    assert!(server.wait().success());
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn the_log_names_the_version() {
    let dir = tempfile::tempdir().unwrap();
    let mut serve = command(dir.path(), &["--log", "info"]);
    serve.stderr(Stdio::piped());
    let server = Server::of(serve);
    run(async {
        let mut client = Client::connect(server.address).await;
        assert_eq!(client.ask("GET", "/v0/status", b"").await.status, 200);
    });
    assert_eq!(server.ask("GET", "/healthz", b"").status, 200);
    std::thread::sleep(Duration::from_millis(300));
    let said = server.kill_and_hear();
    let line = |path: &str| said.lines().find(|line| line.contains(path)).unwrap_or_default().to_owned();
    assert!(line("path=/v0/status").contains("version=HTTP/2.0"), "{said}");
    assert!(line("path=/healthz").contains("version=HTTP/1.1"), "{said}");
}
