//! Changes as rows: what a reader of changes sees of typed tables and of tables that SQL made.

use crate::support::{pick, typed};
use base::env::Random;
use pando::{Change, Database, Operation};
use pando_sql::{Connection, Sql};
use rows::{Changed, ChangedRows, DynamicTable};
use std::collections::BTreeMap;

/// Describes what an operation does.
fn described(changed: &Changed<'_>) -> String {
    match changed {
        Changed::Put { table, row, .. } => {
            let columns = table.schema().columns().zip(row);
            let shown: Vec<_> = columns.map(|(column, value)| format!("{}={value}", column.name())).collect();
            format!("put {} {}", table.name(), shown.join(" "))
        }
        Changed::Deleted { table, key, .. } => format!("delete {} {key:?}", table.name()),
        Changed::DeletedRange { table, is_all, .. } => format!("range {} {is_all}", table.name()),
        Changed::Defined(defined) => {
            let (named, sql) = (defined.named, defined.sql.unwrap_or("typed"));
            let from = defined.renamed_from.map(|name| format!(" from {name}")).unwrap_or_default();
            let dropped = defined.in_place_of.map(|other| format!(" in place of {}", other.name));
            format!("define {} {}{from}{}: {sql}", named.kind, named.name, dropped.unwrap_or_default())
        }
        Changed::Dropped(named) => format!("drop {} {}", named.kind, named.name),
        Changed::Hidden { table, key, why, .. } => format!("hidden {} {key:?}: {why}", table.name()),
        Changed::Unknown { table, why, .. } => format!("unknown {table:?}: {why}"),
        Changed::Plain => "plain".to_owned(),
        _ => "internal".to_owned(),
    }
}

/// Describes all operations after a commit, with their commits.
fn seen_after(db: &Database, after: u64) -> Vec<(u64, String)> {
    let mut changes = db.changes(after).unwrap();
    let mut rows = ChangedRows::begin(db, changes.position()).unwrap();
    let mut seen = Vec::new();
    while let Some(change) = changes.next().unwrap() {
        each(&mut rows, &change, |changed| seen.push((change.commit_number(), described(changed))));
    }
    seen
}

fn each(rows: &mut ChangedRows, change: &Change<'_>, mut look: impl FnMut(&Changed<'_>)) {
    rows.enter(change).unwrap();
    let mut operations = change.operations().unwrap();
    while let Some(operation) = operations.next().unwrap() {
        look(&rows.decode(&operation, 1 << 20).unwrap());
    }
}

fn made(statements: &str) -> (Database, Connection) {
    let db = Database::builder().in_memory().unwrap();
    let connection = Sql::new(db.clone()).connect().unwrap();
    connection.execute_batch(statements).unwrap();
    (db, connection)
}

const STORY: &str = "
    CREATE TABLE orders(id INTEGER PRIMARY KEY, what TEXT, price REAL);
    INSERT INTO orders VALUES (1, 'pen', 2.5), (2, 'ink', 9);
    CREATE INDEX by_what ON orders(what);
    CREATE TABLE names(name TEXT PRIMARY KEY COLLATE NOCASE, n INT) WITHOUT ROWID;
    INSERT INTO names VALUES ('Ann', 1);
    UPDATE orders SET price = 3 WHERE id = 1;
    ALTER TABLE orders ADD COLUMN paid INT DEFAULT 7;
    BEGIN; CREATE TABLE late(a); INSERT INTO late VALUES ('x'); INSERT INTO orders(what) VALUES ('nib'); COMMIT;
    DELETE FROM orders WHERE id = 2;
    DELETE FROM names WHERE name = 'ANN';
    DROP INDEX by_what;
    ALTER TABLE orders DROP COLUMN what;
    ALTER TABLE late RENAME TO later;
    INSERT INTO later VALUES (5);
    DELETE FROM later;
    DROP TABLE names;
    CREATE TABLE loose(id INTEGER PRIMARY KEY, n INT, v AS (n + 1));
    INSERT INTO loose(n) VALUES (1);
";

fn shown(db: &Database, after: u64) -> Vec<(u64, String)> {
    let mut seen = seen_after(db, after);
    seen.retain(|(_, line)| line != "internal");
    seen
}

#[test]
fn statements_are_seen_as_rows_and_definitions() {
    let (db, _connection) = made(STORY);
    let lines: Vec<_> = shown(&db, 0).into_iter().map(|(_, line)| line).collect();
    let expected = [
        "define table orders: CREATE TABLE orders(id INTEGER PRIMARY KEY, what TEXT, price REAL)",
        "put orders id=1 what=\"pen\" price=2.5",
        "put orders id=2 what=\"ink\" price=9.0",
        "define index by_what: CREATE INDEX by_what ON orders(what)",
        "define table names: CREATE TABLE names(name TEXT PRIMARY KEY COLLATE NOCASE, n INT) WITHOUT ROWID",
        "put names name=\"Ann\" n=1",
        "put orders id=1 what=\"pen\" price=3.0",
        "define table orders: CREATE TABLE orders(id INTEGER PRIMARY KEY, what TEXT, price REAL, \
         paid INT DEFAULT 7)",
        "define table late: CREATE TABLE late(a)",
        // In the change before the row of `late`, although the definition comes last in SQLite.
        "put orders id=3 what=\"nib\" price=null paid=7",
        "put late rowid=1 a=\"x\"",
        "delete orders Some([Int(2)])",
        "delete names None",
        "drop index by_what",
        "define table orders: CREATE TABLE orders(id INTEGER PRIMARY KEY, price REAL, paid INT DEFAULT 7)",
        "put orders id=1 price=3.0 paid=7",
        "put orders id=3 price=null paid=7",
        "define table later from late: CREATE TABLE \"later\"(a)",
        "put later rowid=2 a=5",
        "range later true",
        "drop table names",
        "define table loose: CREATE TABLE loose(id INTEGER PRIMARY KEY, n INT, v AS (n + 1))",
        "unknown Some(\"loose\"): table \"loose\" can only be read with SQL, which made it: column \"v\" is \
         computed when it is read",
    ];
    assert_eq!(lines, expected);
}

// A reader that begins late knows the definitions of now. Rows from before a change of theirs must not be decoded by
// them: before DROP COLUMN, the second field of `orders` was the name.
#[test]
fn a_reader_that_begins_later_sees_the_same_or_says_that_it_does_not_know() {
    let (db, _connection) = made(STORY);
    let all = seen_after(&db, 0);
    let last = all.last().unwrap().0;
    // The last change of each definition. DROP COLUMN and RENAME write those of all tables anew.
    let defined = [("orders", 16), ("names", 16), ("late", 16), ("loose", 20)];
    for after in 0..=last {
        let from_here: Vec<_> = all.iter().filter(|(commit, _)| *commit > after).collect();
        let seen = seen_after(&db, after);
        assert_eq!(seen.len(), from_here.len(), "after {after}");
        for (seen, expected) in seen.iter().zip(from_here) {
            assert_eq!(seen.0, expected.0);
            if seen.1 == expected.1 {
                continue;
            }
            let is_row_of = |name: &str| {
                ["put", "delete", "range"].iter().any(|op| expected.1.starts_with(&format!("{op} {name} ")))
            };
            let is_expected = match &seen.1[..] {
                // Of a table whose definition changed later; one that was dropped later has no name.
                unknown if unknown.starts_with("unknown") => {
                    defined
                        .iter()
                        .any(|&(name, changed)| is_row_of(name) && after < changed && seen.0 <= changed)
                        || expected.1.starts_with("drop")
                        || (expected.1 == "internal"
                            && (unknown.contains("dropped later") || unknown.contains("not known")))
                }
                // Without the one before it, a definition that SQLite wrote anew is a new one.
                define if define.starts_with("define") => {
                    expected.1 == "internal" || expected.1.contains(" from ")
                }
                _ => false,
            };
            assert!(is_expected, "after {after}: {seen:?} in place of {expected:?}");
        }
    }
    // A definition in one commit, and a row in the next.
    assert_eq!(
        shown(&db, last - 2),
        all.iter()
            .filter(|(commit, line)| *commit > last - 2 && line != "internal")
            .cloned()
            .collect::<Vec<_>>()
    );
}

#[test]
fn what_one_commit_drops_and_defines_is_seen() {
    let (db, connection) = made("CREATE TABLE a(x); CREATE TABLE t(x); INSERT INTO t VALUES (1);");
    let before = db.snapshot().unwrap().commit_number();
    connection
        .execute_batch("BEGIN; DROP TABLE t; CREATE TABLE t(y, z); INSERT INTO t VALUES (2, 3); COMMIT")
        .unwrap();
    let mut lines = shown(&db, 0);
    lines.retain(|(commit, _)| *commit > before);
    let lines: Vec<_> = lines.into_iter().map(|(_, line)| line).collect();
    let expected = ["define table t in place of t: CREATE TABLE t(y, z)", "put t rowid=1 y=2 z=3"];
    assert_eq!(lines, expected);
    // A reader that begins here does not know what was dropped, but that something was. A second call for the same
    // change has no effect.
    let mut changes = db.changes(before).unwrap();
    let mut rows = ChangedRows::begin(&db, before).unwrap();
    let change = changes.next().unwrap().unwrap();
    rows.enter(&change).unwrap();
    let mut again = Vec::new();
    each(&mut rows, &change, |changed| again.push(described(changed)));
    again.retain(|line| line != "internal");
    let expected = [
        "unknown None: a table or an index was dropped whose definition is not known",
        "define table t: CREATE TABLE t(y, z)",
        "put t rowid=1 y=2 z=3",
    ];
    assert_eq!(again, expected);
}

// What does not fit into memory is written before the commit, so the change has rows from before its own definitions.
#[test]
fn rows_of_a_large_transaction_are_right_or_not_shown() {
    const BUDGET: usize = 4 << 20;
    let db = Database::builder().memory_bytes(BUDGET).in_memory().unwrap();
    let mut changes = db.changes(0).unwrap();
    let mut rows = ChangedRows::begin(&db, 0).unwrap();
    let connection = Sql::new(db.clone()).connect().unwrap();
    let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)";
    connection
        .execute_batch(&format!(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b TEXT);
             {fill} INSERT INTO t SELECT i, 'a', hex(zeroblob(60)) FROM n;"
        ))
        .unwrap();
    let before = db.snapshot().unwrap().commit_number();
    connection
        .execute_batch(&format!(
            "CREATE TABLE copy AS SELECT * FROM t;
             BEGIN; UPDATE t SET b = hex(zeroblob(70)); ALTER TABLE t DROP COLUMN a; COMMIT;
             {fill} INSERT INTO t SELECT i + 20000, hex(zeroblob(60)) FROM n;"
        ))
        .unwrap();
    let mut counts = BTreeMap::new();
    let mut in_parts = 0;
    while let Some(change) = changes.next().unwrap() {
        rows.enter(&change).unwrap();
        if change.commit_number() <= before {
            continue;
        }
        in_parts += u32::from(change.is_in_parts());
        each(&mut rows, &change, |changed| {
            let what = match changed {
                Changed::Put { table, row, .. } => {
                    let b = row.last().unwrap().to_string();
                    assert!(b.contains("0000"), "{row:?}");
                    format!("put {} of {}", table.name(), row.len())
                }
                Changed::Unknown { table, .. } => format!("unknown {table:?}"),
                Changed::Internal => return,
                other => described(other),
            };
            *counts.entry(what).or_insert(0) += 1;
        });
    }
    assert_eq!(in_parts, 3, "the transactions were to be large: {counts:?}");
    let count = |what: &str| counts.get(what).copied().unwrap_or(0);
    assert_eq!(count("put copy of 4"), 20000, "{counts:?}");
    assert_eq!(count("define table copy: CREATE TABLE copy(id INT,a TEXT,b TEXT)"), 1, "{counts:?}");
    assert_eq!(count("put t of 2"), 20000, "{counts:?}");
    assert!(count("unknown Some(\"t\")") >= 20000, "{counts:?}");
}

/// The rows of each table that the engine has, by their stored keys, as a reader of changes has them.
type Model = BTreeMap<String, BTreeMap<Vec<u8>, String>>;

fn applied(db: &Database) -> Model {
    let mut changes = db.changes(0).unwrap();
    let mut rows = ChangedRows::begin(db, 0).unwrap();
    let mut model = Model::new();
    while let Some(change) = changes.next().unwrap() {
        rows.enter(&change).unwrap();
        let mut operations = change.operations().unwrap();
        while let Some(operation) = operations.next().unwrap() {
            match (rows.decode(&operation, 1 << 20).unwrap(), &operation) {
                (Changed::Put { table, row, .. }, Operation::Put { key, .. }) => {
                    model
                        .entry(table.name().to_owned())
                        .or_default()
                        .insert(key.to_vec(), format!("{row:?}"));
                }
                (Changed::Deleted { table, .. }, Operation::Delete { key, .. }) => {
                    model.entry(table.name().to_owned()).or_default().remove(*key);
                }
                (Changed::DeletedRange { table, is_all: true, .. }, _) => {
                    model.remove(table.name());
                }
                (Changed::Dropped(named), _) if named.kind == "table" => drop(model.remove(named.name)),
                (Changed::Defined(defined), _) => {
                    drop(defined.in_place_of.map(|dropped| model.remove(dropped.name)));
                }
                (Changed::Unknown { why, .. } | Changed::Hidden { why, .. }, _) => panic!("{why}"),
                (changed @ Changed::DeletedRange { .. }, _) => panic!("{changed:?}"),
                _ => {}
            }
        }
    }
    model.retain(|_, rows| !rows.is_empty());
    model
}

fn stored(db: &Database) -> Model {
    let reader = db.snapshot().unwrap();
    let mut model = Model::new();
    for table in DynamicTable::all(&reader).unwrap() {
        let data = table.data();
        for entry in reader.range(data, ..).unwrap() {
            let (key, _) = entry.unwrap();
            model.entry(table.name().to_owned()).or_default().insert(key, String::new());
        }
        let rows =
            table.scan(&reader, &rows::KeyRange::all()).unwrap().map(|row| format!("{:?}", row.unwrap()));
        if let Some(keyed) = model.get_mut(table.name()) {
            keyed.values_mut().zip(rows).for_each(|(value, row)| *value = row);
        }
    }
    model
}

/// What random statements are made of. `?` is a small number.
const STATEMENTS: [&str; 17] = [
    "INSERT INTO t(a, b) VALUES (?, 'b?')",
    "INSERT OR REPLACE INTO t(id, a) VALUES (?, ?)",
    "UPDATE t SET a = ? WHERE id % 3 = 0",
    "DELETE FROM t WHERE a = ?",
    "INSERT OR REPLACE INTO w VALUES ('k?', ?, 'rest')",
    "UPDATE OR REPLACE w SET k = 'K?' WHERE n = ?",
    "DELETE FROM w WHERE n = ?",
    "DELETE FROM t",
    "CREATE INDEX IF NOT EXISTS t_a ON t(a, b)",
    "DROP INDEX IF EXISTS t_a",
    "DROP TABLE IF EXISTS extra",
    "CREATE TABLE IF NOT EXISTS extra AS SELECT id AS x, a AS y FROM t",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT s",
    "ROLLBACK TO s",
];

#[test]
fn rows_of_changes_lead_to_the_tables() {
    for layout_of_w in ["WITHOUT ROWID", ""] {
        for seed in 0..8 {
            let (db, connection) = made(&format!(
                "CREATE TABLE t(id INTEGER PRIMARY KEY, a INT, b TEXT);
                 CREATE TABLE w(k TEXT COLLATE NOCASE, n INT, rest, PRIMARY KEY(k, n DESC)) {layout_of_w};"
            ));
            let mut random = Random::seeded(seed);
            for step in 0..150 {
                let mut sql = String::new();
                for part in pick(&mut random, &STATEMENTS).split_inclusive('?') {
                    sql += &part.replace('?', &random.below(12).to_string());
                }
                let done = connection.execute(&sql, &[]);
                // Transactions begin and end at random.
                assert!(done.is_ok() || STATEMENTS[12..].contains(&&sql[..]), "{sql}: {done:?}");
                if step % 50 == 20 {
                    let column = format!("c{step}");
                    let add =
                        format!("ALTER TABLE t ADD COLUMN {column} DEFAULT 5; UPDATE t SET {column} = 6;");
                    connection.execute_batch(&add).unwrap();
                }
                if step % 50 == 40 {
                    // A rollback can have removed it.
                    let _ = connection.execute(&format!("ALTER TABLE t DROP COLUMN c{}", step - 20), &[]);
                }
            }
            // It fails if none is open.
            let _ = connection.execute("COMMIT", &[]);
            assert_eq!(applied(&db), stored(&db), "seed {seed}");
        }
    }
}

#[test]
fn typed_tables_are_seen_as_rows() {
    let db = Database::builder().in_memory().unwrap();
    let connection = typed::Sql::new(db.clone()).connect().unwrap();
    connection
        .execute_batch(
            "CREATE TABLE people(name TEXT PRIMARY KEY, age INT);
             CREATE INDEX by_age ON people(age);
             INSERT INTO people VALUES ('Ann', 41), ('Bob', 30);
             ALTER TABLE people ADD COLUMN town TEXT DEFAULT 'Ulm';
             UPDATE people SET age = 42 WHERE name = 'Ann';
             DELETE FROM people WHERE name = 'Bob';
             ALTER TABLE people RENAME TO folk;
             INSERT INTO folk VALUES ('Cid', 1, NULL);
             DROP TABLE folk;",
        )
        .unwrap();
    let lines: Vec<_> = shown(&db, 0).into_iter().map(|(_, line)| line).collect();
    let expected = [
        "define table people: typed",
        // The index is built, and then ready.
        "define table people: typed",
        "define table people: typed",
        "put people name=\"Ann\" age=41",
        "put people name=\"Bob\" age=30",
        "define table people: typed",
        "put people name=\"Ann\" age=42 town=\"Ulm\"",
        "delete people Some([Text(\"Bob\")])",
        "define table folk from people: typed",
        "put folk name=\"Cid\" age=1 town=null",
        "drop table folk",
    ];
    assert_eq!(lines, expected);
    // Its definition is gone, but not its name as of the commit.
    let altered = shown(&db, 0).iter().position(|(_, line)| line.contains("Ulm")).unwrap();
    let late = shown(&db, shown(&db, 0)[altered - 1].0);
    assert!(late[0].1.starts_with("unknown Some(\"people\")"), "{late:?}");
}
