//! Compiles the one-file source of SQLite that `libsqlite3-sys` bundles, with our B-trees below its upper layers.
//!
//! 1. The source is found by the metadata of `libsqlite3-sys`, and its checksum is compared: the glue was written
//!    against exactly this text, and another version fails to build instead of behaving in another way.
//! 2. The source is cut at the markers of the original files `btree.c` and `backup.c`. Macros around the two give the
//!    functions in [`OURS`] another name there, so that SQLite's own B-trees remain beside ours; `c/glue.c` defines the
//!    functions of the plain name, which choose between the two by handle. The public functions in [`WRAPPED`] are
//!    renamed in their files in the same way. A few calls are changed: see [`CALLS`].
//! 3. All public names get the prefix `pando_`, so that a program can contain the stock library, too. With the feature
//!    `drop-in` they stay as they are.
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
    "CursorHintFlags",
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
    "GetFilename",
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
    "SetPageSize",
    "SetVersion",
    "TableMoveto",
    "TransferRow",
    "TripAllCursors",
    "TxnState",
    "UpdateMeta",
    "ClearCursor",
];

/// Public functions that have one of ours around them: the file that defines each, its name, its result and arguments.
const WRAPPED: &[(&str, &str, &str, &str)] = &[
    ("memdb.c", "sqlite3_serialize", "unsigned char*", "sqlite3*, const char*, sqlite3_int64*, unsigned int"),
    ("backup.c", "sqlite3_backup_step", "int", "sqlite3_backup*, int"),
    ("backup.c", "sqlite3_backup_finish", "int", "sqlite3_backup*"),
    ("backup.c", "sqlite3_backup_init", "sqlite3_backup*", "sqlite3*, const char*, sqlite3*, const char*"),
    ("vdbeapi.c", "sqlite3_step", "int", "sqlite3_stmt*"),
    ("main.c", "sqlite3_file_control", "int", "sqlite3*, const char*, int, void*"),
    ("main.c", "sqlite3_errmsg", "const char*", "sqlite3*"),
    ("main.c", "sqlite3_errmsg16", "const void*", "sqlite3*"),
];

/// Calls and a definition that get another name: the text around each, its old and its new name.
///
/// * Where a new row's rowid is chosen: SQLite reads the last row, which is a conflict with every other transaction
///   that appends.
/// * Where an entry is put at the end of a tree, as when an index is built: SQLite reads the last entry, before each.
/// * Where a range of rowids begins, whose rows are read next, and where the first column of a row is read, which asks
///   for the row once instead of twice.
/// * Where the entry of a row that is changed is removed from an index: SQLite goes to it first, which would be a read
///   of a page that nothing else may need. The program has all fields of the entry for that, also where the first ones
///   are unique.
/// * Where AUTOINCREMENT reads and writes its counters, which are in one table: transactions that raise different ones,
///   or the same, would conflict.
/// * `VACUUM`: SQLite copies a file.
/// * `PRAGMA journal_mode`: SQLite asks the pager of the shadow, which is in memory. Pando has a log that readers read
///   beside, which SQLite calls `wal`, and programs ask for.
/// * `PRAGMA page_size` and `PRAGMA locking_mode`: they ask and set the shadow's, too.
/// * Where a statement that begins forgets an interrupt: it can be the next attempt of what was interrupted.
/// * Where a statement has ended: the progress handler is not asked any more, because its commit is done.
/// * Where a statement that writes is about to return a row: its commit must be certain before.
/// * Where the commit of `RELEASE` has failed: SQLite has rolled back, but keeps the savepoint.
/// * Where `sqlite3_open16` makes UTF-16 the encoding of a new database, and where `dbstat` goes through pages.
/// * The function of C `sqlite3_sourceid` can name another library; the SQL function `sqlite_source_id` does not.
const CALLS: &[(&str, &str, &str)] = &[
    (
        "==0 ){\n        AtomicStore(&db->u1.isInterrupted, 0);\n      }\n\n      assert(",
        "AtomicStore(&db->u1.isInterrupted, 0)",
        "pandoForgetInterrupt(db)",
    ),
    (
        "==0 ){\n    AtomicStore(&db->u1.isInterrupted, 0);\n  }\n  pParse->rc = ",
        "AtomicStore(&db->u1.isInterrupted, 0)",
        "pandoForgetInterrupt(db)",
    ),
    (
        "if( !pC->useRandomRowid ){\n      rc = sqlite3BtreeLast(",
        "sqlite3BtreeLast(",
        "pandoBtreeNewRowid(pandoCounter(p, pOp->p3), ",
    ),
    (
        "pC->seekResult = -1;\n    if( sqlite3BtreeCursorIsValidNN(",
        "sqlite3BtreeCursorIsValidNN(",
        "pandoBtreeFindsEnd(",
    ),
    (
        "r.aMem = &aMem[pOp->p2];\n  rc = sqlite3BtreeIndexMoveto(pCrsr, &r, &res);\n  \
         if( rc ) goto abort_due_to_error;\n  if( res!=0 ){\n    rc = sqlite3VdbeFindIndexKey(",
        "sqlite3BtreeIndexMoveto(pCrsr, &r,",
        "pandoBtreeOldEntry(pCrsr, pOp->p4.pIdx, &r,",
    ),
    (
        "sqlite3GenerateIndexKey(pParse, pIdx, iDataCur, 0, 1,\n        &iPartIdxLabel, pPrior, r1);",
        "iDataCur, 0, 1,",
        "iDataCur, 0, 0,",
    ),
    (
        "pIdx->uniqNotNull ? pIdx->nKeyCol : pIdx->nColumn);\n    sqlite3ResolvePartIdxLabel(",
        "pIdx->uniqNotNull ? pIdx->nKeyCol : pIdx->nColumn",
        "pIdx->nColumn",
    ),
    (
        "rc = sqlite3BtreeTableMoveto(pC->uc.pCursor, (u64)iKey, 0, &res);\n    pC->movetoTarget",
        "sqlite3BtreeTableMoveto(pC->uc.pCursor, (u64)iKey, 0,",
        "pandoBtreeSeek(pC->uc.pCursor, iKey, oc>=OP_SeekGE,",
    ),
    (
        "pC->payloadSize = sqlite3BtreePayloadSize(pCrsr);\n      \
         pC->aRow = sqlite3BtreePayloadFetch(pCrsr, &pC->szRow);",
        "pC->payloadSize = sqlite3BtreePayloadSize(pCrsr);\n      \
         pC->aRow = sqlite3BtreePayloadFetch(pCrsr,",
        "pC->aRow = pandoBtreeRecord(pCrsr, &pC->payloadSize,",
    ),
    (
        "sqlite3OpenTable(pParse, 0, p->iDb, pDb->pSchema->pSeqTab, OP_OpenRead)",
        "sqlite3OpenTable(",
        "pandoOpenCounters(",
    ),
    (
        "sqlite3OpenTable(pParse, 0, p->iDb, pDb->pSchema->pSeqTab, OP_OpenWrite)",
        "sqlite3OpenTable(",
        "pandoOpenCounters(",
    ),
    ("rc = sqlite3RunVacuum(&p->zErrMsg,", "sqlite3RunVacuum(", "pandoRunVacuum("),
    (
        "if( eNew==PAGER_JOURNALMODE_QUERY ) eNew = eOld;\n  assert(",
        "if( eNew==PAGER_JOURNALMODE_QUERY )",
        "if( eNew==PAGER_JOURNALMODE_QUERY || pandoOf(pBt) )",
    ),
    (
        "pOut->z = (char *)sqlite3JournalModename(eNew);",
        "sqlite3JournalModename(eNew)",
        "sqlite3JournalModename(pandoOf(pBt) ? PAGER_JOURNALMODE_WAL : eNew)",
    ),
    (
        "while( nVmStep>=nProgressLimit && db->xProgress!=0 ){\n    nProgressLimit +=",
        "while( nVmStep>=nProgressLimit &&",
        "while( rc!=SQLITE_DONE && nVmStep>=nProgressLimit &&",
    ),
    (
        "int size = ALWAYS(pBt) ? sqlite3BtreeGetPageSize(pBt) : 0;",
        "sqlite3BtreeGetPageSize(pBt)",
        "pandoPageSize(pBt)",
    ),
    (
        "for(ii=2; ii<db->nDb; ii++){\n          pPager = sqlite3BtreePager(db->aDb[ii].pBt);\n          \
         sqlite3PagerLockingMode(pPager, eMode);",
        "pPager = sqlite3BtreePager(db->aDb[ii].pBt);\n          sqlite3PagerLockingMode(pPager, eMode);",
        "pandoLockingMode(db->aDb[ii].pBt, eMode);",
    ),
    (
        "pPager = sqlite3BtreePager(pDb->pBt);\n      eMode = sqlite3PagerLockingMode(pPager, eMode);",
        "pPager = sqlite3BtreePager(pDb->pBt);\n      eMode = sqlite3PagerLockingMode(pPager, eMode);",
        "eMode = pandoLockingMode(pDb->pBt, eMode);",
    ),
    (
        "+1 );\n\n  p->cacheCtr = (p->cacheCtr + 2)|1;\n  p->pResultRow =",
        "p->cacheCtr = (p->cacheCtr + 2)|1;",
        "if( !p->readOnly && (rc = pandoSecure(p))!=SQLITE_OK ) goto abort_due_to_error;\n  \
         p->cacheCtr = (p->cacheCtr + 2)|1;",
    ),
    (
        "\nSQLITE_API const char *sqlite3_sourceid(void){",
        "SQLITE_API const char *",
        "static const char *pando_stock_",
    ),
    ("sqlite3_result_text(context, sqlite3_sourceid()", "sqlite3_sourceid", "pando_stock_sqlite3_sourceid"),
    (
        "rc = p->rc;\n        if( rc ){\n          db->autoCommit = 0;\n        }else{\n          \
         db->isTransactionSavepoint = 0;",
        "db->autoCommit = 0;",
        "pandoReleaseFailed(db);",
    ),
    (
        "if( rc==SQLITE_OK && !DbHasProperty(*ppDb, 0, DB_SchemaLoaded) ){\n      SCHEMA_ENC(*ppDb) =",
        "rc==SQLITE_OK &&",
        "rc==SQLITE_OK && !pandoOf((*ppDb)->aDb[0].pBt) &&",
    ),
    (
        "pSql = sqlite3_str_new(pTab->db);\n  sqlite3_str_appendf(pSql,\n      \"SELECT * FROM (\"",
        "pSql = sqlite3_str_new(pTab->db);",
        "if( pandoHasNoPages(pCursor->pVtab, pTab->db, pCsr->iDb) ) return SQLITE_ERROR;\n  \
         pSql = sqlite3_str_new(pTab->db);",
    ),
];

/// What the source is compiled with.
const OPTIONS: &[&str] = &[
    "SQLITE_CORE",
    "SQLITE_THREADSAFE=1",
    "SQLITE_USE_URI",
    "SQLITE_ENABLE_COLUMN_METADATA",
    "SQLITE_ENABLE_FTS3",
    "SQLITE_ENABLE_FTS3_PARENTHESIS",
    "SQLITE_ENABLE_FTS5",
    "SQLITE_ENABLE_RTREE",
    "SQLITE_ENABLE_STAT4",
    "SQLITE_SOUNDEX",
    "HAVE_USLEEP=1",
    "HAVE_ISNAN",
    "HAVE_LOCALTIME_R",
];

/// What only the library for Rust is compiled with.
const LIBRARY_OPTIONS: &[&str] = &["SQLITE_OMIT_LOAD_EXTENSION", "SQLITE_DEFAULT_MEMSTATUS=0"];

/// What only the shared library is compiled with: every function that a distribution's library has, because a program
/// that is linked to one would call the other library for what is missing.
const DROP_IN_OPTIONS: &[&str] = &[
    "PANDO_DROP_IN",
    "_GNU_SOURCE",
    "SQLITE_ENABLE_DBSTAT_VTAB",
    "SQLITE_ENABLE_FTS3_TOKENIZER",
    "SQLITE_ENABLE_FTS4",
    "SQLITE_ENABLE_LOAD_EXTENSION",
    "SQLITE_ENABLE_MATH_FUNCTIONS",
    "SQLITE_ENABLE_PREUPDATE_HOOK",
    "SQLITE_ENABLE_SESSION",
    "SQLITE_ENABLE_STMTVTAB",
    "SQLITE_ENABLE_UNLOCK_NOTIFY",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=c/glue.c");
    println!("cargo::rerun-if-changed=c/backup.c");
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
    let own = if prefix().is_empty() { DROP_IN_OPTIONS } else { LIBRARY_OPTIONS };
    for option in OPTIONS.iter().chain(own) {
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

/// Returns the source with the macros around the files that have functions of [`OURS`] and [`WRAPPED`], and the glue
/// after `backup.c`, which copies pages.
fn assemble(source: &str) -> String {
    let header = &source[marker(source, "Begin file btree.h")..marker(source, "End of btree.h")];
    let (mut renamed, mut restored) = (String::new(), String::new());
    for name in OURS {
        writeln!(renamed, "#define sqlite3Btree{name} stockBtree{name}").expect("a string takes it");
        writeln!(restored, "#undef sqlite3Btree{name}").expect("a string takes it");
    }
    // The functions call one another before they are defined.
    let declared = declarations(header);
    let mut inserted = vec![
        (marker(source, "Begin file btree.c"), format!("{renamed}{declared}\n")),
        (
            after(source, "End of backup.c"),
            format!("{restored}{}#include \"glue.c\"\n", stock_declarations()),
        ),
    ];
    for (file, name, result, arguments) in WRAPPED {
        let before = format!(
            "#undef {name}\n#define {name} pando_stock_{name}\nstatic {result} {name}({arguments});\n"
        );
        let after_it = format!("#undef {name}\n#define {name} {}{name}\n", prefix());
        inserted.push((marker(source, &format!("Begin file {file}")), before));
        // What is inserted at one place is in the order of this list, and the glue has to come after this.
        inserted.insert(0, (after(source, &format!("End of {file}")), after_it));
    }
    inserted.sort_by_key(|&(at, _)| at);
    let mut whole = "#include \"pando_names.h\"\n".to_owned();
    let mut done = 0;
    for (at, text) in inserted {
        whole.push_str(&source[done..at]);
        whole.push_str(&text);
        done = at;
    }
    whole.push_str(&source[done..]);
    for (place, old, new) in CALLS {
        assert!(whole.matches(place).count() == 1, "SQLite has the call of {old} at another place");
        whole = whole.replace(place, &place.replace(old, new));
    }
    whole
}

/// Returns the declarations of the functions in [`WRAPPED`] by their other names.
fn stock_declarations() -> String {
    let declare = |(_, name, result, arguments): &(_, _, _, _)| {
        format!("static {result} pando_stock_{name}({arguments});\n")
    };
    WRAPPED.iter().map(declare).collect()
}

/// Returns what our build puts before SQLite's public names.
fn prefix() -> &'static str {
    if env::var_os("CARGO_FEATURE_DROP_IN").is_some() { "" } else { "pando_" }
}

/// Returns the position after the line with a marker.
fn after(source: &str, text: &str) -> usize {
    let at = marker(source, text);
    at + source[at..].find('\n').expect("a marker is a line") + 1
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

/// Returns macros that give every public name of SQLite our prefix, if there is one.
fn public_names(source: &str) -> String {
    let mut names = BTreeSet::new();
    for line in source.lines().filter(|line| line.starts_with("SQLITE_API ")) {
        names.extend(public_name(line));
    }
    let mut text = String::new();
    for name in names.into_iter().filter(|_| !prefix().is_empty()) {
        writeln!(text, "#define {name} {}{name}", prefix()).expect("a string takes it");
    }
    text
}

/// Returns the name that a line defines or declares: the last word before its bracket, its value or its end.
fn public_name(line: &str) -> Option<&str> {
    let before = line.split(['(', '=', '[', ';']).next()?;
    let name = before.trim_end().rsplit(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    name.starts_with("sqlite3").then_some(name)
}
