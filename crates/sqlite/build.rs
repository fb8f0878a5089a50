//! Compiles the one-file source of SQLite that `libsqlite3-sys` bundles, with our B-trees below its upper layers.
//!
//! 1. The source is found by the metadata of `libsqlite3-sys`, and its checksum is compared: the glue was written
//!    against exactly this text, and another version fails to build instead of behaving in another way.
//! 2. The source is cut at the markers of the original files `btree.c` and `backup.c`. Nothing in it is changed.
//!    Macros around the two give the functions in [`OURS`] another name there, so that SQLite's own B-trees remain
//!    beside ours; `c/glue.c` defines the functions of the plain name, which choose between the two by handle.
//! 3. All public names get the prefix `pando_`, so that a program can contain the stock library, too.
//!
//! It is one translation unit: everything private stays `static`, as in the stock library, and the compiler can put
//! the choice into the callers.

use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The version that the glue was written against, and the SHA-256 of its source.
const VERSION: &str = "3.54.1";
const SHA256: &str = "0c657666d819f261cc4007526ad57e1669de9949df7a8ea847aa284a2bf0ee52";

/// The functions of the private interface that `c/glue.c` defines.
const OURS: &[&str] = &[
    "BeginStmt",
    "BeginTrans",
    "ClearTable",
    "ClearTableOfCursor",
    "Close",
    "CloseCursor",
    "Commit",
    "CommitPhaseOne",
    "CommitPhaseTwo",
    "CopyFile",
    "Count",
    "CreateTable",
    "Cursor",
    "CursorHasMoved",
    "CursorIsValidNN",
    "CursorPin",
    "CursorUnpin",
    "CursorRestore",
    "CursorSize",
    "CursorZero",
    "Delete",
    "DropTable",
    "Eof",
    "FakeValidCursor",
    "First",
    "GetMeta",
    "IncrVacuum",
    "IncrblobCursor",
    "IndexMoveto",
    "Insert",
    "IntegerKey",
    "IntegrityCheck",
    "IsEmpty",
    "IsReadonly",
    "Last",
    "LastPage",
    "MaxRecordSize",
    "NewDb",
    "Next",
    "Offset",
    "Open",
    "Payload",
    "PayloadChecked",
    "PayloadFetch",
    "PayloadSize",
    "Previous",
    "PutData",
    "Rollback",
    "RowCountEst",
    "Savepoint",
    "SetAutoVacuum",
    "SetVersion",
    "TableMoveto",
    "TransferRow",
    "TripAllCursors",
    "TxnState",
    "UpdateMeta",
    "ClearCursor",
];

/// Public functions that read pages directly, so that they would see nothing of Pando's tables. Ours refuse.
const REFUSED: &[&str] = &["sqlite3_backup_init"];

/// What the source is compiled with. `DESERIALIZE` reads pages, which there are none of.
const OPTIONS: &[&str] = &[
    "SQLITE_CORE",
    "SQLITE_THREADSAFE=1",
    "SQLITE_USE_URI",
    "SQLITE_OMIT_DESERIALIZE",
    "SQLITE_ENABLE_COLUMN_METADATA",
    "SQLITE_ENABLE_FTS3",
    "SQLITE_ENABLE_FTS3_PARENTHESIS",
    "SQLITE_ENABLE_FTS5",
    "SQLITE_ENABLE_RTREE",
    "SQLITE_ENABLE_STAT4",
    "SQLITE_SOUNDEX",
    "SQLITE_OMIT_LOAD_EXTENSION",
    "HAVE_USLEEP=1",
    "HAVE_ISNAN",
    "HAVE_LOCALTIME_R",
    "SQLITE_DEFAULT_MEMSTATUS=0",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=c/glue.c");
    let include = env::var_os("DEP_SQLITE3_INCLUDE").expect("libsqlite3-sys says where its source is");
    let path = Path::new(&include).join("sqlite3.c");
    println!("cargo::rerun-if-changed={}", path.display());
    let source = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    check(&source, &path);

    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let names = out.join("pando_names.h");
    fs::write(&names, public_names(&source)).expect("the output directory can be written");
    let whole = out.join("pando_sqlite3.c");
    fs::write(&whole, assemble(&source)).expect("the output directory can be written");
    println!("cargo::metadata=source={}", whole.display());

    let mut build = cc::Build::new();
    build.file(&whole).include(&out).include("c").warnings(false);
    for option in OPTIONS {
        let (name, value) = option.split_once('=').unwrap_or((option, "1"));
        build.define(name, value);
    }
    // The optimizer's inlining of the hot calls is what an unoptimized build would measure the lack of.
    if env::var("OPT_LEVEL").is_ok_and(|level| level == "0") {
        build.opt_level(1);
    }
    build.compile("pando_sqlite3");
}

fn check(source: &str, path: &Path) {
    let found = hex::encode(Sha256::digest(source.as_bytes()));
    assert!(
        found == SHA256 && source.contains(&format!("#define SQLITE_VERSION        \"{VERSION}\"")),
        "{} is not SQLite {VERSION} with the checksum {SHA256}, but has {found}. Compare the interface in \
         btree.h and the fields that c/glue.c uses, then change both constants.",
        path.display()
    );
}

/// Returns the source with the macros around `btree.c` and `backup.c`, which copies pages, and the glue after them.
fn assemble(source: &str) -> String {
    let begin = marker(source, "Begin file btree.c");
    let end = marker(source, "End of backup.c");
    let end = end + source[end..].find('\n').expect("a marker is a line") + 1;
    let header = &source[marker(source, "Begin file btree.h")..marker(source, "End of btree.h")];
    let (mut renamed, mut restored) = (String::new(), String::new());
    for name in OURS {
        writeln!(renamed, "#define sqlite3Btree{name} stockBtree{name}").expect("a string takes it");
        writeln!(restored, "#undef sqlite3Btree{name}").expect("a string takes it");
    }
    // The functions call one another before they are defined.
    let declared = declarations(header);
    format!(
        "#include \"pando_names.h\"\n{}\n{renamed}{declared}\n{}\n{restored}#include \"glue.c\"\n{}",
        &source[..begin],
        &source[begin..end],
        &source[end..]
    )
}

/// Returns the position of the line with a marker between two original files.
fn marker(source: &str, text: &str) -> usize {
    let line = format!("/************** {text} ");
    source.find(&line).unwrap_or_else(|| panic!("SQLite's source has no marker \"{text}\""))
}

/// Returns the declarations in `header` of the functions that are ours.
fn declarations(header: &str) -> String {
    let mut declared = String::new();
    for (at, _) in header.match_indices("SQLITE_PRIVATE ") {
        let text = &header[at..];
        let text = &text[..=text.find(';').expect("a declaration ends")];
        let name = text.find("sqlite3Btree").map(|at| &text[at + "sqlite3Btree".len()..]);
        let name = name.and_then(|rest| rest.split(|c: char| !c.is_alphanumeric()).next());
        if name.is_some_and(|name| OURS.contains(&name)) {
            writeln!(declared, "{text}").expect("a string takes it");
        }
    }
    declared
}

/// Returns macros that give every public name of SQLite our prefix.
fn public_names(source: &str) -> String {
    let mut names = BTreeSet::new();
    for line in source.lines().filter(|line| line.starts_with("SQLITE_API ")) {
        names.extend(public_name(line));
    }
    let mut text = String::new();
    for name in names {
        let ours = if REFUSED.contains(&name) { "pando_stock_" } else { "pando_" };
        writeln!(text, "#define {name} {ours}{name}").expect("a string takes it");
    }
    text
}

/// Returns the name that a line defines or declares: the last word before its bracket, its value or its end.
fn public_name(line: &str) -> Option<&str> {
    let before = line.split(['(', '=', '[', ';']).next()?;
    let name = before.trim_end().rsplit(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    name.starts_with("sqlite3").then_some(name)
}
