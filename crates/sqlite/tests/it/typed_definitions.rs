//! What `sqlite-format` reads in a definition is what SQLite says of the table.

use crate::support::fresh;
use pando_sqlite::{Connection, Value};
use sqlite_format::definition::{Generated, Key, Table};

/// Definitions of a table `t` in forms that are easy to misread.
const TABLES: &[&str] = &[
    "CREATE TABLE t(a)",
    "CREATE TABLE t(id INTEGER PRIMARY KEY, b TEXT)",
    "CREATE TABLE t(id integer PRIMARY KEY ASC AUTOINCREMENT, b)",
    "CREATE TABLE t(id INTEGER PRIMARY KEY DESC, b)",
    "CREATE TABLE t(id INT PRIMARY KEY, b)",
    "CREATE TABLE t(id \"INTEGER\" PRIMARY KEY, b 'a' type, c [INT\"] (5))",
    "CREATE TABLE t(id INTEGER(8) PRIMARY KEY, b)",
    "CREATE TABLE t(a, id INTEGER, PRIMARY KEY(id DESC))",
    "CREATE TABLE t(a, id INTEGER, PRIMARY KEY(id COLLATE NOCASE))",
    "CREATE TABLE t(a, id INTEGER, PRIMARY KEY(id AUTOINCREMENT))",
    "CREATE TABLE t(a INTEGER, b INTEGER, PRIMARY KEY(a, b))",
    "CREATE TABLE t(a INTEGER, b INTEGER, PRIMARY KEY(b, a DESC)) WITHOUT ROWID",
    "CREATE TABLE t(id INTEGER PRIMARY KEY, b ANY) WITHOUT ROWID, STRICT",
    "CREATE TABLE t(a TEXT COLLATE NOCASE, b TEXT, PRIMARY KEY(b, a, b)) WITHOUT ROWID",
    "CREATE TABLE t(a ANY, b INT NOT NULL ON CONFLICT IGNORE, c REAL NULL ON CONFLICT FAIL) STRICT",
    "CREATE TABLE \"t\"(\"a \"\"b\" varchar ( 20 , 3 ) DEFAULT 'it''s, (' NOT NULL, \
    [c d] DOUBLE  PRECISION, `e` 'a type')",
    "CREATE TABLE t(a DEFAULT -5, b DEFAULT +1.5e-3 NOT NULL, c DEFAULT (1 + (2)), \
    d DEFAULT CURRENT_TIME, e DEFAULT .5)",
    "CREATE TABLE t(a DEFAULT null NOT NULL, b DEFAULT x'00' UNIQUE, c DEFAULT word CHECK (c > 0), \
    d DEFAULT \"q\")",
    "CREATE TABLE t(a INT GENERATED ALWAYS AS (b + 1), b, c AS (b || ',') STORED NOT NULL, \
    d GENERATED ALWAYS AS (1) VIRTUAL)",
    "CREATE TABLE t(a REFERENCES u(x) ON DELETE SET NULL ON UPDATE NO ACTION MATCH full
       NOT DEFERRABLE INITIALLY IMMEDIATE, b
       CONSTRAINT named REFERENCES u DEFERRABLE INITIALLY DEFERRED, FOREIGN KEY (a,
       b) REFERENCES u (x, y) ON DELETE CASCADE
       CONSTRAINT c CHECK (a <> ')') UNIQUE (a) ON CONFLICT REPLACE)",
    "CREATE TABLE t(a -- a comment, with (brackets\n INTEGER /* PRIMARY KEY */ , key TEXT, action, \
    \"primary\" BLOB)",
    "CREATE TABLE t(a CONSTRAINT one CONSTRAINT two NOT NULL, b CONSTRAINT last)",
    "CREATE TABLE t(ä TEXT, \u{1F333} NUMERIC, generated TEXT, always INT)",
    "CREATE TABLE t(a UNSIGNED BIG INT, b NATIVE CHARACTER(70), c DECIMAL(10,5), d BOOLEAN, \
    e FLOATING POINT)",
    "CREATE TABLE t(a PRIMARY KEY, \
    b UNIQUE ON CONFLICT ROLLBACK COLLATE RTRIM DEFAULT 'x' CHECK(1), UNIQUE(a, b COLLATE NOCASE))",
    "CREATE TABLE t(a PRIMARY KEY UNIQUE, b UNIQUE UNIQUE, UNIQUE(a DESC), \
    UNIQUE(b COLLATE nocase), UNIQUE(a, b))",
    "CREATE TABLE t(id INTEGER PRIMARY KEY UNIQUE, a UNIQUE COLLATE NOCASE, \
    UNIQUE(a COLLATE BINARY, id DESC))",
    "CREATE TABLE t(a UNIQUE, b, c INTEGER, PRIMARY KEY(b, a), UNIQUE(c), UNIQUE(b, a)) WITHOUT ROWID",
    "CREATE TABLE t(a INTEGER PRIMARY KEY DESC UNIQUE, b UNIQUE, UNIQUE('b', \"a\"))",
    "CREATE TABLE t(id INTEGER PRIMARY KEY UNIQUE, a UNIQUE) WITHOUT ROWID",
    "CREATE TABLE t(a UNIQUE PRIMARY KEY, b UNIQUE) WITHOUT ROWID",
    "CREATE TABLE t(a TEXT, b INT, PRIMARY KEY(b, a)) STRICT",
    "CREATE TABLE t(a INTEGER PRIMARY KEY DESC, b INT) STRICT",
    "CREATE TABLE t AS SELECT 1 AS a, 'x' AS \"b c\", 2.5 AS d",
];

fn text(value: &Value) -> &str {
    match value {
        Value::Text(text) => text,
        other => panic!("{other:?} is no text"),
    }
}

fn number(value: &Value) -> i64 {
    match value {
        Value::Integer(number) => *number,
        other => panic!("{other:?} is no integer"),
    }
}

fn definition(connection: &Connection, name: &str) -> String {
    let found = connection.query(&format!("SELECT sql FROM sqlite_schema WHERE name = '{name}'")).unwrap();
    text(&found[0][0]).to_owned()
}

#[test]
fn tables_are_read_as_sqlite_reads_them() {
    for sql in TABLES {
        let connection = fresh();
        connection.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let stored = definition(&connection, "t");
        let table = Table::parse(&stored).unwrap_or_else(|error| panic!("{stored}: {error}"));
        let columns = connection
            .query("SELECT name, type, \"notnull\", dflt_value, pk, hidden FROM pragma_table_xinfo('t')");
        let columns = columns.unwrap();
        assert_eq!(columns.len(), table.columns.len(), "{sql}");
        let without_rowid = matches!(table.key, Key::Primary(_));
        for (described, column) in columns.iter().zip(&table.columns) {
            assert_eq!(text(&described[0]), column.name, "{sql}");
            assert_eq!(text(&described[1]).to_uppercase(), column.declared.to_uppercase(), "{sql}");
            let is_key = number(&described[4]) > 0;
            assert_eq!(
                number(&described[2]) == 1,
                column.is_not_null || (without_rowid && is_key),
                "{sql}: {}",
                column.name
            );
            let default = match &described[3] {
                Value::Null => None,
                other => Some(text(other).replace(' ', "")),
            };
            let bare = |text: &String| {
                let text = text.replace(' ', "");
                let within = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
                within.map_or(text.clone(), str::to_owned)
            };
            assert_eq!(default, column.default.as_ref().map(bare), "{sql}: {}", column.name);
            let generated = match number(&described[5]) {
                2 => Some(Generated::Virtual),
                3 => Some(Generated::Stored),
                _ => None,
            };
            assert_eq!(column.generated, generated, "{sql}: {}", column.name);
        }
        let listed =
            connection.query("SELECT wr, strict FROM pragma_table_list('t') WHERE schema = 'main'").unwrap();
        assert_eq!(
            (number(&listed[0][0]) == 1, number(&listed[0][1]) == 1),
            (without_rowid, table.is_strict),
            "{sql}"
        );
        check_key(&connection, &table, sql);
        check_automatic(&connection, &table, sql);
    }
}

/// Compares the indexes of constraints, in the order in which SQLite made them.
fn check_automatic(connection: &Connection, table: &Table, sql: &str) {
    let described = connection
        .query(
            "SELECT l.name, x.cid, x.\"desc\", upper(x.coll) FROM sqlite_schema s \
             JOIN pragma_index_list('t') l \
             USING (name) JOIN pragma_index_xinfo(l.name) x ON x.key WHERE s.sql IS NULL \
             ORDER BY CAST(replace(l.name, 'sqlite_autoindex_t_', '') AS INT), x.seqno",
        )
        .unwrap();
    let of_sqlite: Vec<_> = described.chunk_by(|one, other| one[0] == other[0]).collect();
    assert_eq!(of_sqlite.len(), table.automatic.len(), "{sql}");
    for (parts, index) in of_sqlite.iter().zip(&table.automatic) {
        let index = index.as_ref().expect("the collations are known");
        let read = index.parts.iter().map(|part| {
            let collation = format!("{:?}", part.order.collation).to_uppercase();
            (part.column as i64, part.order.descending, collation)
        });
        let wanted = parts.iter().map(|p| (number(&p[1]), number(&p[2]) == 1, text(&p[3]).to_owned()));
        assert_eq!(read.collect::<Vec<_>>(), wanted.collect::<Vec<_>>(), "{sql}");
        assert!(index.is_unique);
    }
}

/// Compares what rows are stored by. SQLite shows the record of a `WITHOUT ROWID` table as that of its key.
fn check_key(connection: &Connection, table: &Table, sql: &str) {
    let Key::Primary(parts) = &table.key else {
        let Key::Rowid(alias) = table.key else { unreachable!() };
        // Only a column that stands for the rowid can be set through its other name.
        let names: Vec<_> = table.columns.iter().map(|column| column.name.to_lowercase()).collect();
        assert!(!names.contains(&"rowid".to_owned()));
        let plan = connection.query("EXPLAIN QUERY PLAN SELECT * FROM t WHERE rowid = 1").unwrap();
        assert!(text(plan[0].last().unwrap()).contains("INTEGER PRIMARY KEY"), "{sql}");
        for (place, column) in table.columns.iter().enumerate() {
            let name = column.name.replace('"', "\"\"");
            let plan = connection
                .query(&format!("EXPLAIN QUERY PLAN SELECT * FROM t WHERE \"{name}\" = 1"))
                .unwrap();
            let is_alias = text(plan[0].last().unwrap()).contains("USING INTEGER PRIMARY KEY");
            assert_eq!(is_alias, alias == Some(place), "{sql}: {}", column.name);
        }
        return;
    };
    let described = connection
        .query(
            "SELECT x.cid, x.\"desc\", x.coll, x.key FROM pragma_index_list('t') l, \
        pragma_index_xinfo(l.name) x WHERE l.origin = 'pk' ORDER BY x.seqno",
        )
        .unwrap();
    let record: Vec<_> = described.iter().map(|field| number(&field[0]) as usize).collect();
    assert_eq!(record, table.stored(), "{sql}");
    let key: Vec<_> = described.iter().filter(|field| number(&field[3]) == 1).collect();
    assert_eq!(key.len(), parts.len(), "{sql}");
    for (field, part) in key.iter().zip(parts) {
        assert_eq!(number(&field[0]) as usize, part.column, "{sql}");
        assert_eq!(number(&field[1]) == 1, part.order.descending, "{sql}");
        assert_eq!(text(&field[2]), format!("{:?}", part.order.collation).to_uppercase(), "{sql}");
    }
}

#[test]
fn indexes_are_read_as_sqlite_reads_them() {
    let connection = fresh();
    connection.execute("CREATE TABLE t(a, b TEXT COLLATE NOCASE, \"c d\" INT, \"desc\")").unwrap();
    let table = Table::parse(&definition(&connection, "t")).unwrap();
    for (sql, is_plain) in [
        ("CREATE INDEX i ON t(a)", true),
        ("CREATE UNIQUE INDEX i ON t(b DESC, \"c d\" ASC)", true),
        ("CREATE INDEX IF NOT EXISTS i ON t(b COLLATE BINARY, [c d] COLLATE rtrim DESC, a)", true),
        ("CREATE INDEX i ON \"t\"(\"desc\" DESC) -- the end", true),
        ("CREATE INDEX i ON t(a) WHERE b IS NOT NULL", false),
        ("CREATE INDEX i ON t(a + 1)", false),
        ("CREATE INDEX i ON t(a, lower(b))", false),
        ("CREATE INDEX i ON t((a))", false),
    ] {
        connection.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let index = table.parse_index(&definition(&connection, "i")).unwrap();
        assert_eq!(index.is_some(), is_plain, "{sql}");
        if let Some(index) = index {
            let described = connection
                .query("SELECT cid, \"desc\", coll FROM pragma_index_xinfo('i') WHERE key ORDER BY seqno")
                .unwrap();
            assert_eq!(described.len(), index.parts.len(), "{sql}");
            for (field, part) in described.iter().zip(&index.parts) {
                let collation = format!("{:?}", part.order.collation);
                let found = (part.column as i64, part.order.descending, collation.to_uppercase());
                let wanted = (number(&field[0]), number(&field[1]) == 1, text(&field[2]).to_uppercase());
                assert_eq!(found, wanted, "{sql}");
            }
            let list =
                connection.query("SELECT \"unique\" FROM pragma_index_list('t') WHERE name = 'i'").unwrap();
            assert_eq!(number(&list[0][0]) == 1, index.is_unique, "{sql}");
        }
        connection.execute("DROP INDEX i").unwrap();
    }
}
