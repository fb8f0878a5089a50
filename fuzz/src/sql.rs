//! Statements on Pando's trees and on SQLite's own, which must do the same.
//!
//! An input is text with a statement on each line. [`Both`] runs each line on two connections of the same library: one
//! to a new database of Pando's, one to a database of SQLite's in memory. [`mutate`] makes new inputs of old ones by
//! lines and words, because a change of single bytes rarely leaves a statement.

use pando_sqlite::{Access, Action, Connection, Decision, Limit, Rows, Value};

/// How often a statement may be asked whether to stop, every [`STEPS`] steps of SQLite's machine.
const MOST_ASKS: u32 = 100;
const STEPS: u32 = 1000;
/// The most lines of an input that are run.
const MOST_LINES: usize = 60;

/// Functions whose results differ between any two connections, and those that leave the database.
const OTHER_FUNCTIONS: [&str; 14] = [
    "random",
    "randomblob",
    "load_extension",
    "fts3_tokenizer",
    "date",
    "time",
    "datetime",
    "julianday",
    "unixepoch",
    "strftime",
    "timediff",
    "current_date",
    "current_time",
    "current_timestamp",
];

/// Pragmas whose results are the same on both. Others are about pages, files and the process.
const PRAGMAS: [&str; 18] = [
    "application_id",
    "case_sensitive_like",
    "defer_foreign_keys",
    "foreign_key_check",
    "foreign_key_list",
    "foreign_keys",
    "ignore_check_constraints",
    "index_info",
    "index_list",
    "index_xinfo",
    "integrity_check",
    "legacy_alter_table",
    "quick_check",
    "recursive_triggers",
    "table_info",
    "table_list",
    "table_xinfo",
    "user_version",
];

/// Result codes after which the two may differ: out of memory, interrupted, too big.
const STOPS: [i32; 3] = [7, 9, 18];

fn decide(access: Access<'_>) -> Decision {
    let is_one_of = |names: &[&str], name: &str| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    match access.action {
        Action::Attach { .. } => Decision::Deny,
        Action::Pragma { name, .. } if !is_one_of(&PRAGMAS, name) => Decision::Deny,
        Action::Function { name } if is_one_of(&OTHER_FUNCTIONS, name) => Decision::Deny,
        // Roots are numbers of tables here, and of pages there.
        Action::Read { column: "rootpage", .. } => Decision::Ignore,
        _ => Decision::Allow,
    }
}

fn limited(mut connection: Connection) -> Connection {
    let limits = [
        (Limit::ValueBytes, 200_000),
        (Limit::ExpressionDepth, 100),
        (Limit::ParserDepth, 100),
        (Limit::CompoundSelects, 20),
        (Limit::PatternBytes, 100),
        (Limit::AttachedDatabases, 0),
        (Limit::TriggerDepth, 30),
    ];
    for (limit, most) in limits {
        connection.set_limit(limit, most);
    }
    connection.set_authorizer(Some(decide)).expect("no error is known");
    connection
}

/// A connection to Pando and one to SQLite's own trees.
pub struct Both {
    ours: Connection,
    theirs: Connection,
}

impl Both {
    #[must_use]
    pub fn open() -> Both {
        let db =
            pando::Database::builder().page_bytes(4096).memory_bytes(4 << 20).in_memory().expect("memory");
        let ours = limited(Connection::open(&db).expect("memory"));
        Both { ours, theirs: limited(Connection::in_memory().expect("memory")) }
    }

    /// Runs all lines, compares what they return, and then all that is there.
    pub fn run(&mut self, text: &str) {
        for line in text.lines().take(MOST_LINES).filter(|line| is_comparable(line)) {
            let Some((ours, theirs)) = self.both(line) else { return };
            // It shows roots, and plans depend on counts.
            if has_word(line, "EXPLAIN") {
                continue;
            }
            if self.has_largest_rowid() {
                // From here on SQLite takes random rowids. What is there must still agree with itself.
                if let Ok(found) = self.ours.query("PRAGMA integrity_check") {
                    assert_eq!(found, [[Value::Text("ok".into())]]);
                }
                return;
            }
            self.expect_same(line, &ours, &theirs);
        }
        self.compare_all();
    }

    /// Runs one statement on both. Returns nothing if one of them has stopped early.
    fn both(&mut self, sql: &str) -> Option<(Result<Rows, i32>, Result<Rows, i32>)> {
        let [ours, theirs] = [&mut self.ours, &mut self.theirs].map(|connection| {
            let mut asks = 0;
            let stop = move || {
                asks += 1;
                asks > MOST_ASKS
            };
            connection.set_progress_handler(STEPS, Some(stop)).expect("steps are given");
            connection.query(sql).map_err(|error| error.code)
        });
        let stopped =
            |result: &Result<Rows, i32>| result.as_ref().is_err_and(|code| STOPS.contains(&(code & 255)));
        (!stopped(&ours) && !stopped(&theirs)).then_some((ours, theirs))
    }

    fn expect_same(&mut self, sql: &str, ours: &Result<Rows, i32>, theirs: &Result<Rows, i32>) {
        let same = format!("{ours:?}") == format!("{theirs:?}")
            && self.ours.is_in_transaction() == self.theirs.is_in_transaction()
            && self.ours.last_insert_rowid() == self.theirs.last_insert_rowid()
            && self.ours.total_changes() == self.theirs.total_changes();
        assert!(
            same,
            "{sql}\nPando: {ours:?}, transaction {}, last id {}, changes {}\n\
             SQLite: {theirs:?}, transaction {}, last id {}, changes {}",
            self.ours.is_in_transaction(),
            self.ours.last_insert_rowid(),
            self.ours.total_changes(),
            self.theirs.is_in_transaction(),
            self.theirs.last_insert_rowid(),
            self.theirs.total_changes(),
        );
    }

    /// Returns the names of the tables with rows of their own.
    fn tables(&self) -> Vec<String> {
        let names = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'shadow')
                     ORDER BY name";
        let rows = self.theirs.query(names).unwrap_or_default();
        rows.into_iter()
            .filter_map(|row| {
                if let [pando_sqlite::Value::Text(name)] = &row[..] { Some(name.clone()) } else { None }
            })
            .collect()
    }

    /// Returns whether a table has the largest rowid.
    fn has_largest_rowid(&self) -> bool {
        self.tables().iter().any(|name| {
            let largest = format!("SELECT 1 FROM {} WHERE rowid = 9223372036854775807", quoted(name));
            [&self.ours, &self.theirs].iter().any(|on| on.query(&largest).is_ok_and(|rows| !rows.is_empty()))
        })
    }

    fn compare_all(&mut self) {
        let mut questions = vec![
            "PRAGMA integrity_check".to_owned(),
            "PRAGMA foreign_key_check".to_owned(),
            "SELECT type, name, tbl_name, sql FROM sqlite_schema".to_owned(),
        ];
        questions.extend(self.tables().iter().map(|name| format!("SELECT * FROM main.{}", quoted(name))));
        for question in questions {
            let Some((ours, theirs)) = self.both(&question) else { return };
            self.expect_same(&question, &ours, &theirs);
        }
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn has_word(line: &str, word: &str) -> bool {
    words(line).iter().any(|own| own.eq_ignore_ascii_case(word))
}

/// `VACUUM` of SQLite attaches a database, which is denied. The authorizer does not see functions in a default.
fn is_comparable(line: &str) -> bool {
    let differs = ["VACUUM"].iter().chain(&OTHER_FUNCTIONS).any(|word| has_word(line, word));
    !line.trim().is_empty() && !line.contains('\0') && !differs
}

/// Makes a new input of one, with a seed.
#[must_use]
pub fn mutate(text: &str, seed: u32) -> String {
    let mut random = base::env::Random::seeded(u64::from(seed));
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..1 + random.below(4) {
        if lines.is_empty() {
            lines.push(pick(&mut random, &SNIPPETS).to_owned());
        }
        let [at, other] = [0; 2].map(|_| random.below(lines.len() as u64) as usize);
        match random.below(12) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[other].clone()),
            2 => lines.swap(at, other),
            3 => lines.insert(at, pick(&mut random, &LINES).to_owned()),
            4 | 5 => {
                // A part of one statement in the place of a word of another.
                let (from, mut to) = (words(&lines[other]), words(&lines[at]));
                let [from_at, to_at] =
                    [from.len(), to.len()].map(|len| random.below(len.max(1) as u64) as usize);
                let count = 1 + random.below(6) as usize;
                let part: Vec<String> = from.into_iter().skip(from_at).take(count).collect();
                to.splice(to_at..(to_at + 1).min(to.len()), part);
                lines[at] = to.concat();
            }
            6 | 7 => {
                let mut all = words(&lines[at]);
                let place = random.below(all.len() as u64 + 1) as usize;
                all.insert(place, format!(" {} ", pick(&mut random, &SNIPPETS)));
                lines[at] = all.concat();
            }
            8 | 9 => {
                let mut all = words(&lines[at]);
                let place = random.below(all.len().max(1) as u64) as usize;
                let with = if random.below(2) == 0 { &SNIPPETS[..] } else { &VALUES[..] };
                all.splice(place..(place + 1).min(all.len()), [pick(&mut random, with).to_owned()]);
                lines[at] = all.concat();
            }
            10 => {
                let mut all = words(&lines[at]);
                if !all.is_empty() {
                    all.remove(random.below(all.len() as u64) as usize);
                }
                lines[at] = all.concat();
            }
            _ => {
                let mut all = words(&lines[at]);
                if all.len() > 1 {
                    let [one, two] = [0; 2].map(|_| random.below(all.len() as u64) as usize);
                    all.swap(one, two);
                }
                lines[at] = all.concat();
            }
        }
    }
    lines.join("\n")
}

fn pick<'t>(random: &mut base::env::Random, of: &[&'t str]) -> &'t str {
    of[random.below(of.len() as u64) as usize]
}

/// Returns the words, numbers, quoted texts and signs of a line, with the spaces between them.
fn words(line: &str) -> Vec<String> {
    let (mut all, mut chars) = (Vec::new(), line.chars().peekable());
    while let Some(first) = chars.next() {
        let mut word = String::from(first);
        if let '\'' | '"' = first {
            for next in chars.by_ref() {
                word.push(next);
                if next == first {
                    break;
                }
            }
        } else {
            let is_word = |next: char| next.is_alphanumeric() || next == '_';
            while let Some(next) =
                chars.next_if(|&next| is_word(first) && is_word(next) || first == ' ' && next == ' ')
            {
                word.push(next);
            }
        }
        all.push(word);
    }
    all
}

/// Values at the edges of what keys and records distinguish. Keys are cut at 896 bytes.
const VALUES: [&str; 32] = [
    "NULL",
    "0",
    "-1",
    "1",
    "255",
    "65536",
    "2147483648",
    "4503599627370497",
    "9007199254740993",
    "-9223372036854775808",
    "9223372036854775806",
    "0.0",
    "-0.0",
    "1.0",
    "0.5",
    "1e300",
    "-1e-300",
    "9e999",
    "9007199254740992.0",
    "''",
    "'a'",
    "'A '",
    "'1'",
    "'äöü'",
    "x''",
    "x'00'",
    "x'00ff00'",
    "char(0)",
    "'a' || char(0) || 'b'",
    "printf('%.895c', 'k')",
    "printf('%.900c', 'k') || 'x'",
    "zeroblob(5000)",
];

/// Whole statements.
const LINES: [&str; 23] = [
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT s",
    "RELEASE s",
    "ROLLBACK TO s",
    "REINDEX",
    "ANALYZE",
    "PRAGMA foreign_keys = 1",
    "PRAGMA recursive_triggers = 1",
    "PRAGMA integrity_check",
    "SELECT * FROM t",
    "SELECT * FROM t ORDER BY 2 DESC, 1",
    "DELETE FROM t",
    "DELETE FROM t WHERE rowid IN (SELECT rowid FROM t WHERE b > 2)",
    "UPDATE t SET a = a + 1",
    "UPDATE OR REPLACE t SET rowid = rowid + 1",
    "INSERT OR REPLACE INTO t SELECT * FROM t",
    "INSERT INTO t DEFAULT VALUES",
    "CREATE INDEX t_more ON t(b DESC, a COLLATE NOCASE) WHERE a IS NOT NULL",
    "ALTER TABLE t ADD COLUMN z DEFAULT 7",
    "ALTER TABLE t RENAME COLUMN a TO aa",
    "DROP TABLE t",
];

/// Parts of statements.
const SNIPPETS: [&str; 72] = [
    "SELECT",
    "*",
    "(",
    ")",
    ",",
    "t",
    "u",
    "a",
    "b",
    "rowid",
    "WHERE",
    "AND",
    "OR",
    "NOT",
    "IS NULL",
    "IS NOT NULL",
    "IN (1, 2, 'a')",
    "BETWEEN 1 AND 5",
    "LIKE 'a%'",
    "GLOB 'a*'",
    "=",
    "<",
    ">=",
    "IS",
    "||",
    "+",
    "ORDER BY",
    "DESC",
    "NULLS LAST",
    "LIMIT 3",
    "OFFSET 1",
    "GROUP BY a",
    "HAVING count(*) > 1",
    "DISTINCT",
    "UNION ALL",
    "EXCEPT",
    "INTERSECT",
    "JOIN t USING (a)",
    "LEFT JOIN t AS t2 ON t2.a = t.b",
    "NATURAL FULL JOIN",
    "COLLATE NOCASE",
    "COLLATE RTRIM",
    "COLLATE BINARY",
    "UNIQUE",
    "PRIMARY KEY",
    "AUTOINCREMENT",
    "WITHOUT ROWID",
    "STRICT",
    "NOT NULL",
    "DEFAULT 3",
    "CHECK (a > 0)",
    "REFERENCES t(a) ON DELETE CASCADE ON UPDATE SET NULL",
    "DEFERRABLE INITIALLY DEFERRED",
    "GENERATED ALWAYS AS (a || b) STORED",
    "AS (length(a)) VIRTUAL",
    "OR REPLACE",
    "OR IGNORE",
    "OR ROLLBACK",
    "ON CONFLICT DO NOTHING",
    "ON CONFLICT(a) DO UPDATE SET b = excluded.b",
    "RETURNING *, rowid",
    "INTEGER",
    "TEXT",
    "REAL",
    "BLOB",
    "sum(a) OVER (ORDER BY b)",
    "EXISTS (SELECT 1 FROM t)",
    "(SELECT max(a) FROM t)",
    "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 200)",
    "CAST(a AS TEXT)",
    "INDEXED BY t_more",
    "INSTEAD OF",
];
