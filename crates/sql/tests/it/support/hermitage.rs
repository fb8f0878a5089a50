//! The anomalies of the Hermitage suite (<https://github.com/ept/hermitage>) and variants of write skew, as a table of
//! scripts: what three connections do in turn, and what each step returns. Tests of several ways to run SQL share it.

/// A connection of a database: of a library, or of a server.
pub trait Client {
    /// Runs a statement. Returns the first column of each row as text.
    fn run(&mut self, sql: &str) -> Result<Vec<String>, Failure>;
}

/// Why a statement failed.
#[derive(Debug)]
pub enum Failure {
    /// Another transaction was first. This one is rolled back.
    Conflict,
    Other(String),
}

/// What is there before each script.
const SCHEMA: [&str; 9] = [
    "DROP TABLE IF EXISTS child",
    "DROP TABLE IF EXISTS test",
    "DROP TABLE IF EXISTS names",
    "CREATE TABLE test(id INTEGER PRIMARY KEY, value INTEGER)",
    "CREATE INDEX by_value ON test(value)",
    "CREATE TABLE child(parent INTEGER REFERENCES test(id))",
    "CREATE TABLE names(name TEXT UNIQUE)",
    "CREATE TRIGGER at_most_one BEFORE INSERT ON names WHEN (SELECT count(*) FROM names) >= 1
       BEGIN SELECT RAISE(ABORT, 'full'); END",
    "INSERT INTO test VALUES (1, 10), (2, 20)",
];

/// A script: the connection, the statement, and after `->` the rows that it returns, or `conflict`. `ALL` stands for
/// the values of all rows. Every connection has begun a transaction, unless the script says `3 BEGIN`.
const CASES: [(&str, &str); 24] = [
    (
        "G0: dirty write",
        "1 UPDATE test SET value = 11 WHERE id = 1
         2 UPDATE test SET value = 12 WHERE id = 1
         1 UPDATE test SET value = 21 WHERE id = 2
         1 COMMIT
         1 ALL -> 11 21
         2 UPDATE test SET value = 22 WHERE id = 2
         2 COMMIT -> conflict
         2 ALL -> 11 21",
    ),
    (
        "G1a: aborted read",
        "1 UPDATE test SET value = 101 WHERE id = 1
         2 ALL -> 10 20
         1 ROLLBACK
         2 ALL -> 10 20
         2 COMMIT
         2 ALL -> 10 20",
    ),
    (
        "G1b: intermediate read",
        "1 UPDATE test SET value = 101 WHERE id = 1
         2 ALL -> 10 20
         1 UPDATE test SET value = 11 WHERE id = 1
         1 COMMIT
         2 ALL -> 10 20
         2 COMMIT
         2 ALL -> 11 20",
    ),
    (
        "G1c: circular information flow",
        "1 UPDATE test SET value = 11 WHERE id = 1
         2 UPDATE test SET value = 22 WHERE id = 2
         1 SELECT value FROM test WHERE id = 2 -> 20
         2 SELECT value FROM test WHERE id = 1 -> 10
         1 COMMIT
         2 COMMIT -> conflict
         2 ALL -> 11 20",
    ),
    (
        "OTV: observed transaction vanishes",
        "1 UPDATE test SET value = 11 WHERE id = 1
         1 UPDATE test SET value = 19 WHERE id = 2
         2 UPDATE test SET value = 12 WHERE id = 1
         1 COMMIT
         3 BEGIN
         3 SELECT value FROM test WHERE id = 1 -> 11
         2 UPDATE test SET value = 18 WHERE id = 2
         3 SELECT value FROM test WHERE id = 2 -> 19
         2 COMMIT -> conflict
         3 ALL -> 11 19
         3 COMMIT",
    ),
    (
        "PMP: predicate with many predecessors",
        "1 SELECT id FROM test WHERE value = 30 ->
         2 INSERT INTO test VALUES (3, 30)
         2 COMMIT
         1 SELECT id FROM test WHERE value % 3 = 0 ->
         1 COMMIT
         1 SELECT id FROM test WHERE value % 3 = 0 -> 3",
    ),
    (
        "PMP of a write",
        "1 UPDATE test SET value = value + 10
         2 ALL -> 10 20
         2 DELETE FROM test WHERE value = 20
         1 COMMIT
         2 COMMIT -> conflict
         2 ALL -> 20 30",
    ),
    (
        "P4: lost update",
        "1 SELECT value FROM test WHERE id = 1 -> 10
         2 SELECT value FROM test WHERE id = 1 -> 10
         1 UPDATE test SET value = 11 WHERE id = 1
         2 UPDATE test SET value = 11 WHERE id = 1
         1 COMMIT
         2 COMMIT -> conflict",
    ),
    (
        "P4 of a statement that reads what it writes",
        "1 UPDATE test SET value = value + 1 WHERE id = 1
         2 UPDATE test SET value = value + 1 WHERE id = 1
         2 COMMIT
         1 COMMIT -> conflict
         1 ALL -> 11 20",
    ),
    (
        "G-single: read skew",
        "1 SELECT value FROM test WHERE id = 1 -> 10
         2 UPDATE test SET value = 12 WHERE id = 1
         2 UPDATE test SET value = 18 WHERE id = 2
         2 COMMIT
         1 SELECT value FROM test WHERE id = 2 -> 20
         1 COMMIT",
    ),
    (
        "G-single of predicates",
        "1 SELECT value FROM test WHERE value % 5 = 0 ORDER BY id -> 10 20
         2 UPDATE test SET value = 12 WHERE value = 10
         2 COMMIT
         1 SELECT value FROM test WHERE value % 3 = 0 ->
         1 COMMIT",
    ),
    (
        "G-single of a predicate of a write",
        "1 SELECT value FROM test WHERE id = 1 -> 10
         2 UPDATE test SET value = 12 WHERE id = 1
         2 UPDATE test SET value = 18 WHERE id = 2
         2 COMMIT
         1 DELETE FROM test WHERE value = 20
         1 COMMIT -> conflict
         1 ALL -> 12 18",
    ),
    (
        "G-single, interleaved",
        "1 SELECT value FROM test WHERE id = 1 -> 10
         2 UPDATE test SET value = 12 WHERE id = 1
         1 SELECT value FROM test WHERE id = 2 -> 20
         2 UPDATE test SET value = 18 WHERE id = 2
         2 COMMIT
         1 ALL -> 10 20
         1 COMMIT",
    ),
    (
        "G2-item: write skew",
        "1 SELECT value FROM test WHERE id IN (1, 2) ORDER BY id -> 10 20
         2 SELECT value FROM test WHERE id IN (1, 2) ORDER BY id -> 10 20
         1 UPDATE test SET value = 11 WHERE id = 1
         2 UPDATE test SET value = 21 WHERE id = 2
         1 COMMIT
         2 COMMIT -> conflict
         2 ALL -> 11 20",
    ),
    (
        "G2: phantom",
        "1 SELECT id FROM test WHERE value % 3 = 0 ->
         2 SELECT id FROM test WHERE value % 3 = 0 ->
         1 INSERT INTO test VALUES (3, 30)
         2 INSERT INTO test VALUES (4, 42)
         1 COMMIT
         2 COMMIT -> conflict
         2 ALL -> 10 20 30",
    ),
    (
        "G2 of three transactions, one of which only reads",
        "1 ALL -> 10 20
         2 UPDATE test SET value = value + 5 WHERE id = 2
         2 COMMIT
         3 BEGIN
         3 ALL -> 10 25
         3 COMMIT
         1 UPDATE test SET value = 0 WHERE id = 1
         1 COMMIT -> conflict
         1 ALL -> 10 25",
    ),
    (
        "write skew by the range of an index",
        "1 SELECT count(*) FROM test INDEXED BY by_value WHERE value > 15 -> 1
         2 SELECT count(*) FROM test INDEXED BY by_value WHERE value > 15 -> 1
         1 UPDATE test SET value = 16 WHERE id = 1
         2 INSERT INTO test VALUES (3, 17)
         1 COMMIT
         2 COMMIT -> conflict",
    ),
    (
        "write skew by rows that are absent",
        "1 SELECT id FROM test WHERE id = 7 ->
         2 SELECT id FROM test WHERE id = 8 ->
         1 INSERT INTO test VALUES (8, 0)
         2 INSERT INTO test VALUES (7, 0)
         1 COMMIT
         2 COMMIT -> conflict",
    ),
    (
        "write skew by a sum",
        "1 SELECT sum(value) FROM test -> 30
         2 SELECT sum(value) FROM test -> 30
         1 UPDATE test SET value = value - 15 WHERE id = 1
         2 UPDATE test SET value = value - 15 WHERE id = 2
         2 COMMIT
         1 COMMIT -> conflict
         1 ALL -> 10 5",
    ),
    (
        "write skew by what a trigger reads",
        "1 INSERT INTO names VALUES ('ann')
         2 INSERT INTO names VALUES ('bob')
         1 COMMIT
         2 COMMIT -> conflict
         2 SELECT name FROM names -> ann",
    ),
    (
        "write skew by what a foreign key reads",
        "1 INSERT INTO child VALUES (1)
         2 DELETE FROM test WHERE id = 1
         1 COMMIT
         2 COMMIT -> conflict
         2 SELECT count(*) FROM child JOIN test ON id = parent -> 1",
    ),
    (
        "write skew by what a foreign key reads, in the other order",
        "1 INSERT INTO child VALUES (1)
         2 DELETE FROM test WHERE id = 1
         2 COMMIT
         1 COMMIT -> conflict
         1 SELECT count(*) FROM child -> 0",
    ),
    (
        "what a savepoint has read stays read",
        "1 SAVEPOINT s
         1 UPDATE test SET value = 99 WHERE id = 1
         1 ROLLBACK TO s
         1 UPDATE test SET value = 21 WHERE id = 2
         2 UPDATE test SET value = 11 WHERE id = 1
         2 COMMIT
         1 COMMIT -> conflict",
    ),
    (
        "no anomaly: both commit",
        "1 UPDATE test SET value = 11 WHERE id = 1
         2 UPDATE test SET value = 21 WHERE id = 2
         1 SELECT value FROM test WHERE id = 1 -> 11
         1 INSERT INTO test(value) VALUES (5)
         2 INSERT INTO test(value) VALUES (6)
         1 COMMIT
         2 COMMIT
         2 SELECT sum(value) FROM test -> 43",
    ),
];

/// Runs every script on three connections of one database.
pub fn run_all(clients: &mut [impl Client; 3]) {
    for (name, steps) in scripts() {
        run(clients, name, &steps);
    }
}

/// A step of a script: the connection, the statement, and the rows that it returns where one database is used, or
/// `conflict`.
pub struct Step {
    pub at: usize,
    pub sql: &'static str,
    expected: &'static str,
}

/// Returns the steps of each script by its name. `BEGIN` is a step of each connection that is used.
pub fn scripts() -> impl Iterator<Item = (&'static str, Vec<Step>)> {
    CASES.into_iter().map(|(name, script)| {
        let steps: Vec<Step> = script.lines().map(|line| step(line.trim())).collect();
        let begins = |at: usize| steps.iter().any(|step| step.at == at && step.sql == "BEGIN");
        let is_used = |at: usize| steps.iter().any(|step| step.at == at);
        let begun = (0..3).filter(|&at| is_used(at) && !begins(at));
        let begun: Vec<_> = begun.map(|at| Step { at, sql: "BEGIN", expected: "" }).collect();
        (name, begun.into_iter().chain(steps).collect())
    })
}

fn step(line: &'static str) -> Step {
    let (at, step) = line.split_once(' ').expect("a step has a connection and a statement");
    let number: usize = at.parse().expect("a step begins with the number of a connection");
    let (sql, expected) = step.split_once("->").unwrap_or((step, ""));
    let sql = if sql.trim() == "ALL" { "SELECT value FROM test ORDER BY id" } else { sql.trim() };
    Step { at: number - 1, sql, expected: expected.trim() }
}

/// Creates the tables anew.
pub fn set_up(client: &mut impl Client) -> Result<(), Failure> {
    SCHEMA.iter().try_for_each(|statement| client.run(statement).map(drop))
}

fn run(clients: &mut [impl Client; 3], name: &str, steps: &[Step]) {
    set_up(&mut clients[0]).unwrap_or_else(|error| panic!("{name}: {error:?}"));
    for Step { at, sql, expected } in steps {
        let found = match clients[*at].run(sql) {
            Ok(rows) => rows.join(" "),
            Err(Failure::Conflict) => "conflict".to_owned(),
            Err(Failure::Other(message)) => panic!("{name}: {}: {sql}: {message}", at + 1),
        };
        assert_eq!(found, *expected, "{name}: {}: {sql}", at + 1);
    }
}
