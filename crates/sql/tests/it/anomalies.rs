//! The anomalies of the Hermitage suite (<https://github.com/ept/hermitage>), through SQL: none happens, with savepoints
//! and failed statements in between either.

use crate::support::is_over_a_store;
use crate::support::typed::{Connection, Sql};
use pando_sql::{Error, Value};

struct Two {
    one: Connection,
    two: Connection,
}

impl Two {
    /// Two connections, each within `BEGIN`; rows (1, 10) and (2, 20).
    fn begin() -> Self {
        let [one, two] = crate::support::database_twice().map(|db| Sql::new(db).connect().unwrap());
        one.execute_batch(
            "CREATE TABLE test(id INTEGER PRIMARY KEY, value INTEGER); CREATE INDEX by_value ON test(value);
             INSERT INTO test VALUES(1, 10), (2, 20)",
        )
        .unwrap();
        one.execute_batch("BEGIN").unwrap();
        two.execute_batch("BEGIN").unwrap();
        Two { one, two }
    }
}

fn run(connection: &Connection, sql: &str) {
    connection.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn values(connection: &Connection, condition: &str) -> Vec<i64> {
    let rows =
        connection.query(&format!("SELECT value FROM test WHERE {condition} ORDER BY id"), &[]).unwrap();
    let value = |row: &Vec<Value>| if let Value::Integer(value) = row[0] { value } else { panic!("{row:?}") };
    rows.iter().map(value).collect()
}

fn conflicts(connection: &Connection) -> Error {
    let error = connection.execute_batch("COMMIT").unwrap_err();
    assert!(error.is_conflict() && error.code() == 517, "{error}");
    assert!(connection.is_autocommit());
    error
}

#[test]
fn g0_no_dirty_writes() {
    let Two { one, two } = Two::begin();
    run(&one, "UPDATE test SET value = 11 WHERE id = 1");
    run(&two, "UPDATE test SET value = 12 WHERE id = 1");
    run(&one, "UPDATE test SET value = 21 WHERE id = 2; COMMIT");
    run(&two, "UPDATE test SET value = 22 WHERE id = 2");
    let error = conflicts(&two);
    let said = "conflict in table test at key (1): another transaction changed it after this one began";
    assert!(is_over_a_store() || error.message() == said, "{error}");
    assert_eq!(values(&one, "true"), [11, 21]);
}

#[test]
fn a_conflict_names_the_table_or_the_index_and_the_key() {
    if is_over_a_store() {
        return; // A store does not say where a conflict was.
    }
    let sql = Sql::new(crate::support::database());
    let (one, two) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(&one, "CREATE TABLE people(name TEXT PRIMARY KEY, mail TEXT UNIQUE, age INTEGER)");
    // Longer than what the engine's own message shows of a key.
    let long = "x".repeat(300);
    let met = |ours: &str, theirs: &str| {
        run(&one, "DELETE FROM people; BEGIN");
        run(&two, "BEGIN");
        run(&one, ours);
        run(&two, theirs);
        run(&one, "COMMIT");
        conflicts(&two).message().to_owned()
    };
    let insert = |name: &str, mail: &str| format!("INSERT INTO people VALUES('{name}', '{mail}', 1)");
    let why = "another transaction changed it after this one began";
    let message = met(&insert(&long, "a"), &insert(&long, "b"));
    // The key's value, which is shown as every long value is: by its beginning.
    assert!(message.starts_with("conflict in table people at key (\"xxxxxxxx"), "{message}");
    assert!(message.ends_with(&format!("): {why}")), "{message}");
    let message = met(&insert("ann", "same"), &insert("bob", "same"));
    let place = message.strip_prefix("conflict in index ").unwrap_or_else(|| panic!("{message}"));
    assert!(place.contains(" of table people at key 0x") && place.ends_with(why), "{message}");
}

#[test]
fn g1_no_dirty_reads() {
    let Two { one, two } = Two::begin();
    run(&one, "UPDATE test SET value = 101 WHERE id = 1");
    assert_eq!(values(&two, "true"), [10, 20]);
    run(&one, "ROLLBACK; BEGIN; UPDATE test SET value = 102 WHERE id = 1");
    assert_eq!(values(&two, "true"), [10, 20]);
    run(&one, "UPDATE test SET value = 11 WHERE id = 1; COMMIT");
    assert_eq!(values(&two, "true"), [10, 20]);
    run(&two, "COMMIT");
    assert_eq!(values(&two, "true"), [11, 20]);
}

#[test]
fn g1c_no_circles() {
    let Two { one, two } = Two::begin();
    run(&one, "UPDATE test SET value = 11 WHERE id = 1");
    run(&two, "UPDATE test SET value = 22 WHERE id = 2");
    assert_eq!(values(&one, "id = 2"), [20]);
    assert_eq!(values(&two, "id = 1"), [10]);
    run(&one, "COMMIT");
    conflicts(&two);
}

#[test]
fn pmp_predicates_hold_still() {
    let Two { one, two } = Two::begin();
    assert!(values(&one, "value = 30").is_empty());
    run(&two, "INSERT INTO test VALUES(3, 30); COMMIT");
    assert!(values(&one, "value % 3 = 0").is_empty());
    run(&one, "COMMIT");
    let Two { one, two } = Two::begin();
    run(&one, "UPDATE test SET value = value + 10");
    run(&two, "DELETE FROM test WHERE value = 20");
    run(&one, "COMMIT");
    conflicts(&two);
    assert_eq!(values(&two, "true"), [20, 30]);
}

#[test]
fn p4_no_lost_updates() {
    let Two { one, two } = Two::begin();
    for connection in [&one, &two] {
        assert_eq!(values(connection, "id = 1"), [10]);
        run(connection, "UPDATE test SET value = 11 WHERE id = 1");
    }
    run(&one, "COMMIT");
    conflicts(&two);
}

#[test]
fn g_single_no_read_skew() {
    let Two { one, two } = Two::begin();
    assert_eq!(values(&one, "id = 1"), [10]);
    run(&two, "UPDATE test SET value = 12 WHERE id = 1; UPDATE test SET value = 18 WHERE id = 2; COMMIT");
    assert_eq!(values(&one, "id = 2"), [20]);
    run(&one, "DELETE FROM test WHERE value = 20");
    conflicts(&one);
    assert_eq!(values(&one, "true"), [12, 18]);
}

#[test]
fn g2_no_write_skew_and_no_phantoms() {
    let Two { one, two } = Two::begin();
    assert_eq!((values(&one, "true"), values(&two, "true")), (vec![10, 20], vec![10, 20]));
    run(&one, "UPDATE test SET value = 11 WHERE id = 1; COMMIT");
    run(&two, "UPDATE test SET value = 21 WHERE id = 2");
    conflicts(&two);
    let Two { one, two } = Two::begin();
    assert!(values(&one, "value > 29").is_empty() && values(&two, "value > 29").is_empty());
    run(&one, "INSERT INTO test VALUES(3, 30); COMMIT");
    run(&two, "INSERT INTO test VALUES(4, 42)");
    conflicts(&two);
}

#[test]
fn what_a_savepoint_read_stays_read() {
    let Two { one, two } = Two::begin();
    run(&two, "SAVEPOINT s; UPDATE test SET value = 99 WHERE id = 1; ROLLBACK TO s; RELEASE s");
    run(&two, "UPDATE test SET value = 21 WHERE id = 2");
    run(&one, "UPDATE test SET value = 11 WHERE id = 1; COMMIT");
    conflicts(&two);
}

#[test]
fn a_failed_statement_leaves_the_rest() {
    let Two { one, two } = Two::begin();
    run(&one, "INSERT INTO test VALUES(3, 30); SAVEPOINT s; INSERT INTO test VALUES(4, 40)");
    assert!(
        one.execute("INSERT INTO test SELECT id + 2, 0 FROM test WHERE id <> 2", &[])
            .unwrap_err()
            .is_constraint()
    );
    assert_eq!(values(&one, "true"), [10, 20, 30, 40]);
    run(&one, "ROLLBACK TO s; COMMIT");
    assert_eq!(values(&two, "true"), [10, 20, 30]);
}

#[test]
fn conflicts_outside_of_a_transaction_are_run_again() {
    let sql = Sql::new(crate::support::database());
    sql.connect()
        .unwrap()
        .execute_batch("CREATE TABLE n(id INTEGER PRIMARY KEY, v); INSERT INTO n VALUES(1, 0)")
        .unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let connection = sql.connect().unwrap();
                let mut done = 0;
                while done < 50 {
                    match connection.execute("UPDATE n SET v = v + 1 WHERE id = 1", &[]) {
                        Ok(_) => done += 1,
                        Err(error) => assert!(error.is_conflict(), "{error}"),
                    }
                    connection.execute("INSERT INTO n(v) VALUES(?)", &[done.into()]).unwrap();
                }
            });
        }
    });
    let rows =
        sql.connect().unwrap().query("SELECT v, (SELECT count(*) FROM n) FROM n WHERE id = 1", &[]).unwrap();
    let Value::Integer(count) = rows[0][1] else { panic!("{rows:?}") };
    assert_eq!(rows[0][0], Value::Integer(200));
    assert!(count >= 201, "{count}");
}
