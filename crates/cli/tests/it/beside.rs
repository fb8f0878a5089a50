//! Other processes read a database while one writes it.

use crate::common::{failure, pando, text};
use crate::http::Server;
use pando::{Database, Durability, ErrorKind, Layout, TableOptions};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ACCOUNTS: u64 = 200;
const EACH: u64 = 1000;

fn seats(dir: &Path) -> usize {
    let names = dir.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("reader-")).count()
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The sum of all balances that `pando scan` prints.
fn sum(dir: &str) -> u64 {
    let scanned = text(pando(["scan", dir, "accounts", "--format", "csv"]));
    let values = scanned.lines().filter_map(|line| line.split_once(',')?.1.parse::<u64>().ok());
    values.sum()
}

/// Every commit preserves the sum of all balances. Readers come, read and go, or are killed, while four threads move
/// money and checkpoints are made; each reader sees the state of one commit.
#[test]
fn each_reader_sees_one_commit_and_a_killed_one_keeps_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let db =
        Database::builder().memory_bytes(16 << 20).durability(Durability::Buffered).create(path).unwrap();
    let options = TableOptions::with_layout(Layout::Lsm);
    db.create_table("accounts", &options).unwrap();
    let accounts = db.table("accounts").unwrap().unwrap();
    let key = |n: u64| format!("{n:04}");
    db.write(|tx| (0..ACCOUNTS).try_for_each(|n| tx.put(&accounts, key(n), EACH.to_string()))).unwrap();
    let (ended, commits) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for writer in 0..4_u64 {
            let (db, accounts, ended, commits) = (&db, &accounts, &ended, &commits);
            scope.spawn(move || {
                for n in 0.. {
                    if ended.load(Ordering::SeqCst) {
                        break;
                    }
                    let (from, to) = ((writer * 37 + n * 7) % ACCOUNTS, (writer * 11 + n * 13) % ACCOUNTS);
                    db.write(|tx| {
                        let mut add = |n: u64, by: i64| {
                            let balance = String::from_utf8(tx.get(accounts, key(n))?.unwrap()).unwrap();
                            let balance = balance.parse::<i64>().unwrap() + by;
                            tx.put(accounts, key(n), balance.to_string())
                        };
                        if from != to {
                            add(from, -1)?;
                            add(to, 1)?;
                        }
                        Ok(())
                    })
                    .unwrap();
                    if commits.fetch_add(1, Ordering::SeqCst) % 500 == 0 {
                        db.checkpoint().unwrap();
                    }
                }
            });
        }
        let begun = Instant::now();
        let mut rounds = 0;
        while begun.elapsed() < Duration::from_secs(4) || rounds < 10 {
            rounds += 1;
            assert_eq!(sum(path), ACCOUNTS * EACH, "round {rounds}");
            assert!(text(pando(["get", path, "accounts", "0007"])).parse::<i64>().is_ok());
            assert!(text(pando(["stats", path])).contains("visible_commit"));
            assert!(text(pando(["export", path, "accounts"])).lines().count() as u64 == ACCOUNTS);
            let checked = pando(["check", path, "--json"]);
            assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
            // A reader is killed wherever it is.
            let mut scan = Command::new(env!("CARGO_BIN_EXE_pando"));
            let mut child = scan.args(["scan", path, "accounts"]).stdout(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(rounds % 25));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        ended.store(true, Ordering::SeqCst);
    });
    // The seats of killed readers go with the next look.
    wait_for("a killed reader keeps its seat", || {
        db.put(&accounts, "last", "0").unwrap();
        db.checkpoint().unwrap();
        seats(dir.path()) == 0
    });
    assert_eq!(sum(path), ACCOUNTS * EACH);
}

#[test]
fn a_reader_follows_within_a_moment_through_a_kill_and_a_new_writer() {
    let dir = tempfile::tempdir().unwrap();
    let served = dir.path().join("served");
    let path = served.join("default");
    let put = |server: &Server, key: &str| {
        let url = format!("http://{}/default", server.address);
        text(pando(["put", &url, "t", key, "v"]));
    };
    let server = Server::start(&served);
    put(&server, "a");
    let db = Database::open_read_only(&path).unwrap();
    assert!(db.is_beside_writer());
    let keys = || {
        let snapshot = db.snapshot().unwrap();
        let table = snapshot.table("t").unwrap().unwrap();
        let keys = snapshot.range(&table, ..).unwrap().map(|record| record.unwrap().0);
        keys.map(|key| String::from_utf8(key).unwrap()).collect::<String>()
    };
    assert_eq!(keys(), "a");
    put(&server, "b");
    db.catch_up().unwrap();
    assert_eq!(keys(), "ab", "what was acknowledged before is shown");
    put(&server, "c");
    wait_for("the reader follows by itself", || keys() == "abc");
    server.kill();
    assert_eq!(keys(), "abc");
    let server = Server::start(&served);
    put(&server, "d");
    wait_for("the reader follows a new writer", || keys() == "abcd");
    assert_eq!(db.put(&db.table("t").unwrap().unwrap(), "e", "v").unwrap_err().kind(), ErrorKind::ReadOnly);
    assert!(server.terminate().success());
    assert_eq!(keys(), "abcd");
    db.close().unwrap();
    drop(db);
    assert_eq!(seats(&path), 0);
}

#[test]
fn commands_that_write_say_who_has_the_database_and_sql_reads() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    text(pando(["sql", path, "CREATE TABLE fruit (name TEXT PRIMARY KEY, colour TEXT)"]));
    text(pando(["sql", path, "INSERT INTO fruit VALUES ('apple', 'red')"]));
    let db = Database::open(path).unwrap();
    assert!(failure(pando(["put", path, "t", "k", "v"]), 4).contains("is locked by process"));
    let said = failure(pando(["backup", path, dir.path().join("b").to_str().unwrap()]), 4);
    assert!(said.contains("another process has the database open for writing"), "{said}");
    let selected = pando(["sql", path, "SELECT colour FROM fruit", "--format", "csv"]);
    let said = String::from_utf8(selected.stderr).unwrap();
    assert_eq!(String::from_utf8(selected.stdout).unwrap().lines().last(), Some("red"), "{said}");
    assert!(said.contains("statements can only read"), "{said}");
    let refused = pando(["sql", path, "INSERT INTO fruit VALUES ('lemon', 'yellow')"]);
    assert!(!refused.status.success());
    db.close().unwrap();
}
