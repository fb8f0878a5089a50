//! What a failure says: the true cause, what was done before it, and a cure that fits.

use crate::common::{failure, pando, text};
use crate::http::Server;
use pando::{Database, Layout, TableOptions, Transaction};
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn a_change_of_layout_says_what_it_did_before_the_disk_was_full() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let (db, key) = (Database::create(path).unwrap(), u32::to_be_bytes);
    let table = db.create_table("t", &TableOptions::with_layout(Layout::Lsm)).unwrap();
    for run in 0..3_u32 {
        let put =
            |tx: &mut Transaction| (0..4_000).try_for_each(|n| tx.put(&table, key(n * 3 + run), [7; 400]));
        db.write(put).unwrap();
        db.checkpoint().unwrap();
    }
    db.close().unwrap();
    let kib = fs::metadata(dir.path().join("data")).unwrap().len().div_ceil(1024);
    let script = format!("trap '' XFSZ; ulimit -f {kib}; exec \"$@\"");
    let mut limited = Command::new("bash");
    limited.args(["-c", &script, "bash", env!("CARGO_BIN_EXE_pando"), "layout", path, "t", "btree"]);
    let said = failure(limited.output().unwrap(), 1);
    assert!(said.contains("has the layout btree from now on"), "{said}");
    assert!(said.contains("help: make room") && !said.contains("nothing was written"), "{said}");
    assert!(text(pando(["tables", path])).contains("btree"));
    text(pando(["layout", path, "t", "btree"]));
    assert!(text(pando(["check", path, "--json"])).contains("\"lsm_tables\":0"));
}

#[test]
fn a_damaged_consumer_is_not_a_damaged_database() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    text(pando(["put", path, "t", "k", "v"]));
    text(pando(["watch", path, "--consumer", "c"]));
    fs::write(dir.path().join("consumer-63"), b"?").unwrap();
    let said = failure(pando(["get", path, "t", "k"]), 3);
    assert!(said.contains("consumer-63") && said.contains("remove the file to drop the consumer"), "{said}");
    assert!(said.contains("help: the tables are not affected") && !said.contains("salvage"), "{said}");
    fs::remove_file(dir.path().join("consumer-63")).unwrap();
    assert_eq!(text(pando(["get", path, "t", "k"])), "v");
}

#[test]
fn a_data_file_that_was_cut_off_can_be_salvaged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    text(pando(["put", path, "t", "k", "v"]));
    fs::write(dir.path().join("data"), b"").unwrap();
    let said = failure(pando(["get", path, "t", "k"]), 3);
    assert!(
        said.contains("name the directory of a Pando database") && said.contains("pando salvage"),
        "{said}"
    );
}

#[test]
fn no_directory_is_made_for_an_address() {
    let dir = tempfile::tempdir().unwrap();
    let here = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pando"));
        failure(command.args(words).current_dir(dir.path()).output().unwrap(), 2)
    };
    for words in [
        &["serve", "http://h/x"][..],
        &["ship", "http://h/x", "there"],
        &["token", "create", "http://h/x", "--name", "n", "--scope", "read"],
        &["token", "create", "htp://h/x", "--name", "n", "--scope", "read"],
        &["backup", "db", "http://h/x"],
        &["restore", "there", "htp://h/x"],
    ] {
        let said = here(words);
        assert!(
            said.contains("not a directory") || said.contains("on a directory, not on a server"),
            "{said}"
        );
    }
    for address in ["htp://h/x", "s3://h/x", "postgres://u:secret@h/x"] {
        let said = here(&["put", address, "t", "k", "v"]);
        assert!(said.contains("begins with http:// or https://") && !said.contains("secret"), "{said}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    let served = dir.path().join("served");
    let server = Server::start(&served);
    text(pando(["put", &format!("HTTP://{}/d", server.address), "t", "k", "v"]));
    assert!(served.join("d").exists() && !Path::new("HTTP:").exists());
}
