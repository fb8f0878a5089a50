//! `pando --url`: the same commands on a server as on a directory say the same, exit codes included.

#[path = "support/http.rs"]
mod http;

use http::Server;
use std::process::{Command, Output};

fn pando(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pando")).args(words).output().unwrap()
}

#[test]
fn a_server_says_what_a_directory_says() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("served"));
    let url = format!("http://{}/shop", server.address);
    let local = dir.path().join("local");
    let local = local.to_str().unwrap();
    let value_file = dir.path().join("value");
    std::fs::write(&value_file, vec![9; 3 << 20]).unwrap();
    let file = value_file.to_str().unwrap();
    let commands: &[(&[&str], i32)] = &[
        (&["put", "fruit", "apple", "red"], 0),
        (&["put", "fruit", "lemon", "yellow", "--durability", "lazy"], 0),
        (&["put", "fruit", "00ff", "fe", "--hex"], 0),
        (&["put", "long", "k", "--file", file], 0),
        (&["get", "fruit", "apple"], 0),
        (&["get", "fruit", "00ff", "--hex"], 0),
        (&["get", "long", "k"], 0),
        (&["get", "fruit", "none"], 1),
        (&["get", "none", "none"], 1),
        (&["scan", "fruit"], 0),
        (&["scan", "fruit", "--format", "ndjson", "--reverse", "--limit", "2"], 0),
        (&["scan", "fruit", "--prefix", "a", "--keys-only", "--json"], 0),
        (&["scan", "none"], 1),
        (&["tables", "--json"], 0),
        (&["delete", "fruit", "apple"], 0),
        (&["delete", "fruit", "apple"], 1),
        (&["rename", "fruit", "food"], 0),
        (&["rename", "food", "long"], 1),
        (&["rename", "fruit", "food"], 1),
        (&["checkpoint"], 0),
        (&["scan", "food", "--format", "csv"], 0),
    ];
    for (words, code) in commands {
        let there = pando(&[&["--url", &url[..]], *words].concat());
        let here = pando(&[&words[..1], &[local], &words[1..]].concat());
        assert_eq!(here.status.code(), Some(*code), "{words:?}: {}", String::from_utf8_lossy(&here.stderr));
        assert_eq!(there.status.code(), Some(*code), "{words:?}: {}", String::from_utf8_lossy(&there.stderr));
        assert_eq!(here.stdout, there.stdout, "{words:?}");
    }
    for words in [&["stats"][..], &["check"], &["compact"]] {
        let there = pando(&[&["--url", &url[..]], words].concat());
        assert!(there.status.success(), "{words:?}: {}", String::from_utf8_lossy(&there.stderr));
        assert!(!there.stdout.is_empty());
    }
    assert_eq!(pando(&["get", &url, "long", "none"]).status.code(), Some(1), "also in the directory's place");
    assert_eq!(pando(&["--url", &url, "salvage"]).status.code(), Some(2));
    assert_eq!(pando(&["--url", "https://h", "tables"]).status.code(), Some(2));
    drop(server);
    assert_eq!(pando(&["--url", &url, "tables"]).status.code(), Some(1), "nobody is there");
}
