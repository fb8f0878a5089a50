//! Soundness: where `unsafe` may live and how it is argued for, and orderings weaker than SeqCst.

use super::tree::{Finding, Tree};
use crate::source::{Line, Source, find_word};

/// The files that may hold `unsafe`, each with the reason why it cannot do without.
const UNSAFE_FILES: &[(&str, &str)] = &[
    ("bindings/c/src/changes.rs", "functions of C, which take its pointers"),
    ("bindings/c/src/code.rs", "functions that C finds by their names"),
    ("bindings/c/src/consumer.rs", "functions of C, which take its pointers"),
    ("bindings/c/src/cursor.rs", "functions of C, which take its pointers"),
    ("bindings/c/src/db.rs", "functions of C, which take its pointers"),
    ("bindings/c/src/error.rs", "functions of C, which take its pointers"),
    ("bindings/c/src/expiry.rs", "functions of C, which take its pointers"),
    ("bindings/c/src/hold.rs", "functions of C, which take its pointers"),
    ("bindings/c/src/memory.rs", "pointers of C, checked as far as they can be, and memory of malloc"),
    ("bindings/c/src/reads.rs", "pointers inside of arrays and ranges of C"),
    ("bindings/c/src/sql.rs", "functions of C, which take its pointers"),
    ("bindings/c/src/stmt.rs", "functions of C, which take its pointers"),
    ("bindings/shared/src/sql/held.rs", "statements and rows, which change threads with their connection"),
    ("bindings/c/src/snapshot.rs", "functions of C, which take its pointers"),
    ("bindings/c/src/table.rs", "functions of C, which take its pointers"),
    ("bindings/c/src/tx.rs", "functions of C, which take its pointers"),
    ("bindings/c/src/tx_reads.rs", "functions of C, which take its pointers"),
    ("bindings/node/src/bytes.rs", "values of Node-API, made by its own rules"),
    ("bindings/c/src/upkeep.rs", "functions of C, which take its pointers"),
    ("bindings/c/src/values.rs", "functions of C, which take its pointers"),
    ("crates/bench/src/alloc.rs", "an allocator that counts what it hands on"),
    ("crates/base/src/prefetch.rs", "the processor's hint, which is an intrinsic"),
    (
        "crates/base/src/slots/mod.rs",
        "chunks of slots that live as long as the database, behind atomic pointers",
    ),
    ("crates/base/src/slots/reader.rs", "one of those slots, pointed to by its one owner"),
    ("crates/io/src/memory.rs", "buffers, mapped and unmapped by their one owner"),
    ("crates/io/src/bus.rs", "a signal handler, and the list of mappings that it looks at"),
    ("crates/io/src/fork.rs", "a page that the kernel wipes in forked children"),
    ("crates/io/src/map.rs", "a log segment that is already written, reached through a shared mapping"),
    ("crates/io/src/sched/time_slice.rs", "two system calls that rustix does not have"),
    ("crates/io/src/writeback.rs", "a system call that rustix does not have"),
    ("crates/io/tests/it/os.rs", "handlers of a host program, and faults of its own"),
    ("crates/memtable/src/arena.rs", "memory taken piece by piece and given back whole"),
    ("crates/memtable/src/node.rs", "nodes that readers read while one writer adds to them"),
    ("crates/memtable/src/record.rs", "records as they lie in the arena, reached by pointer"),
    (
        "crates/memtable/src/staged.rs",
        "records in the arena that outlive the borrow of the memtable, which is kept",
    ),
    ("crates/pando/tests/fork.rs", "forks"),
    ("crates/pando/tests/footprint.rs", "an allocator that counts, for the tests of memory"),
    ("crates/memtable/src/table.rs", "directories and arrays in the arena that only grow by copies"),
    (
        "crates/pool/src/chunk.rs",
        "memory of frames, lent by the rules of frames.rs and freed with the last reference",
    ),
    (
        "crates/pool/src/frames.rs",
        "frames that are read without a lock and reused when no reader can see them",
    ),
    ("crates/profile/src/allocator.rs", "an allocator that hands on, and samples"),
    ("crates/profile/src/freed.rs", "the allocator is told to give back what is free"),
    ("crates/profile/src/native/modules.rs", "the loader's list of what is mapped"),
    ("crates/profile/src/native/signal.rs", "a signal handler, and its timer"),
    ("crates/profile/src/native/thread.rs", "the thread's name and its errno"),
    ("crates/profile/src/native/unwind.rs", "registers, and stacks read while they are in use"),
    ("crates/sql/src/vtab/calls.rs", "the functions of a virtual table, which SQLite calls"),
    ("crates/sql/src/vtab/host.rs", "calls of the SQLite connection that calls a table"),
    ("crates/sql/src/vtab/query.rs", "a query as SQLite lends it to a table"),
    ("crates/sql/src/vtab/values.rs", "values that SQLite lends to a table"),
    ("crates/sqlite/src/calls/cursors.rs", "functions on a cursor, which SQLite calls"),
    ("crates/sqlite/src/calls/handles.rs", "handles of blobs, which SQLite calls about"),
    ("crates/sqlite/src/calls/mod.rs", "the handles that SQLite passes to these functions"),
    ("crates/sqlite/src/calls/opening.rs", "functions that open and close a database, which SQLite calls"),
    ("crates/sqlite/src/calls/trees.rs", "functions on a database, which SQLite calls"),
    ("crates/sqlite/src/connection/authorizer.rs", "a callback that SQLite calls with strings"),
    ("crates/sqlite/src/connection/functions.rs", "functions that SQLite calls, and their values"),
    ("crates/sqlite/src/connection/interrupt.rs", "an interrupt from any thread"),
    ("crates/sqlite/src/connection/kept.rs", "statements that a connection keeps and frees"),
    ("crates/sqlite/src/connection/memory.rs", "calls of SQLite before there is a connection"),
    ("crates/sqlite/src/connection/mod.rs", "calls of SQLite with a connection"),
    ("crates/sqlite/src/connection/settings.rs", "calls of SQLite with a connection"),
    ("crates/sqlite/src/connection/statement.rs", "calls of SQLite with a statement"),
    ("crates/sqlite/src/connection/statement/bound.rs", "bytes that SQLite reads where they lie"),
    ("crates/sqlite/src/connection/stop.rs", "a callback that SQLite calls"),
    ("crates/sqlite/src/sys.rs", "declarations of SQLite's functions"),
    ("crates/sqlite/src/ffi.rs", "declarations of SQLite's functions, and a transaction lent to them"),
    ("crates/sqlite/tests/it/cookies.rs", "a transaction that is lent to the test"),
    ("crates/sqlite/tests/it/modules.rs", "a virtual table, which SQLite calls"),
    ("crates/store/src/read/resolve.rs", "an entry stays in the view that the call which found it keeps"),
    ("crates/store/src/read/value_ref.rs", "bytes in a page or a memtable, with what keeps them there"),
    ("crates/store/src/read/scan.rs", "a cursor keeps looking at the view that a call of its snapshot keeps"),
    ("crates/store/src/read/snapshot.rs", "a snapshot looks at the view that its slot holds"),
    (
        "crates/store/src/state/view.rs",
        "views that are found without a lock and freed when no slot holds them",
    ),
    ("crates/store/tests/views_loom.rs", "holds views as a snapshot does, under loom"),
    ("sql-extension/src/lib.rs", "SQLite's entry point for extensions, which is C's"),
    ("rivals/src/engines/lmdb.rs", "a map is as safe as all who share the file, as LMDB's binding says"),
];

/// How far above a weaker ordering the comment that argues for it may begin.
const ORDERING_REACH_LINES: usize = 6;
const WEAKER: [&str; 4] = ["Relaxed", "Acquire", "Release", "AcqRel"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        unsafe_code(source, &mut findings);
        if !source.is_test_file() {
            orderings(source, &mut findings);
        }
    }
    findings
}

fn unsafe_code(source: &Source, findings: &mut Vec<Finding>) {
    let allowed = UNSAFE_FILES.iter().any(|(path, _)| *path == source.path);
    let mut any = false;
    for (index, line) in source.lines.iter().enumerate() {
        let Some(at) = find_word(&line.code, "unsafe", 0) else { continue };
        any = true;
        if !allowed {
            let message = "`unsafe` outside the files that may hold it: do without, or add the file and its \
                           reason to xtask/src/tidy/sound.rs";
            findings.push(Finding::error(&source.path, index + 1, message));
        }
        let wanted = contract(&line.code[at + "unsafe".len()..]);
        if wanted.is_some_and(|wanted| !argued(&source.lines, index, wanted)) {
            let message =
                format!("`unsafe` without its `{}` comment right above", wanted.unwrap_or_default());
            findings.push(Finding::error(&source.path, index + 1, message));
        }
    }
    if allowed && !any {
        let message =
            "listed in xtask/src/tidy/sound.rs as holding `unsafe`, and does not: take it off the list";
        findings.push(Finding::error(&source.path, 1, message));
    }
}

/// What must stand above `unsafe`, by what follows it: a block or an `impl` is argued for; a function or a trait states
/// what its callers owe or, implementing somebody's trait, argues that it passes that on. `unsafe fn(...)` is a type
/// and `#[unsafe(...)]` an attribute.
fn contract(after: &str) -> Option<&'static str> {
    let after = after.trim_start();
    if after.starts_with('(') || after.starts_with("fn(") {
        return None;
    }
    let declares = find_word(after, "fn", 0).is_some() && !after.starts_with('{');
    Some(if declares || after.starts_with("trait") { "# Safety" } else { "SAFETY:" })
}

/// Whether a comment that holds `wanted` stands on the line or right above the statement that the line belongs to.
fn argued(lines: &[Line], index: usize, wanted: &str) -> bool {
    let states = |line: &Line| line.comment.contains(wanted) || line.comment.contains("SAFETY:");
    if states(&lines[index]) {
        return true;
    }
    for line in lines[..index].iter().rev() {
        if states(line) {
            return true;
        }
        let code = line.code.trim();
        let only_comment = code.is_empty() && !line.comment.is_empty();
        let attribute = code.starts_with("#[");
        let continues = !code.is_empty() && !code.ends_with([';', '{', '}', ',']);
        if !(only_comment || attribute || continues) {
            return false;
        }
    }
    false
}

fn orderings(source: &Source, findings: &mut Vec<Finding>) {
    for (index, line) in source.lines.iter().enumerate().filter(|(_, line)| !line.test) {
        let weaker = WEAKER.iter().find(|name| find_word(&line.code, name, 0).is_some());
        let Some(ordering) = weaker.filter(|_| !line.code.trim_start().starts_with("use ")) else { continue };
        let above = &source.lines[index.saturating_sub(ORDERING_REACH_LINES)..=index];
        if !above.iter().any(|line| names_an_ordering(&line.comment)) {
            let message = format!(
                "`{ordering}` without a reason: within the {ORDERING_REACH_LINES} lines above, a comment \
                 says \"{ordering}\", names the partner and why it is enough; or use SeqCst"
            );
            findings.push(Finding::error(&source.path, index + 1, message));
        }
    }
}

fn names_an_ordering(comment: &str) -> bool {
    let comment = comment.to_lowercase();
    WEAKER.iter().any(|name| comment.contains(&name.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::super::planted::found;
    use super::*;

    const ALLOWED: &str = "crates/base/src/slots/mod.rs";
    const OTHER: &str = "crates/store/src/a.rs";

    #[test]
    fn unsafe_lives_in_listed_files_only() {
        let good = "fn f() {\n    // SAFETY: it is.\n    unsafe { g() }\n}\n";
        assert!(found(check, ALLOWED, good).is_empty());
        assert_eq!(found(check, OTHER, good), ["crates/store/src/a.rs:3"]);
        assert!(found(check, OTHER, "// unsafe\nlet a = \"unsafe\";\n").is_empty());
        assert_eq!(found(check, ALLOWED, "fn f() {}\n").len(), 1, "a dead exception");
    }

    #[test]
    fn every_unsafe_is_argued_for() {
        let bare = |text: &str| found(check, ALLOWED, text);
        assert_eq!(bare("fn f() {\n    unsafe { g() }\n}\n"), ["crates/base/src/slots/mod.rs:2"]);
        assert_eq!(bare("// SAFETY: it is.\na();\nunsafe { g() }\n"), ["crates/base/src/slots/mod.rs:3"]);
        assert_eq!(bare("// because\nunsafe impl Send for A {}\n"), ["crates/base/src/slots/mod.rs:2"]);
        assert_eq!(bare("/// Does.\npub unsafe fn f() {}\n"), ["crates/base/src/slots/mod.rs:2"]);
        assert!(bare("// SAFETY: it\n// is.\nlet a =\n    unsafe { g() };\n").is_empty());
        assert!(bare("/// # Safety\n/// Never.\n#[inline]\npub unsafe fn f() {}\n").is_empty());
        assert!(bare("// SAFETY: passed on.\nunsafe fn alloc(&self) {}\n").is_empty());
        assert!(bare("type F = unsafe fn(u8);\n").is_empty());
    }

    #[test]
    fn a_weaker_ordering_names_its_reason() {
        let plain = "fn f() {\n    a.load(Ordering::Acquire);\n}\n";
        assert_eq!(found(check, OTHER, plain), ["crates/store/src/a.rs:2"]);
        assert_eq!(found(check, OTHER, "a.load(Acquire);\n").len(), 1, "also without the path");
        let unrelated = "// The newest.\na.load(Ordering::Relaxed);\n";
        assert_eq!(found(check, OTHER, unrelated), ["crates/store/src/a.rs:2"]);
        let far = format!("// Acquire: f.\n{}a.load(Ordering::Acquire);\n", "b();\n".repeat(6));
        assert_eq!(found(check, OTHER, &far), ["crates/store/src/a.rs:8"]);
        assert!(
            found(check, OTHER, "// Acquire, whose partner is f.\na.load(Ordering::Acquire);\n").is_empty()
        );
        assert!(found(check, OTHER, "a.load(Ordering::Relaxed); // Relaxed: a hint only.\n").is_empty());
        assert!(found(check, OTHER, "a.load(Ordering::SeqCst);\n").is_empty());
        assert!(found(check, OTHER, "a.cmp(b) == Ordering::Less\n").is_empty());
        assert!(found(check, "crates/store/tests/a.rs", plain).is_empty());
    }
}
