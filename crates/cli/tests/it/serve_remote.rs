//! `pando --url`: the same commands on a server as on a directory say the same, exit codes included.

use crate::common::{failure, pando, text};
use crate::http::Server;
use std::process::Output;
use std::time::{Duration, Instant};

/// A replica redirects writes. No command takes that for success.
#[test]
fn a_command_fails_that_a_replica_redirects() {
    let dir = tempfile::tempdir().unwrap();
    let primary = Server::start(&dir.path().join("primary"));
    let address = |server: &Server| format!("http://{}/shop", server.address);
    text(pando(["--url", &address(&primary), "put", "t", "k", "old"]));
    let follow = ["--follow", &format!("http://{}", primary.address), "--follow-interval", "20ms"];
    let replica = Server::start_with(&dir.path().join("replica"), &follow);
    let there = address(&replica);
    let begun = Instant::now();
    while pando(["--url", &there, "get", "t", "k"]).stdout != b"old" {
        assert!(begun.elapsed() < Duration::from_secs(60), "the replica has not followed");
        std::thread::sleep(Duration::from_millis(20));
    }
    let lines = dir.path().join("lines.ndjson");
    std::fs::write(&lines, "{\"key\":\"k\",\"value\":\"new\"}\n").unwrap();
    let lines = lines.to_str().unwrap();
    for words in [
        &["put", "t", "k", "new"][..],
        &["delete", "t", "k"],
        &["rename", "t", "u"],
        &["layout", "t", "lsm"],
        &["ttl", "t", "1h"],
        &["import", "t", lines],
        &["import", "t", lines, "--bulk"],
        &["import", "new", lines, "--schema", "key text key, value text"],
    ] {
        let said = failure(pando(&[&["--url", &there[..]], words].concat()), 1);
        assert!(said.contains(&format!("to http://{}", primary.address)), "{words:?}: {said}");
    }
    assert_eq!(pando(["--url", &address(&primary), "get", "t", "k"]).stdout, b"old");
}

#[test]
fn what_is_imported_into_a_server_comes_out_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("served"));
    let url = format!("http://{}/moved", server.address);
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let tree = dir.path().join("tree");
    std::fs::create_dir_all(tree.join("a/b")).unwrap();
    for (name, bytes) in [("a/short", 10), ("a/b/bytes", 1000), ("a/long", 600 << 10), ("longer", 3 << 20)] {
        std::fs::write(tree.join(name), (0..bytes).map(|n| (n * 7) as u8).collect::<Vec<_>>()).unwrap();
    }
    let (tree, out) = (at("tree"), at("out"));
    let there = |words: &[&str]| {
        let output = pando(&[&["--url", &url[..]], words].concat());
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let said = there(&["import", "files", &tree, "--threads", "3", "--layout", "lsm"]);
    assert!(said.starts_with("4 records"), "{said}");
    there(&["export", "files", &out, "--format", "tree"]);
    for name in ["a/short", "a/b/bytes", "a/long", "longer"] {
        let read = |root: &str| std::fs::read(std::path::Path::new(root).join(name)).unwrap();
        assert_eq!(read(&tree), read(&out), "{name}");
    }
    // Lines, in batches, and back; the last of two records of one key stays.
    let lines: String =
        (0..1000).map(|n| format!("{{\"key\":\"k{:03}\",\"value\":\"{n}\"}}\n", n % 500)).collect();
    std::fs::write(at("lines.ndjson"), lines).unwrap();
    there(&["import", "lines", &at("lines.ndjson"), "--batch", "64", "--page-size", "16K"]);
    let exported = there(&["export", "lines"]);
    assert_eq!(exported.lines().count(), 500);
    assert!(exported.starts_with("{\"key\":\"k000\",\"value\":\"500\"}\n"), "{}", &exported[..60]);
    // All or nothing, as one transaction.
    there(&["import", "bulk", &at("lines.ndjson"), "--bulk"]);
    assert_eq!(there(&["export", "bulk"]), exported);
    let long = format!("{{\"key\":\"l\",\"value\":\"{}\"}}\n", "x".repeat(600 << 10));
    for (last, code) in [("{\"key\":7}\n", 1), (&long[..], 1)] {
        let lines: String = (0..50_000).map(|n| format!("{{\"key\":\"n{n}\",\"value\":\"\"}}\n")).collect();
        std::fs::write(at("bad.ndjson"), lines + last).unwrap();
        let output = pando(&["--url", &url, "import", "bulk", &at("bad.ndjson"), "--bulk"]);
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(there(&["export", "bulk"]), exported, "nothing of it is there");
    }
    there(&["export", "lines", &at("lines.csv")]);
    assert!(std::fs::read_to_string(at("lines.csv")).unwrap().starts_with("key,value\nk000,500\n"));
    // A backup of the server is one of a directory.
    there(&["backup", &at("backups")]);
    let restored = pando(&["restore", &at("backups"), &at("restored")]);
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    let local = pando(&["export", &at("restored"), "lines"]);
    assert_eq!(String::from_utf8(local.stdout).unwrap(), exported);
    let stream = pando(&["--url", &url, "backup", "-"]);
    std::fs::write(at("stream"), stream.stdout).unwrap();
    assert!(pando(&["restore", &at("stream"), &at("again")]).status.success());
    for (words, code) in [
        (&["import", "t", &tree[..], "--bulk"][..], 2),
        (&["export", "none"], 1),
        (&["import", "lines", &at("lines.ndjson"), "--layout", "lsm"], 2),
        (&["import", "lines", &at("lines.ndjson"), "--page-size", "4K"], 2),
    ] {
        assert_eq!(pando(&[&["--url", &url[..]], words].concat()).status.code(), Some(code), "{words:?}");
    }
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
        (&["scan", "fruit", "--limit", "0"], 0),
        (&["scan", "fruit", "--limit", "0", "--json"], 0),
        (&["scan", "none", "--limit", "0"], 1),
        (&["put", "live", "k", "v", "--ttl", "36h"], 0),
        (&["put", "live", "k", "v", "--ttl", "1h"], 2),
        (&["tables", "--json"], 0),
        (&["ttl", "live", "30d"], 0),
        (&["tables", "--json"], 0),
        (&["delete", "fruit", "apple"], 0),
        (&["delete", "fruit", "apple"], 1),
        (&["rename", "fruit", "food"], 0),
        (&["rename", "food", "long"], 1),
        (&["rename", "fruit", "food"], 1),
        (&["checkpoint"], 0),
        (&["layout", "live", "lsm"], 0),
        (&["layout", "none", "lsm"], 1),
        (&["compression", "live", "lz4"], 0),
        (&["compression", "long", "lz4"], 2),
        (&["explain", "get", "none", "k"], 1),
        (&["scan", "food", "--format", "csv"], 0),
    ];
    for (words, code) in commands {
        let there = pando(&[&["--url", &url[..]], *words].concat());
        let here = pando(&[&words[..1], &[local], &words[1..]].concat());
        assert_eq!(here.status.code(), Some(*code), "{words:?}: {}", String::from_utf8_lossy(&here.stderr));
        assert_eq!(there.status.code(), Some(*code), "{words:?}: {}", String::from_utf8_lossy(&there.stderr));
        assert_eq!(here.stdout, there.stdout, "{words:?}");
    }
    for words in [&["stats"][..], &["check"], &["compact"], &["stats", "--watch", "1", "--times", "1"]] {
        let there = pando(&[&["--url", &url[..]], words].concat());
        assert!(there.status.success(), "{words:?}: {}", String::from_utf8_lossy(&there.stderr));
        assert!(!there.stdout.is_empty());
    }
    let there = |words: &[&str]| {
        let output = pando(&[&["--url", &url[..]], words].concat());
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let tables = there(&["tables", "--json"]);
    let live = "{\"table\":\"live\",\"layout\":\"lsm\",\"ttl\":\"30d\",\"compression\":\"lz4\"";
    assert!(tables.contains(live), "{tables}");
    assert!(there(&["explain", "get", "food", "lemon"]).contains("a value of 6 bytes"));
    assert!(there(&["explain", "scan", "live", "--start", "a", "--limit", "7"]).contains("in all"));
    let options = |text: &str| -> Vec<String> {
        let listed: serde_json::Value = serde_json::from_str(text).unwrap();
        listed.as_array().unwrap().iter().map(|option| option["option"].to_string()).collect()
    };
    let here = pando(&["options", local, "--json"]);
    assert_eq!(options(&there(&["options", "--json"])), options(&String::from_utf8(here.stdout).unwrap()));
    assert!(there(&["options"]).contains("memory_bytes"));
    let names = |output: Output| -> Vec<String> {
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        said.as_array().map_or(&said, |rows| &rows[0]).as_object().unwrap().keys().cloned().collect()
    };
    for word in ["check", "compact"] {
        let (there, here) = (pando(&["--url", &url, word, "--json"]), pando(&[word, local, "--json"]));
        assert_eq!(names(there), names(here), "{word}");
    }
    for words in [&["explain", "put", "live", "k", "v"][..], &["options", "--memory", "64M"]] {
        assert_eq!(pando(&[&["--url", &url[..]], words].concat()).status.code(), Some(2), "{words:?}");
    }
    assert_eq!(pando(&["get", &url, "long", "none"]).status.code(), Some(1), "also in the directory's place");
    assert_eq!(pando(&["--url", &url, "salvage"]).status.code(), Some(2));
    let code = if cfg!(feature = "tls") { 1 } else { 2 };
    let encrypted = format!("https://{}", server.address);
    assert_eq!(
        pando(&["--url", &encrypted, "tables"]).status.code(),
        Some(code),
        "the server does not encrypt"
    );
    drop(server);
    assert_eq!(pando(&["--url", &url, "tables"]).status.code(), Some(1), "nobody is there");
}

#[test]
fn damage_that_a_server_finds_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let served = dir.path().join("served");
    let server = Server::start(&served);
    let url = format!("http://{}/shop", server.address);
    assert!(pando(&["--url", &url, "put", "fruit", "apple", "red"]).status.success());
    assert!(pando(&["--url", &url, "checkpoint"]).status.success());
    server.kill();
    let data = served.join("shop/data");
    let mut bytes = std::fs::read(&data).unwrap();
    bytes[..16 << 10].fill(0xee);
    std::fs::write(&data, bytes).unwrap();
    let server = Server::start(&served);
    let url = format!("http://{}/shop", server.address);
    let there = pando(&["--url", &url, "scan", "fruit"]);
    let here = pando(&["scan", served.join("shop").to_str().unwrap(), "fruit"]);
    assert_eq!((there.status.code(), here.status.code()), (Some(3), Some(3)), "{there:?} {here:?}");
}

#[cfg(feature = "sql")]
#[test]
fn a_server_runs_the_sql_that_a_directory_runs() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("served"));
    let url = format!("http://{}/shop", server.address);
    assert_eq!(server.ask("PUT", "/v1/databases/shop", b"").status, 201);
    let local = dir.path().join("local");
    let local = local.to_str().unwrap();
    let all = "SELECT *, -0.0, 9e999, 9007199254740993 FROM fruit ORDER BY id";
    let commands: &[(&[&str], i32)] = &[
        (&["CREATE TABLE fruit(id INTEGER PRIMARY KEY, name TEXT UNIQUE, price REAL, raw BLOB)"], 0),
        (&["INSERT INTO fruit(name, price) VALUES ('apple', 1.5), ('le\"mon', 2); SELECT 1"], 0),
        (&["INSERT INTO fruit(name, raw) VALUES ('sloe', x'00ff') RETURNING *"], 0),
        (&[all], 0),
        (&[all, "--format", "csv"], 0),
        (&[all, "--format", "ndjson"], 0),
        (&[all, "--json"], 0),
        (&["SELECT * FROM fruit WHERE id > 99", "--json"], 0),
        (&["SELECT 1", "SELECT 2; SELECT 3"], 0),
        (&["INSERT INTO fruit(name) VALUES ('apple')"], 1),
        (&["SELECT absent"], 1),
        (&["SELECT 1;\nSELECT absent"], 1),
    ];
    for (words, code) in commands {
        let there = pando(&[&["--url", &url[..], "sql"], *words].concat());
        let here = pando(&[&["sql", local], *words].concat());
        assert_eq!(here.status.code(), Some(*code), "{words:?}: {}", String::from_utf8_lossy(&here.stderr));
        assert_eq!(there.status.code(), Some(*code), "{words:?}: {}", String::from_utf8_lossy(&there.stderr));
        assert_eq!(
            String::from_utf8_lossy(&here.stdout),
            String::from_utf8_lossy(&there.stdout),
            "{words:?}"
        );
        assert_eq!(
            String::from_utf8_lossy(&here.stderr),
            String::from_utf8_lossy(&there.stderr),
            "{words:?}"
        );
    }
    for (words, code) in [
        (&["SELECT 1", "--read-only"][..], 0),
        (&["DELETE FROM fruit", "--read-only"], 1),
        (&["--from-sqlite", "x"], 2),
    ] {
        assert_eq!(
            pando(&[&["--url", &url[..], "sql"], words].concat()).status.code(),
            Some(code),
            "{words:?}"
        );
    }
    assert_eq!(pando(&["sql", &url, "BEGIN"]).status.code(), Some(1));
    let script = dir.path().join("script");
    std::fs::write(&script, "DELETE FROM fruit WHERE id = 1;\nSELECT name FROM fruit;\n").unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pando"));
    let output = command.args(["sql", &url, "--format", "csv"]).stdin(std::fs::File::open(&script).unwrap());
    assert_eq!(String::from_utf8_lossy(&output.output().unwrap().stdout), "name\n\"le\"\"mon\"\nsloe\n");
}

#[test]
fn a_file_over_the_limit_is_refused_before_it_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(&dir.path().join("served"), &["--max-body", "2M"]);
    let url = format!("http://{}/d", server.address);
    let file = dir.path().join("file");
    let put = |bytes: u64| {
        std::fs::File::create(&file).unwrap().set_len(bytes).unwrap();
        pando(["put", &url, "t", "k", "--file", file.to_str().unwrap()])
    };
    let said = failure(put(300 << 20), 1);
    assert!(said.contains("(413)") && said.contains("2097152"), "{said}");
    assert!(put(3 << 19).status.success());
    assert_eq!(pando(["get", &url, "t", "k"]).stdout.len(), 3 << 19);
    // What the kernel makes up says that it is empty.
    assert!(pando(["put", &url, "t", "k", "--file", "/proc/self/cmdline"]).status.success());
    assert!(!pando(["get", &url, "t", "k"]).stdout.is_empty());
}
