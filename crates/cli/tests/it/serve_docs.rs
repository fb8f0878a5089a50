//! The examples of docs/http.md, run as they stand there.

use crate::http::Server;
use std::process::Command;

#[test]
fn the_examples_of_the_docs_work() {
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("skipped: there is no curl to run the examples");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let docs = include_str!("../../../../docs/http.md");
    let mut run = 0;
    for block in docs.split("```sh\n").skip(1) {
        let block = block.split("```").next().unwrap();
        if !block.contains("curl ") {
            continue;
        }
        let here = block.replace("127.0.0.1:7263", &server.address.to_string());
        let script = format!("set -e\ncurl() {{ command curl -sS --fail \"$@\"; echo; }}\n{here}");
        let output = Command::new("sh").arg("-c").arg(&script).output().unwrap();
        assert!(output.status.success(), "{block}\n{}", String::from_utf8_lossy(&output.stderr));
        run += 1;
    }
    assert!(run >= 3, "the docs have examples");
    let left = server.ask("GET", "/v1/databases/shop/tables/stock/entries/apples", b"");
    assert_eq!(left.body, b"6");
}
