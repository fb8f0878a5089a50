//! Sockets that a service manager has opened: the server takes them instead of its address.

use crate::common::pando;
use crate::http::Client;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// `pando serve` with one socket, as systemd starts it: the shell moves it from its standard input to the number 3.
fn activated(dir: &Path, socket: impl Into<OwnedFd>, names: &str, options: &[&str]) -> Command {
    let script = "exec 3<&0 < /dev/null; export LISTEN_PID=$$; exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_pando"), "serve"]).arg(dir).args(options);
    command.env("LISTEN_FDS", "1").env("LISTEN_FDNAMES", names).stdin(Stdio::from(socket.into()));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Ends the server in order, and returns what it said.
fn end(child: Child) -> Output {
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    child.wait_with_output().unwrap()
}

#[test]
fn connections_wait_at_the_socket_until_the_server_has_started() {
    let dir = tempfile::tempdir().unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let data = dir.path().join("data");
    // It is there before the server is.
    let mut client = Client::connect(address);
    client.send(b"PUT /v0/entity?id=k HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\nv").unwrap();
    let second = socket.try_clone().unwrap();
    let child = activated(&data, socket, "http", &["--listen", "127.0.0.1:1"]).spawn().unwrap();
    assert_eq!(client.reply(false).unwrap().status, 201);
    let output = end(child);
    let (said, errors) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success() && said.contains(&format!("http://{address}")), "{said}{errors}");
    // The socket outlives the server: the next one serves what came in between.
    let mut client = Client::connect(address);
    client.send(b"GET /v0/entity?id=k HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let child = activated(&data, second, "", &[]).spawn().unwrap();
    assert_eq!(client.reply(false).unwrap().body, b"v");
    assert!(end(child).status.success());
}

#[test]
fn a_unix_socket_alone_is_enough() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("given.sock");
    let socket = UnixListener::bind(&path).unwrap();
    let child = activated(&dir.path().join("data"), socket, "pando.socket", &[]).spawn().unwrap();
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    let output = end(child);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && said.contains("at unix sockets"), "{said}");
    assert!(path.exists(), "the file belongs to who has made it");
}

#[test]
fn what_cannot_be_served_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let refused = |socket: OwnedFd, names: &str, said: &str| {
        let output = activated(&data, socket, names, &[]).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && errors.contains(said), "{errors}");
    };
    let tcp = || TcpListener::bind("127.0.0.1:0").unwrap();
    refused(UnixDatagram::unbound().unwrap().into(), "x", "socket 3 of LISTEN_FDS (x) is neither");
    refused(std::fs::File::open("/dev/null").unwrap().into(), "", "socket 3 of LISTEN_FDS is neither");
    refused(tcp().into(), "redis", "use --redis");
    // One connection, as with Accept=yes.
    let listener = tcp();
    let connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    refused(connection.into(), "", "does not accept connections");
    // What other machines can reach needs a token, as with an address.
    refused(TcpListener::bind("0.0.0.0:0").unwrap().into(), "", "can be reached from other machines");
}

#[test]
fn sockets_of_another_process_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pando"));
    command.arg("serve").arg(dir.path()).args(["--listen", "127.0.0.1:0"]);
    command.env("LISTEN_PID", "1").env("LISTEN_FDS", "1").stdin(Stdio::null());
    let server = crate::http::Server::of(command);
    assert_eq!(server.ask("GET", "/healthz", b"").status, 200);
}

/// The program that systemd has for trying this, where it is installed.
#[test]
fn systemd_activates_the_server() {
    let program = "systemd-socket-activate";
    if Command::new(program).arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("{program} is not installed: the other tests pass the socket themselves");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("activated.sock");
    let mut activate = Command::new(program);
    activate.arg("--listen").arg(&path).arg(env!("CARGO_BIN_EXE_pando")).arg("serve");
    activate.arg(dir.path().join("data")).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = activate.spawn().unwrap();
    let begun = Instant::now();
    let mut client = loop {
        match UnixStream::connect(&path) {
            Ok(client) => break client,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(20), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    client.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    child.kill().unwrap();
    child.wait().unwrap();
    let output = pando(["serve", "--help"]);
    assert!(String::from_utf8(output.stdout).unwrap().contains("LISTEN_FDS"));
}
