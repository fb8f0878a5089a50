//! `pando profile`, run as a user does.

use crate::common::{failure, pando};
use crate::http::Server;
use std::fs;
use std::process::Command;

#[test]
fn a_command_is_watched_and_its_exit_code_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let (svg, folded, db) = (path("a.svg"), path("a.folded"), path("db"));
    let command = ["profile", "--kind", "alloc", "-o", &svg, "-o", &folded, "--", "put", &db, "t", "k", "v"];
    let ran = pando(command);
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.success(), "{said}");
    assert!(said.contains("allocated in") && said.contains("a.folded"), "{said}");
    let (svg, folded) = (fs::read_to_string(svg).unwrap(), fs::read_to_string(folded).unwrap());
    assert!(svg.contains("</svg>") && svg.contains("Allocated bytes"));
    let of_records = folded.lines().filter(|line| line.contains("records::put"));
    assert!(of_records.count() > 0, "our functions are named in {folded}");

    let ran = pando(["profile", "-o", &path("b.svg"), "--", "get", &db, "t", "k"]);
    assert_eq!((ran.stdout, ran.status.code()), (b"v".to_vec(), Some(0)));
    let ran = pando(["profile", "--kind", "lock", "-o", &path("c.svg"), "--", "get", &db, "t", "absent"]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(fs::read_to_string(path("c.svg")).unwrap().contains("</svg>"));
}

#[test]
fn a_server_is_watched_until_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let (svg, data) = (path("a.svg"), path("data"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_pando"));
    command.args(["profile", "-o", &svg, "--", "serve", &data, "--listen", "127.0.0.1:0"]);
    let server = Server::of(command);
    // It has no configuration to read again.
    server.signal("HUP");
    assert_eq!(server.ask("GET", "/healthz", b"").status, 200);
    assert!(server.terminate().success());
    assert!(fs::read_to_string(svg).unwrap().contains("</svg>"));
}

#[test]
fn what_cannot_be_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let svg = dir.path().join("a.svg");
    let svg = svg.to_str().unwrap();
    failure(pando(["profile", "--kind", "gpu", "--", "tables", "d"]), 2);
    failure(pando(["profile", "--", "fly"]), 2);
    let twice = pando(["profile", "-o", svg, "--", "profile", "-o", svg, "--", "tables", "d"]);
    assert!(String::from_utf8(twice.stderr).unwrap().contains("one at a time"));
    assert_eq!(twice.status.code(), Some(1));
}
