//! The mutants' runner against a repository of three lines, with one mutant of each fate.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::mutants::{Options, run};

/// What the protocol must hold, checked by `sh check`: writing without a sync is what the seed finds.
const PROTOCOL: &str = "write\nsync\npublish\n";
const CHECK: &str = "test -f protocol || exit 9\ngrep -q sync protocol || { echo 'lost: seed 7'; exit 1; }\n";

fn git(dir: &Path, arguments: &[&str]) {
    let identity = ["-c", "user.name=n", "-c", "user.email=n@example.org"];
    let status = Command::new("git").args(identity).args(arguments).current_dir(dir).status().unwrap();
    assert!(status.success(), "git {arguments:?}");
}

/// A fresh repository with the protocol, its check, and no mutants.
fn repository(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(dir.join("mutants")).unwrap();
    fs::write(dir.join("protocol"), PROTOCOL).unwrap();
    fs::write(dir.join("check"), CHECK).unwrap();
    fs::write(dir.join(".gitignore"), "/target\n").unwrap();
    git(&dir, &["init", "--quiet"]);
    git(&dir, &["add", "."]);
    git(&dir, &["commit", "--quiet", "--message", "The protocol"]);
    dir
}

/// Plants a mutant that replaces one line of the protocol.
fn plant(dir: &Path, name: &str, from: &str, to: &str) {
    let lines = PROTOCOL.replace(from, "-");
    let diff: String = PROTOCOL
        .lines()
        .zip(lines.lines())
        .map(|(old, new)| if new == "-" { format!("-{old}\n+{to}\n") } else { format!(" {old}\n") })
        .collect();
    let head = format!("# breaks: {from} becomes {to}\n# caught-by: sh check\n");
    let diff =
        format!("diff --git a/protocol b/protocol\n--- a/protocol\n+++ b/protocol\n@@ -1,3 +1,3 @@\n{diff}");
    fs::write(dir.join(format!("mutants/{name}.patch")), head + &diff).unwrap();
}

/// Runs the mutants; answers the verdict and the report.
fn report(dir: &Path, options: &Options) -> (bool, String) {
    let mut out = Vec::new();
    let good = run(dir, options, &mut out).unwrap();
    (good, String::from_utf8(out).unwrap())
}

#[test]
fn a_caught_mutant_shows_its_seed_and_leaves_no_trace() {
    let dir = repository("caught");
    plant(&dir, "01-no-sync", "sync", "nap");
    for _ in 0..2 {
        let (good, text) = report(&dir, &Options::default());
        assert!(good, "{text}");
        assert!(text.contains("| 01-no-sync | sync becomes nap | sh check  | 7    |"), "{text}");
        assert_eq!(fs::read_to_string(dir.join("protocol")).unwrap(), PROTOCOL);
    }
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn every_other_fate_fails_the_run() {
    let dir = repository("fates");
    plant(&dir, "01-survives", "publish", "shout");
    plant(&dir, "02-stale", "sync", "nap");
    let stale = fs::read_to_string(dir.join("mutants/02-stale.patch")).unwrap().replace(" write", " read");
    fs::write(dir.join("mutants/02-stale.patch"), stale).unwrap();
    let gone = "# breaks: everything\n# caught-by: sh check\ndiff --git a/protocol b/protocol\n\
                deleted file mode 100644\n--- a/protocol\n+++ /dev/null\n@@ -1,3 +0,0 @@\n\
                -write\n-sync\n-publish\n";
    fs::write(dir.join("mutants/03-no-seed.patch"), gone).unwrap();
    let (good, text) = report(&dir, &Options { keep_going: true, ..Options::default() });
    assert!(!good);
    assert!(text.contains("01-survives: SURVIVED"), "{text}");
    assert!(text.contains("02-stale: DOES NOT APPLY"), "{text}");
    assert!(text.contains("03-no-seed: NO SEED"), "{text}");
    let (good, text) = report(&dir, &Options::default());
    assert!(!good && !text.contains("02-stale:"), "it stops at the first: {text}");
    for only in ["02-stale", "stale"] {
        let (good, text) = report(&dir, &Options { only: vec![only.to_string()], ..Options::default() });
        assert!(!good && text.contains("02-stale:") && !text.contains("01-survives"), "{text}");
    }
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn uncommitted_changes_are_judged_too() {
    let dir = repository("uncommitted");
    plant(&dir, "01-no-sync", "sync", "nap");
    fs::write(dir.join("check"), "exit 0\n").unwrap();
    let (good, text) = report(&dir, &Options::default());
    assert!(!good && text.contains("SURVIVED"), "{text}");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_check_that_fails_on_unbroken_code_proves_nothing() {
    let dir = repository("broken");
    assert!(run(&dir, &Options::default(), &mut Vec::new()).is_err(), "no mutants prove nothing");
    plant(&dir, "01-no-sync", "sync", "nap");
    fs::write(dir.join("check"), "echo seed 1\nexit 1\n").unwrap();
    git(&dir, &["commit", "--quiet", "--all", "--message", "A broken check"]);
    let error = run(&dir, &Options::default(), &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("unbroken"), "{error}");
    let missing = Options { only: vec!["no-such".to_string()], ..Options::default() };
    assert!(run(&dir, &missing, &mut Vec::new()).is_err());
    fs::remove_dir_all(dir).unwrap();
}
