//! Import of what was exported makes the same table; and the other inputs that `import` takes.

use crate::common::{failure, pando, pando_with, stdout, text};
use base::env::Random;
use pando::Database;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn word(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn store(dir: &Path, records: &Model) {
    let db = Database::create(dir).unwrap();
    let table = db.ensure_table("t").unwrap();
    db.write(|tx| records.iter().try_for_each(|(key, value)| tx.put(&table, key, value))).unwrap();
}

fn load(dir: &Path, table: &str) -> Model {
    let db = Database::open(dir).unwrap();
    let table = db.table(table).unwrap().unwrap();
    db.snapshot().unwrap().range(&table, ..).unwrap().collect::<pando::Result<_>>().unwrap()
}

/// Keys and values of every kind of byte, and all that formats give a meaning to.
fn awkward() -> Model {
    let mut random = Random::seeded(11);
    let mut records = Model::new();
    for special in
        ["", ",", "\"", "\"\"", "\n", "\r\n", "\r", " a ", "key", "#x", "\\", "\0", "\u{feff}", "ü"]
    {
        let other = |n: u8| [special.as_bytes(), &[n]].concat();
        records.insert([b"k", special.as_bytes()].concat(), special.as_bytes().to_vec());
        records.insert(other(b'k'), other(b'v'));
        records.insert(other(0xff), other(0xfe));
    }
    for _ in 0..300 {
        let mut bytes = |most| (0..=random.below(most)).map(|_| random.next_u64() as u8).collect::<Vec<u8>>();
        records.insert(bytes(20), bytes(200));
    }
    records.insert(b"large".to_vec(), (0..=255).cycle().take(70_000).collect());
    records
}

#[test]
fn arbitrary_bytes_survive_csv_and_ndjson() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let records = awkward();
    store(&from, &records);
    for format in ["csv", "ndjson"] {
        let exported = stdout(pando(["export", word(&from), "t", "--format", format]));
        let args = ["import", word(&to), format, "-", "--format", format, "--threads", "2", "--batch", "50"];
        stdout(pando_with(args, &exported));
        assert!(load(&to, format) == records, "{format}");
        let bulk = format!("{format}-bulk");
        let args = ["import", word(&to), &bulk, "-", "--format", format, "--bulk"];
        assert!(String::from_utf8_lossy(&stdout(pando_with(args, &exported))).contains("in 1 commits"));
        assert!(load(&to, &bulk) == records, "{bulk}");
        // A scan in that format is the same text.
        assert_eq!(stdout(pando(["scan", word(&from), "t", "--format", format])), exported);
        // And so is a file that the name gives the format to.
        let file = dir.path().join(format!("out.{format}"));
        stdout(pando(["export", word(&from), "t", word(&file)]));
        assert_eq!(fs::read(&file).unwrap(), exported);
        assert!(failure(pando(["export", word(&from), "t", word(&file)]), 2).contains("exists already"));
    }
}

#[test]
fn a_tree_goes_in_and_comes_out() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, db, out) = (dir.path().join("tree"), dir.path().join("db"), dir.path().join("out"));
    let mut files = Model::new();
    for (path, content) in
        [("a", &b"1"[..]), ("b/c/d.txt", b""), ("b/e", &[0xff, 0, 10]), ("b.x/y z", b"long\n")]
    {
        let file = tree.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, content).unwrap();
        files.insert(path.as_bytes().to_vec(), content.to_vec());
    }
    std::os::unix::fs::symlink("a", tree.join("link")).unwrap();
    let said = text(pando(["import", word(&db), "t", word(&tree), "--threads", "3", "--batch", "1"]));
    assert!(said.starts_with("4 records, "), "{said}");
    assert_eq!(load(&db, "t"), files);
    stdout(pando(["export", word(&db), "t", word(&out), "--format", "tree"]));
    stdout(pando(["import", word(&db), "again", word(&out)]));
    assert_eq!(load(&db, "again"), files);
    assert!(
        failure(pando(["export", word(&db), "t", word(&out), "--format", "tree"]), 2).contains("not empty")
    );
    // A key that leads out of the tree is refused.
    stdout(pando(["put", word(&db), "t", "../escaped", "x"]));
    let other = dir.path().join("other");
    failure(pando(["export", word(&db), "t", word(&other), "--format", "tree"]), 1);
    assert!(!dir.path().join("escaped").exists());
}

#[test]
fn csv_columns_are_chosen_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let rows = "id,name,age\n1,Ann,40\n2,\"B, \"\"ob\",\n";
    let import = |table: &str, options: &[&str]| {
        let args = ["import", word(&db), table, "-", "--format", "csv"];
        stdout(pando_with(args.iter().chain(options), rows.as_bytes()));
        load(&db, table).into_iter().map(|(k, v)| (string(k), string(v))).collect::<Vec<_>>()
    };
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let whole = [
        pair("1", r#"{"id":"1","name":"Ann","age":"40"}"#),
        pair("2", r#"{"id":"2","name":"B, \"ob","age":""}"#),
    ];
    assert_eq!(import("whole", &[]), whole);
    assert_eq!(
        import("named", &["--key", "name", "--value", "id"]),
        [pair("Ann", "1"), pair("B, \"ob", "2")]
    );
    let args = ["import", word(&db), "t", "-", "--format", "csv", "--key", "size"];
    assert!(failure(pando_with(args, rows.as_bytes()), 2).contains("no column \"size\" among id, name, age"));
    let args = ["import", word(&db), "t", "-", "--format", "csv"];
    let said = failure(pando_with(args, b"a,b,c\n1,2,3\n1,2\n"), 1);
    assert!(said.contains("line: 3") || said.contains("line 3"), "{said}");
}

/// An object would have the name twice, and most readers see one of the values.
#[test]
fn csv_columns_of_one_name_are_refused_where_the_name_matters() {
    let dir = tempfile::tempdir().unwrap();
    let (db, file) = (dir.path().join("db"), dir.path().join("rows.csv"));
    fs::write(&file, "id,a,a\n1,x,y\n").unwrap();
    let import = |options: &[&str]| pando([&["import", word(&db), "t", word(&file)], options].concat());
    for options in [&[][..], &["--value", "a"], &["--key", "a"], &["--key", "a", "--value", "id"]] {
        let said = failure(import(options), 1);
        assert!(said.contains("CSV line 1: column \"a\" appears twice"), "{options:?}: {said}");
    }
    assert!(!db.exists());
    stdout(import(&["--value", "id"]));
    assert_eq!(load(&db, "t"), Model::from([(b"1".to_vec(), b"1".to_vec())]));
}

#[test]
fn ndjson_takes_its_own_lines_and_any_object() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let run = |lines: &str, options: &[&str]| {
        let args = ["import", word(&db), "t", "-", "--format", "ndjson"];
        pando_with(args.iter().chain(options), lines.as_bytes())
    };
    let own =
        [r#"{"key":"a","value":"\u00fc"}"#, "", r#"{"key_hex":"FF","value":{"n": 12345678901234567890123}}"#];
    stdout(run(&own.join("\n"), &[]));
    let object = "{\"n\": 12345678901234567890123}".to_owned().into_bytes();
    let expected: Model = [(b"a".to_vec(), "ü".into()), (vec![0xff], object)].into();
    assert_eq!(load(&db, "t"), expected);
    stdout(run("{\"id\": 7, \"name\": \"x\"}\n", &["--key", "id"]));
    assert_eq!(load(&db, "t")[&b"7"[..]], b"{\"id\": 7, \"name\": \"x\"}");
    stdout(run("{\"id\": 7, \"name\": \"x\"}\n", &["--key", "id", "--value", "name"]));
    assert_eq!(load(&db, "t")[&b"7"[..]], b"x");
    for (line, says) in [
        ("{\"key\":\"a\"}", "no field \"value\""),
        ("{\"key\":\"a\",\"key_hex\":\"00\",\"value\":\"\"}", "both"),
        ("{\"key\":\"a\",\"value\":\"\",\"more\":1}", "\"more\" is not part of a record"),
        ("{\"key\":\"a\",\"value_hex\":\"0\"}", "not hexadecimal"),
        ("{\"key\":\"a\",", "EOF"),
        ("[]", "line 1"),
    ] {
        let said = failure(run(line, &[]), 1);
        assert!(said.contains(says) && said.contains("NDJSON line 1"), "{line}: {said}");
    }
}

#[test]
fn an_input_that_is_missing_creates_no_database() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    failure(pando(["import", word(&db), "t", word(&dir.path().join("none.csv"))]), 1);
    assert!(!db.exists());
}

fn string(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_bulk_import_is_all_or_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("to");
    let broken = b"{\"key\": \"a\", \"value\": \"1\"}\n{\"key\": \"b\"\n";
    let args = ["import", word(&to), "t", "-", "--format", "ndjson", "--bulk"];
    assert!(failure(pando_with(args, broken), 1).contains("line 2"));
    assert!(load(&to, "t").is_empty());
    let args = ["import", word(&to), "t", word(dir.path()), "--bulk"];
    assert!(failure(pando(args), 2).contains("CSV"));
}

/// What an import of `input` says that fails, and the keys that are in the table then.
fn partly(dir: &Path, input: &str, options: &[&str]) -> (String, usize) {
    let args = ["import", word(dir), "t", "-"];
    let said = failure(pando_with(args.iter().chain(options), input.as_bytes()), 1);
    (said, load(dir, "t").len())
}

#[test]
fn a_quote_that_is_never_closed_is_no_value() {
    let dir = tempfile::tempdir().unwrap();
    let rows: String = (0..1000).map(|n| format!("k{n},v{n}\n")).collect();
    let opened = format!("key,value\na,1\nb,\"2\n{rows}");
    let (said, count) = partly(&dir.path().join("a"), &opened, &["--format", "csv"]);
    assert!(
        said.contains("CSV line 3, column 3 (row 3, field 2)") && said.contains("never closed"),
        "{said}"
    );
    assert_eq!(count, 0, "{said}");
    // A stray quote that the next quoted field closes would take all between for one value.
    let stray = format!("key,value\na,\"1\n{rows}b,\"2\"\n");
    let (said, count) = partly(&dir.path().join("b"), &stray, &["--format", "csv"]);
    assert!(said.contains("CSV line 2, column 3") && said.contains("closing quote, in line 1003"), "{said}");
    assert_eq!(count, 0, "{said}");
    let typed = ["--format", "csv", "--schema", "key text key, value text"];
    let args = |at: &str| [word(&dir.path().join(at)).to_owned(), "t".to_owned(), "-".to_owned()];
    for (at, input) in [("c", &opened), ("d", &stray)] {
        let words = ["import".to_owned()].into_iter().chain(args(at));
        let words = words.chain(typed.iter().map(|word| (*word).to_owned()));
        let said = failure(pando_with(words, input.as_bytes()), 1);
        assert!(said.contains("field 2)") && said.contains("no row was imported"), "{said}");
    }
}

#[test]
fn an_import_that_fails_says_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let lines: String = (0..2500).map(|n| format!("{{\"key\":\"k{n}\",\"value\":\"v\"}}\n")).collect();
    let broken = format!("{lines}{{\"key\":\"z\",\"val");
    for (at, threads) in [("one", "1"), ("four", "4")] {
        let options = ["--format", "ndjson", "--threads", threads, "--batch", "100"];
        let (said, count) = partly(&dir.path().join(at), &broken, &options);
        let of = if threads == "1" { "the first " } else { "" };
        let kept = format!("{of}{count} records were imported before");
        assert!(count > 0 && said.contains(&kept) && said.contains("NDJSON line 2501"), "{count}: {said}");
        assert!(said.contains("cut off") && !said.contains("nothing was written"), "{said}");
    }
    let (said, count) = partly(&dir.path().join("none"), "{bad", &["--format", "ndjson"]);
    assert!(count == 0 && said.contains("no record was imported"), "{said}");
    // A record that the engine refuses, far behind those before it, and a key that is not shown whole.
    let long = format!("{lines}{{\"key\":\"{}\",\"value\":\"v\"}}\n", "k".repeat(5000));
    let at = dir.path().join("long");
    let args = ["import", word(&at), "t", "-", "--format", "ndjson", "--batch", "500"];
    let said = failure(pando_with(args, long.as_bytes()), 2);
    let count = load(&at, "t").len();
    assert!(count == 2500 && said.contains("the first 2500 records"), "{count}: {said}");
    assert!(said.contains("(5000 bytes)") && said.len() < 600, "{said}");
}

#[test]
fn inputs_that_are_no_such_text_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let run = |input: &[u8], options: &[&str]| {
        let args = ["import", word(&db), "t", "-"];
        pando_with(args.iter().chain(options), input)
    };
    stdout(run(b"\xef\xbb\xbfkey,value\na,1\n", &["--format", "csv", "--key", "key"]));
    stdout(run(b"\xef\xbb\xbf{\"key\":\"b\",\"value\":\"2\"}\n", &["--format", "ndjson"]));
    stdout(run(b"key;value\nc;\"3;3\"\n", &["--format", "csv", "--delimiter", ";"]));
    stdout(run(b"key\tvalue\nd\t4,4\n", &["--format", "csv", "--delimiter", "tab"]));
    let expected: Model = [("a", "1"), ("b", "2"), ("c", "3;3"), ("d", "4,4")]
        .map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()))
        .into();
    assert_eq!(load(&db, "t"), expected);
    for format in ["csv", "ndjson"] {
        for (input, name) in [(&b"\xff\xfek\0"[..], "UTF-16"), (b"\x1f\x8b\x08\0", "gunzip")] {
            let said = failure(run(input, &["--format", format]), 1);
            assert!(said.contains(name), "{format}: {said}");
        }
    }
    for (input, hint) in [("key;value\na;1\n", "--delimiter ';'"), ("key\tvalue\na\t1\n", "--delimiter tab")]
    {
        for options in
            [&["--format", "csv"][..], &["--format", "csv", "--schema", "key text key, value text"]]
        {
            let said = failure(run(input.as_bytes(), options), 1);
            assert!(said.contains(hint), "{said}");
        }
    }
    failure(run(b"", &["--format", "csv", "--delimiter", "ab"]), 2);
    assert_eq!(load(&db, "t"), expected);
}

#[test]
fn progress_has_a_number() {
    if std::process::Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: there is no `script` to be a terminal");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let lines: String = (0..20_000).map(|n| format!("{{\"key\":\"k{n}\",\"value\":\"v\"}}\n")).collect();
    let (input, drawn) = (dir.path().join("r.ndjson"), dir.path().join("drawn"));
    fs::write(&input, lines).unwrap();
    // The input pauses for longer than the bar waits before it draws again, however fast the machine is.
    let input = format!("{{ cat {0}; sleep 1; cat {0}; }}", word(&input));
    let import =
        format!("{} import {} t - --batch 100", env!("CARGO_BIN_EXE_pando"), word(&dir.path().join("db")));
    let shown = format!("stty cols 100; {input} | {import} --durability buffered --format ndjson");
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &shown, word(&drawn)]).stdin(std::process::Stdio::null());
    assert!(script.output().unwrap().status.success());
    let drawn = String::from_utf8_lossy(&fs::read(&drawn).unwrap()).into_owned();
    let pictures =
        drawn.split('\r').filter(|picture| picture.contains(" records, ") && !picture.contains("commits"));
    let counts = pictures.filter(|picture| {
        let before = picture.split(" records, ").next().unwrap_or_default();
        before.chars().last().is_some_and(|last| last.is_ascii_digit()) && !before.ends_with(" 0")
    });
    assert!(counts.count() > 0, "{drawn:?}");
}
