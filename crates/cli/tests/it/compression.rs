//! `pando compression`, and `--compression` of commands that make tables.

use crate::common::{failure, pando, text};

#[test]
fn a_compressed_table_takes_less_and_can_be_told_not_to_be() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let rows = dir.path().with_extension("csv");
    let lines =
        (0..3000).map(|n| format!("{n:05},{{\"\"status\"\": \"\"open\"\"; \"\"amount\"\": {}}}\n", n * 7));
    let lines = lines.map(|line| line.replacen(',', ",\"", 1).replace("}\n", "}\"\n"));
    std::fs::write(&rows, format!("key,value\n{}", lines.collect::<String>())).unwrap();
    let from = rows.to_str().unwrap();
    text(pando(["import", path, "t", from, "--layout", "lsm", "--compression", "lz4"]));
    let tables = text(pando(["tables", path, "--format", "csv"]));
    assert!(tables.contains("t,lsm,none,lz4,"), "{tables}");
    text(pando(["checkpoint", path]));
    let saved = |path: &str| {
        let checked = text(pando(["check", path, "--json"]));
        let (_, rest) = checked.split_once("\"saved_bytes\":").unwrap();
        rest.trim().split(|c: char| !c.is_ascii_digit()).next().unwrap().parse::<u64>().unwrap()
    };
    assert!(saved(path) > 20_000, "{} bytes", saved(path));
    failure(pando(["put", path, "t", "k", "v", "--compression", "none"]), 2);
    text(pando(["put", path, "t", "k", "v", "--compression", "lz4"]));

    text(pando(["compression", path, "t", "none"]));
    assert!(text(pando(["tables", path, "--format", "csv"])).contains("t,lsm,none,none,"));
    assert!(saved(path) > 20_000, "nothing is rewritten");
    text(pando(["compression", path, "t", "lz4"]));
    assert_eq!(text(pando(["get", path, "t", "k"])), "v");

    failure(pando(["put", path, "tree", "k", "v", "--compression", "lz4"]), 2);
    text(pando(["put", path, "tree", "k", "v"]));
    failure(pando(["compression", path, "tree", "lz4"]), 2);
    failure(pando(["compression", path, "nowhere", "lz4"]), 1);
    failure(pando(["compression", path, "t", "zip"]), 2);
    std::fs::remove_file(rows).unwrap();
}
