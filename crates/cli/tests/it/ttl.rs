//! `pando ttl`, and `--ttl` of commands that make tables.

use crate::common::{failure, pando, text};
use std::time::{Duration, Instant};

#[test]
fn entries_expire_and_the_ttl_changes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    text(pando(["put", path, "t", "k", "v", "--ttl", "36h", "--layout", "lsm"]));
    assert!(text(pando(["tables", path])).contains("36h"));
    text(pando(["put", path, "t", "k", "v"]));
    failure(pando(["put", path, "t", "k", "v", "--ttl", "35h"]), 2);
    failure(pando(["put", path, "t", "k", "v", "--ttl", "soon"]), 2);
    failure(pando(["ttl", path, "nowhere", "1s"]), 1);
    assert_eq!(text(pando(["get", path, "t", "k"])), "v");

    text(pando(["ttl", path, "t", "1ms"]));
    let began = Instant::now();
    while pando(["get", path, "t", "k"]).status.code() == Some(0) {
        assert!(began.elapsed() < Duration::from_secs(10), "it does not expire");
    }
    failure(pando(["get", path, "t", "k"]), 1);
    text(pando(["ttl", path, "t", "none"]));
    assert!(text(pando(["tables", path, "--json"])).contains("\"ttl\":\"none\""));
    failure(pando(["get", path, "t", "k"]), 1);

    text(pando(["put", path, "plain", "k", "v"]));
    failure(pando(["ttl", path, "plain", "1h"]), 2);
    assert_eq!(text(pando(["get", path, "plain", "k"])), "v");
}
