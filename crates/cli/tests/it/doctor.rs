//! `pando doctor`.

use crate::common::{failure, pando, text};
use crate::http::Server;
use pando::Database;
use serde_json::Value;
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The exit code if something needs attention.
const FOUND: i32 = 6;

fn fill(path: &Path, records: u32) {
    let db = Database::create(path).unwrap();
    let table = db.ensure_table("t").unwrap();
    db.bulk_load(&table, (0..records).map(|n| Ok((n.to_be_bytes(), [1; 100])))).unwrap();
    db.close().unwrap();
}

/// The findings of a run, and its exit code.
fn findings(words: &[&str]) -> (i32, Vec<Value>) {
    let output = pando([words, &["--json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let rows = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    (output.status.code().unwrap(), rows)
}

fn named<'v>(findings: &'v [Value], name: &str) -> &'v Value {
    let found = findings.iter().find(|finding| finding["finding"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {findings:?}"))
}

/// Only the figures of the machine, such as the room on its disk, can differ from run to run.
fn is_of_the_machine(finding: &Value) -> bool {
    ["disk-low", "disk-nearly-full", "few-files", "slow-flushes"]
        .contains(&finding["finding"].as_str().unwrap())
}

#[test]
fn a_directory_is_healthy_until_something_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop");
    fill(&path, 1_000);
    let shop = path.to_str().unwrap();
    let (code, mut found) = findings(&["doctor", shop]);
    found.retain(|finding| !is_of_the_machine(finding));
    assert_eq!(found, Vec::<Value>::new());
    if code == 0 {
        let said = text(pando(["doctor", shop]));
        assert!(said.contains("shop is healthy.\n") && said.contains("Not examined: cache misses"), "{said}");
    }

    set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
    let (code, found) = findings(&["doctor", shop]);
    assert_eq!(code, FOUND);
    assert_eq!(named(&found, "world-writable")["severity"], "warning");
    assert_eq!(named(&found, "world-writable")["advice"], format!("Run `chmod -R o-w {shop}`."));
    let output = pando(["doctor", shop]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("warning: ") && said.contains("[world-writable]\n  Run `chmod"), "{said}");
    assert!(said.contains("shop needs attention: 0 critical, "), "{said}");
    assert_eq!((output.status.code(), &output.stderr[..]), (Some(FOUND), &b""[..]));
    set_permissions(&path, Permissions::from_mode(0o755)).unwrap();

    let (backups, copy) = (dir.path().join("backups"), dir.path().join("copy"));
    text(pando(["backup", shop, backups.to_str().unwrap()]));
    text(pando(["restore", backups.to_str().unwrap(), copy.to_str().unwrap()]));
    let (_, found) = findings(&["doctor", copy.to_str().unwrap()]);
    assert_eq!(named(&found, "restored-copy")["severity"], "note");
}

#[test]
fn what_cannot_be_examined_fails_as_every_command_does() {
    let dir = tempfile::tempdir().unwrap();
    fill(&dir.path().join("served/default"), 10);
    let served = dir.path().join("served");
    let said = failure(pando(["doctor", served.to_str().unwrap()]), 2);
    assert!(said.contains("name one of them") && said.contains("served/default"), "{said}");
    failure(pando(["doctor", "/nowhere/at/all"]), 1);
    let database = served.join("default");
    failure(pando(["doctor", database.to_str().unwrap(), "--over", "1"]), 2);
    std::fs::write(database.join("data"), b"no database").unwrap();
    failure(pando(["doctor", database.to_str().unwrap()]), 3);
}

#[test]
fn a_server_shows_what_only_a_process_counts() {
    let dir = tempfile::tempdir().unwrap();
    // Far more than the memory holds.
    fill(&dir.path().join("shop"), 120_000);
    let server = Server::start_with(dir.path(), &["--memory", "2M"]);
    let url = format!("http://{}/shop", server.address);
    let ask = |words: &[&str]| findings(&[&["--url", &url, "doctor"], words].concat());
    let (_, mut found) = ask(&[]);
    found.retain(|finding| !is_of_the_machine(finding));
    assert_eq!(found, Vec::<Value>::new());

    let mut client = server.connect();
    for n in 0..6_000u32 {
        let key = crate::http::escape(&(n.wrapping_mul(7_919) % 120_000).to_be_bytes());
        let reply = client.ask("GET", &format!("/v1/databases/shop/tables/t/entries/{key}"), &[], b"");
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    let (code, found) = ask(&[]);
    assert_eq!(code, FOUND);
    let small = named(&found, "memory-too-small");
    assert!(small["what"].as_str().unwrap().contains("the memory of 2.0 MiB"), "{small}");
    assert!(small["advice"].as_str().unwrap().contains("`--memory`"), "{small}");
    let (_, found) = ask(&["--over", "1"]);
    assert!(found.iter().all(|finding| finding["finding"] != "memory-too-small"), "{found:?}");
}

#[test]
fn a_server_with_tokens_shows_what_the_token_may_see() {
    let dir = tempfile::tempdir().unwrap();
    let token = |name: &str, words: &[&str]| {
        let arguments = ["token", "create", dir.path().to_str().unwrap(), "--name", name, "--scope", "read"];
        text(pando([&arguments[..], words].concat())).trim().to_owned()
    };
    let (of_all, of_one) = (token("all", &[]), token("one", &["--database", "default"]));
    let server = Server::start(dir.path());
    for _ in 0..100 {
        let wrong = [("authorization", "Bearer pando_wrong")];
        assert_eq!(server.ask_with("GET", "/v0/entity?id=k", &wrong, b"").status, 401);
    }
    let url = format!("http://{}/default", server.address);
    let said = |token: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pando"));
        let output = command.args(["--url", &url, "doctor"]).env("PANDO_TOKEN", token).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let all = said(&of_all);
    assert!(all.contains("[failed-logins]") && !all.contains("Not examined"), "{all}");
    let one = said(&of_one);
    assert!(!one.contains("[failed-logins]") && one.contains("need a token for all databases"), "{one}");
}
