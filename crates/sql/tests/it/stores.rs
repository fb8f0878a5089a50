//! SQL over PostgreSQL, whose server the tests start. Each database is opened several times, as by several processes:
//! each has its own connections, and nothing in memory is shared.

use crate::proxy::Proxy;
use crate::server;
use pando_sql::{Connection, Sql, Value};
use rows::{Column, ColumnType, Definition, DynamicTable};
use std::thread;

/// Opens a new database twice; `None` if there is no PostgreSQL here.
fn two() -> Option<[Sql; 2]> {
    let url = server::url(server::shared()?);
    let schema = server::schema();
    Some([(); 2].map(|()| Sql::new(server::options().schema(&schema).open(&url).expect("it opens"))))
}

fn connect(sql: &Sql) -> Connection {
    sql.connect().expect("it connects")
}

fn number(connection: &Connection, sql: &str) -> i64 {
    let rows = connection.query(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"));
    match rows.first().map(|row| &row[0]) {
        Some(&Value::Integer(number)) => number,
        _ => panic!("{sql}: {rows:?}"),
    }
}

#[test]
fn what_one_process_defines_the_others_find() {
    let Some([first, second]) = two() else { return };
    let (one, other) = (connect(&first), connect(&second));
    one.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b); INSERT INTO t VALUES (1, 'x')").unwrap();
    assert_eq!(number(&other, "SELECT count(*) FROM t WHERE b = 'x'"), 1);
    one.execute_batch("ALTER TABLE t ADD COLUMN c DEFAULT 7; CREATE INDEX i ON t(c)").unwrap();
    assert_eq!(number(&other, "SELECT c FROM t INDEXED BY i WHERE c = 7"), 7);
    other.execute_batch("CREATE TRIGGER counts AFTER INSERT ON t BEGIN UPDATE t SET c = c + 1; END").unwrap();
    one.execute_batch("INSERT INTO t(b) VALUES ('y')").unwrap();
    assert_eq!(number(&other, "SELECT sum(c) FROM t"), 16);
    other.execute_batch("DROP TABLE t; CREATE TABLE t(only)").unwrap();
    assert_eq!(number(&one, "SELECT count(only) FROM t"), 0);
    // Within a transaction, the definitions are those of its beginning.
    one.execute_batch("BEGIN; SELECT * FROM t").unwrap();
    other.execute_batch("ALTER TABLE t RENAME TO u").unwrap();
    assert_eq!(number(&one, "SELECT count(*) FROM t"), 0);
    let error = one.execute_batch("INSERT INTO t VALUES (1); COMMIT").unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert_eq!(number(&one, "SELECT count(*) FROM u"), 0);
}

#[test]
fn a_typed_table_of_one_process_is_there_for_the_others() {
    let Some([first, second]) = two() else { return };
    let (one, other) = (connect(&first), connect(&second));
    let fruit = Definition::new("fruit")
        .column(Column::new("id", ColumnType::Int))
        .column(Column::new("name", ColumnType::Text))
        .key(["id"]);
    first.database().write(|tx| DynamicTable::create(tx, &fruit)).unwrap();
    for (connection, name) in [(&other, "apple"), (&one, "pear"), (&other, "plum"), (&one, "fig")] {
        connection.execute("INSERT INTO fruit(name) VALUES (?)", &[name.to_owned().into()]).unwrap();
    }
    assert_eq!(number(&one, "SELECT count(DISTINCT id) FROM fruit"), 4);
    one.execute_batch("CREATE INDEX by_name ON fruit(name)").unwrap();
    assert_eq!(number(&other, "SELECT count(*) FROM fruit WHERE name >= 'pear'"), 2);
    assert_eq!(other.query("PRAGMA integrity_check", &[]).unwrap(), [["ok".to_owned().into()]]);
    second.database().write(|tx| DynamicTable::expect(tx, "fruit")?.drop(tx)).unwrap();
    assert!(one.query("SELECT * FROM fruit", &[]).is_err());
}

/// Rowids, ids of `AUTOINCREMENT` and unique values are given in four threads of two processes.
#[test]
fn no_id_and_no_unique_value_is_given_twice() {
    const ROWS: i64 = 25;
    let Some(both) = two() else { return };
    connect(&both[0])
        .execute_batch(
            "CREATE TABLE plain(id INTEGER PRIMARY KEY, by);
             CREATE TABLE counted(id INTEGER PRIMARY KEY AUTOINCREMENT, by);
             CREATE TABLE named(name TEXT UNIQUE)",
        )
        .unwrap();
    thread::scope(|scope| {
        for worker in 0..4 {
            let connection = connect(&both[worker % 2]);
            scope.spawn(move || {
                for row in 0..ROWS {
                    for table in ["plain", "counted"] {
                        let sql = format!("INSERT INTO {table}(by) VALUES ({worker})");
                        until_done(&connection, &sql);
                    }
                    until_done(&connection, &format!("INSERT OR IGNORE INTO named VALUES ('{row}')"));
                }
            });
        }
    });
    let one = connect(&both[1]);
    for table in ["plain", "counted"] {
        assert_eq!(number(&one, &format!("SELECT count(DISTINCT id) FROM {table}")), 4 * ROWS, "{table}");
        assert_eq!(
            number(&one, &format!("SELECT min(n) FROM (SELECT count(*) n FROM {table} GROUP BY by)")),
            ROWS
        );
    }
    assert!(number(&one, "SELECT seq FROM sqlite_sequence") >= 4 * ROWS);
    assert_eq!(number(&one, "SELECT count(*) FROM named"), ROWS);
    assert_eq!(one.query("PRAGMA integrity_check", &[]).unwrap(), [["ok".to_owned().into()]]);
}

/// Runs a statement again as long as it has a conflict.
fn until_done(connection: &Connection, sql: &str) {
    for _ in 0..1000 {
        match connection.execute(sql, &[]) {
            Ok(_) => return,
            Err(error) if error.is_conflict() => {}
            Err(error) => panic!("{sql}: {error}"),
        }
    }
    panic!("{sql}: a thousand conflicts");
}

/// Transfers in four threads of two processes, each a transaction of several statements, while sums are read: no sum is
/// ever wrong, and an index always agrees with its table.
#[test]
fn transfers_between_processes_lose_nothing() {
    const ACCOUNTS: i64 = 20;
    const TRANSFERS: usize = 40;
    let Some(both) = two() else { return };
    let one = connect(&both[0]);
    one.execute_batch(
        "CREATE TABLE account(id INTEGER PRIMARY KEY, balance INTEGER CHECK (balance >= 0));
         CREATE INDEX by_balance ON account(balance);
         CREATE TABLE log(id INTEGER PRIMARY KEY, amount);
         CREATE TRIGGER logs AFTER UPDATE ON account BEGIN
             INSERT INTO log(amount) VALUES (new.balance - old.balance);
         END;
         WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 19)
         INSERT INTO account SELECT i, 100 FROM n",
    )
    .unwrap();
    let conflicts: usize = thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                let connection = connect(&both[worker as usize % 2]);
                scope.spawn(move || transfers(&connection, worker, ACCOUNTS, TRANSFERS))
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("it ends")).sum()
    });
    assert_eq!(number(&one, "SELECT sum(balance) FROM account"), ACCOUNTS * 100);
    assert_eq!(number(&one, "SELECT sum(balance) FROM account INDEXED BY by_balance"), ACCOUNTS * 100);
    assert_eq!(number(&one, "SELECT sum(amount) FROM log"), 0);
    assert_eq!(number(&one, "SELECT count(*) FROM log") as usize, 4 * TRANSFERS * 2, "{conflicts} conflicts");
    assert_eq!(one.query("PRAGMA integrity_check", &[]).unwrap(), [["ok".to_owned().into()]]);
}

/// Makes transfers, each until it is committed. Returns how many conflicts there were.
fn transfers(connection: &Connection, seed: i64, accounts: i64, count: usize) -> usize {
    let mut conflicts = 0;
    for turn in 0..count as i64 {
        let (from, to) = ((seed * 7 + turn * 3) % accounts, (seed * 5 + turn * 11 + 1) % accounts);
        let to = if to == from { (to + 1) % accounts } else { to };
        loop {
            match transfer(connection, from, to, accounts) {
                Ok(()) => break,
                Err(error) if error.is_conflict() => conflicts += 1,
                Err(error) => panic!("{error}"),
            }
            if !connection.is_autocommit() {
                connection.execute("ROLLBACK", &[]).expect("it is rolled back");
            }
        }
    }
    conflicts
}

fn transfer(connection: &Connection, from: i64, to: i64, accounts: i64) -> pando_sql::Result<()> {
    connection.execute("BEGIN", &[])?;
    let sum = connection.query("SELECT sum(balance) FROM account", &[])?;
    assert_eq!(sum[0][0], Value::Integer(accounts * 100), "a snapshot is torn");
    connection.execute("UPDATE account SET balance = balance - 1 WHERE id = ?", &[from.into()])?;
    connection.execute("UPDATE account SET balance = balance + 1 WHERE id = ?", &[to.into()])?;
    connection.execute("COMMIT", &[]).map(drop)
}

/// Connections are cut at every step of transactions whose statements go on after a failure, as those of a pipeline do.
/// Of each transaction, what succeeded takes effect as a whole or not at all.
#[test]
fn a_lost_connection_undoes_the_whole_transaction() {
    const TRANSACTIONS: i64 = 120;
    let Some(dir) = server::shared() else { return };
    let (proxy, schema) = (Proxy::start(dir), server::schema());
    let open = |url: &str| Sql::new(server::options().schema(&schema).open(url).expect("it opens"));
    let (cut, whole) = (open(&server::url(&proxy.dir)), open(&server::url(dir)));
    let whole = connect(&whole);
    whole
        .execute_batch(
            "CREATE TABLE one(id PRIMARY KEY); CREATE TABLE two(id PRIMARY KEY); CREATE TABLE three(id);
             CREATE VIEW everywhere AS
             SELECT * FROM one UNION ALL SELECT * FROM two UNION ALL SELECT * FROM three",
        )
        .unwrap();
    let mut committed = 0;
    for id in 0..TRANSACTIONS {
        // Each time at another step.
        proxy.set_rough(25 + (id as u64 * 7) % 60);
        // A new connection reads the definitions within the transaction.
        let Ok(connection) = cut.connect() else { continue };
        let statements = [
            "BEGIN",
            "INSERT INTO one VALUES (?)",
            "INSERT INTO two VALUES (?)",
            "INSERT INTO three VALUES (?)",
            "COMMIT",
        ];
        let mut has_begun = false;
        let done = statements.map(|sql| {
            let parameters = if sql.contains('?') { vec![Value::Integer(id)] } else { Vec::new() };
            let done = connection.execute(sql, &parameters);
            has_begun |= sql == "BEGIN" && done.is_ok();
            if let (Err(error), true) = (&done, has_begun) {
                let is_named = error.reason().is_some() || error.is_conflict();
                assert!(is_named && !error.message().contains("memory"), "{id} {sql}: {error}");
            }
            done.is_ok()
        });
        if !done[0] {
            continue; // Each statement was a transaction by itself.
        }
        committed += i64::from(done == [true; 5]);
        let found = number(&whole, &format!("SELECT count(*) FROM everywhere WHERE id = {id}"));
        // A statement that failed did nothing. The response to a commit can be lost.
        let all = done[1..4].iter().filter(|is_done| **is_done).count() as i64;
        match done[4] {
            true => assert_eq!(found, all, "{id}: {done:?}"),
            false => assert!([0, all].contains(&found), "{id}: {found}, {done:?}"),
        }
    }
    proxy.set_rough(0);
    assert!(committed > 0 && committed < TRANSACTIONS, "{committed} of {TRANSACTIONS} were committed");
}

/// A store gives no snapshot of the moment of a commit, so a query does not read on after it.
#[test]
fn a_query_ends_with_its_transaction() {
    let Some([first, _]) = two() else { return };
    let one = connect(&first);
    one.execute_batch(
        "CREATE TABLE t(a); INSERT INTO t SELECT value FROM json_each('[1,2,3,4,5,6,7,8,9]'); BEGIN",
    )
    .unwrap();
    let mut query = one.prepare("SELECT a FROM t").unwrap();
    let mut rows = query.query(&[]).unwrap();
    assert!(rows.next().unwrap().is_some());
    one.execute("INSERT INTO t VALUES (10)", &[]).unwrap();
    one.execute("COMMIT", &[]).unwrap();
    let mut outcome = Ok(());
    for _ in 0..20 {
        match rows.next() {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
    }
    let error = outcome.expect_err("it does not read on");
    assert!(error.message().contains("after the end of its transaction"), "{error}");
    drop(rows);
    drop(query);
    assert_eq!(number(&one, "SELECT count(*) FROM t"), 10);
}

/// A query that only reads can have a conflict over a store. By itself, and without a row, it is run again.
#[test]
fn a_query_by_itself_is_run_again_after_a_conflict() {
    let Some([first, second]) = two() else { return };
    let (reader, writer, other) = (connect(&first), connect(&second), connect(&second));
    writer
        .execute_batch(
            // Conflicts are found by pages of an index, and the two tables have pages of their own.
            "CREATE TABLE ctl(v); CREATE TABLE between_them(v); CREATE TABLE rec(v);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
             INSERT INTO between_them SELECT printf('%.50c', 'x') FROM n;
             INSERT INTO ctl VALUES (1); INSERT INTO rec VALUES (10)",
        )
        .unwrap();
    // In no order of the three can the reader see the new `ctl` and the old `rec`: the writer has read the old `ctl`.
    writer.execute_batch("BEGIN; SELECT v FROM ctl").unwrap();
    other.execute("UPDATE ctl SET v = 2", &[]).unwrap();
    let slow = "SELECT (SELECT v FROM ctl) + (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n
        WHERE i < 2000000) SELECT 0 * count(*) FROM n) + (SELECT sum(v) FROM rec)";
    let found = thread::scope(|scope| {
        let reading = scope.spawn(move || number(&reader, slow));
        thread::sleep(std::time::Duration::from_millis(150));
        writer.execute_batch("INSERT INTO rec VALUES (100); COMMIT").unwrap();
        assert!(!reading.is_finished(), "the query is too fast for this test");
        reading.join().expect("it is run again")
    });
    assert_eq!(found, 112);
}

/// FTS5 keeps a structure in memory, which other processes change.
#[test]
fn full_text_of_several_processes_agrees() {
    let Some([first, second]) = two() else { return };
    let (writer, reader) = (connect(&first), connect(&second));
    writer.execute_batch("CREATE VIRTUAL TABLE texts USING fts5(body)").unwrap();
    for round in 0..12 {
        writer.execute("INSERT INTO texts VALUES (?)", &[format!("word in round {round}").into()]).unwrap();
        if round % 4 == 3 {
            writer.execute("INSERT INTO texts(texts) VALUES ('optimize')", &[]).unwrap();
        }
        let count = number(&reader, "SELECT count(*) FROM texts WHERE texts MATCH 'word'");
        assert_eq!(count, round + 1);
    }
    reader.execute("INSERT INTO texts(texts) VALUES ('integrity-check')", &[]).unwrap();
}
