//! `pando serve --tls-cert`: what is encrypted, who is refused, and how a certificate is replaced.

use crate::common::{failure, pando};
use crate::http::Server;
use crate::serving::command;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A directory with a certificate for 127.0.0.1, its key, and the data of a server.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Place { dir: tempfile::tempdir().unwrap() };
        place.renew("cert.pem");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes a new certificate, which is also kept as `copy`. The files are replaced in one step each.
    fn renew(&self, copy: &str) {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        fs::write(self.path(copy), made.cert.pem()).unwrap();
        for (name, text) in [("key.pem", made.signing_key.serialize_pem()), ("cert.pem", made.cert.pem())] {
            fs::write(self.path("new"), text).unwrap();
            fs::rename(self.path("new"), self.path(name)).unwrap();
        }
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = command(&self.path("data"), options);
        command.arg("--tls-cert").arg(self.path("cert.pem")).arg("--tls-key").arg(self.path("key.pem"));
        command
    }

    /// Runs the command against `server`, with the certificates in `authorities` as those that it trusts.
    fn run(&self, server: &Server, authorities: Option<&str>, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pando"));
        command.arg("--url").arg(format!("https://{}/default", server.address)).args(words);
        command.env_remove("PANDO_CA_CERT").stdin(Stdio::null());
        if let Some(name) = authorities {
            command.env("PANDO_CA_CERT", self.path(name));
        }
        command.output().unwrap()
    }

    fn gets(&self, server: &Server, authorities: &str) -> bool {
        let output = self.run(server, Some(authorities), &["get", "t", "k"]);
        output.status.success() && output.stdout == b"v"
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_command_speaks_to_a_server_that_it_can_verify() {
    let place = Place::new();
    let server = Server::of(place.command(&[]));
    let put = place.run(&server, Some("cert.pem"), &["put", "t", "k", "v"]);
    assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
    assert!(place.gets(&server, "cert.pem"));
    // Twenty mebibytes in both directions pass many records of the protocol.
    let long: Vec<u8> = (0..20_u32 << 20).map(|n| (n % 251) as u8).collect();
    fs::write(place.path("long"), &long).unwrap();
    let path = place.path("long");
    let imported =
        place.run(&server, Some("cert.pem"), &["put", "t", "long", "--file", path.to_str().unwrap()]);
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    assert!(place.run(&server, Some("cert.pem"), &["get", "t", "long"]).stdout == long);

    let unknown = place.run(&server, None, &["get", "t", "k"]);
    assert!(!unknown.status.success() && unknown.stdout.is_empty());
    let said = String::from_utf8(unknown.stderr).unwrap();
    assert!(said.to_lowercase().contains("certificate"), "{said}");
    let said = failure(place.run(&server, Some("key.pem"), &["get", "t", "k"]), 2);
    assert!(said.contains("no certificate in it"), "{said}");
}

#[test]
fn a_replica_follows_a_server_that_it_can_verify() {
    let place = Place::new();
    let server = Server::of(place.command(&[]));
    assert!(place.run(&server, Some("cert.pem"), &["put", "t", "k", "v"]).status.success());
    let address = format!("https://{}", server.address);
    let mut following = command(&place.path("copy"), &["--follow", &address]);
    let refused = following.env_remove("PANDO_CA_CERT").output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.to_lowercase().contains("certificate"), "{said}");
    following.env("PANDO_CA_CERT", place.path("cert.pem"));
    let replica = Server::of(following);
    let read = |key: &str| replica.ask("GET", &format!("/v1/databases/default/tables/t/entries/{key}"), b"");
    assert_eq!(read("k").text(), "v");
    assert!(place.run(&server, Some("cert.pem"), &["put", "t", "later", "w"]).status.success());
    wait_until("the replica follows", || read("later").status == 200);
    let written = replica.ask("PUT", "/v0/entity?id=a", b"1");
    assert_eq!(
        (written.status, written.header("location")),
        (307, Some(&*format!("{address}/v0/entity?id=a")))
    );
}

#[test]
fn a_client_without_encryption_gets_no_data_and_disturbs_nobody() {
    let place = Place::new();
    let server = Server::of(place.command(&["--head-timeout", "1"]));
    for nonsense in
        [&b"GET /healthz HTTP/1.1\r\nhost: test\r\n\r\n"[..], &[0x16, 3, 1, 0xff, 0xff], &[0; 9000]]
    {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // The server may be gone before everything is sent.
        let _ = stream.write_all(nonsense);
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        assert!(heard.len() < 64 && !heard.starts_with(b"HTTP"), "{heard:?}");
    }
    // Nothing at all: the handshake has as much time as a head.
    let begun = Instant::now();
    let mut silent = TcpStream::connect(server.address).unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut heard = Vec::new();
    let _ = silent.read_to_end(&mut heard);
    assert!(heard.is_empty() && begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(place.run(&server, Some("cert.pem"), &["put", "t", "k", "v"]).status.success());
}

#[test]
fn the_end_of_the_server_waits_for_no_handshake() {
    let place = Place::new();
    let server = Server::of(place.command(&["--drain", "60"]));
    let _silent = TcpStream::connect(server.address).unwrap();
    assert!(place.run(&server, Some("cert.pem"), &["put", "t", "k", "v"]).status.success());
    let begun = Instant::now();
    assert!(server.terminate().success());
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

/// The end of a client is part of what is encrypted, or is missing if the client was killed.
#[test]
#[cfg(feature = "sql")]
fn statements_end_with_their_client() {
    let place = Place::new();
    let options = ["--max-sql", "1", "--sql-timeout", "600", "--max-sql-timeout", "600"];
    let server = Server::of(place.command(&options));
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n";
    let mut client = Command::new(env!("CARGO_BIN_EXE_pando"));
    client.arg("--url").arg(format!("https://{}/default", server.address)).args(["sql", endless]);
    client.env("PANDO_CA_CERT", place.path("cert.pem")).stdin(Stdio::null()).stdout(Stdio::null());
    let mut client = client.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert!(client.try_wait().unwrap().is_none(), "the statement has not ended");
    client.kill().unwrap();
    client.wait().unwrap();
    // There is one place for statements: the next ones get it when the first have ended.
    let begun = Instant::now();
    let next = place.run(&server, Some("cert.pem"), &["sql", "SELECT 1"]);
    assert!(next.status.success(), "{}", String::from_utf8_lossy(&next.stderr));
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn a_certificate_is_replaced_while_the_server_runs() {
    let place = Place::new();
    let server = Server::of(place.command(&[]));
    fs::copy(place.path("cert.pem"), place.path("first.pem")).unwrap();
    assert!(place.run(&server, Some("first.pem"), &["put", "t", "k", "v"]).status.success());

    place.renew("second.pem");
    wait_until("the changed files are read", || place.gets(&server, "second.pem"));
    assert!(!place.gets(&server, "first.pem"));

    // What cannot be used changes nothing.
    fs::write(place.path("cert.pem"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        .unwrap();
    server.signal("HUP");
    std::thread::sleep(Duration::from_millis(1500));
    assert!(place.gets(&server, "second.pem"));

    place.renew("third.pem");
    server.signal("HUP");
    wait_until("the next ones are read again", || place.gets(&server, "third.pem"));
    assert!(server.terminate().success());
}

#[test]
fn files_that_cannot_be_used_are_named_at_the_start() {
    let place = Place::new();
    let start = |certificate: &Path, key: &Path| {
        let data = place.path("data");
        let words =
            [Path::new("serve"), &data, "--listen".as_ref(), "127.0.0.1:0".as_ref(), "--tls-cert".as_ref()];
        pando(words.into_iter().chain([certificate, "--tls-key".as_ref(), key]))
    };
    let (certificate, key, other) = (place.path("cert.pem"), place.path("key.pem"), place.path("other.pem"));
    fs::copy(&key, &other).unwrap();
    place.renew("again.pem");
    for (certificate, key, said) in [
        (&certificate, &other, "cannot be used with the certificate"),
        (&key, &key, "contains no certificate in PEM"),
        (&certificate, &certificate, "contains no private key in PEM"),
        (&place.path("nothing"), &key, "read the certificate in"),
    ] {
        let output = start(certificate, key);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && stderr.contains(said), "{stderr}");
    }
    let output = pando(["serve", "x", "--tls-cert", "a.pem"]);
    assert_eq!(output.status.code(), Some(2), "a certificate without a key");
}

#[test]
fn a_server_signs_its_own_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let place = Place::new();
    let server = Server::of(command(&dir.path().join("data"), &["--tls-self-signed"]));
    let refused = place.run(&server, None, &["tables"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.to_lowercase().contains("certificate"), "{said}");
}
