//! Decides whether everything that a statement compares with columns is a literal, a parameter or a function of such.
//!
//! SQLite converts both sides of a comparison by their *affinities*, which columns, subqueries and casts have. A
//! virtual table cannot learn what is on the other side. So a way by texts, or by values of any type, is as good as
//! SQLite's own only if the other side certainly has no affinity; `bounds.rs` describes what is done otherwise.
//!
//! The tokens of a statement are sufficient: it names one typed table, and no other query, cast or join. A view can
//! contain those, and a write to a table that SQLite made can run a trigger that does. An uncertain statement is not
//! plain.

use crate::lexer::{self, Token};

/// Returns whether no comparison in `sql` can have a column, a subquery or a cast on its other side. `is_typed` returns
/// whether a name is that of a typed table, and not of a view.
pub(crate) fn is_plain(sql: &str, is_typed: impl Fn(&str) -> bool) -> bool {
    let (mut queries, mut depth, mut from_depth) = (0, 0i32, None);
    let mut is_update = false;
    let mut tokens = lexer::tokens(sql).peekable();
    let mut before: Option<Token<'_>> = None;
    while let Some(token) = tokens.next() {
        depth += i32::from(token.is_mark('(')) - i32::from(token.is_mark(')'));
        queries += u32::from(is_query(&token));
        let is_join = token.is("JOIN") || token.is_mark(',') && from_depth == Some(depth);
        if queries > 1 || is_join || token.is("CAST") || token.is("WITH") || token.is("EXISTS") {
            return false;
        }
        // `IN` can also be followed by the name of a table.
        if token.is("IN") && !tokens.peek().is_some_and(|next| next.is_mark('(')) {
            return false;
        }
        // `DO UPDATE` and `ON UPDATE` name no table.
        let is_verb = token.is("UPDATE") && !before.is_some_and(|word| word.is("DO") || word.is("ON"));
        is_update |= is_verb;
        if token.is("FROM") {
            // This finds `UPDATE ... FROM`, and a query in parentheses.
            if is_update || from_depth.is_some() {
                return false;
            }
            from_depth = Some(depth);
        } else if ["WHERE", "GROUP", "ORDER", "LIMIT", "WINDOW"].iter().any(|word| token.is(word)) {
            from_depth = from_depth.map(|_| i32::MIN);
        }
        if is_verb && tokens.next_if(|next| next.is("OR")).is_some() {
            tokens.next();
        }
        if is_verb || token.is("FROM") || token.is("INTO") {
            let mut name = tokens.next();
            if tokens.next_if(|next| next.is_mark('.')).is_some() {
                if !name.is_some_and(|schema| schema.is("main")) {
                    return false;
                }
                name = tokens.next();
            }
            if !name.and_then(|name| name.name()).is_some_and(|name| is_typed(&name)) {
                return false;
            }
        }
        before = Some(token);
    }
    true
}

fn is_query(token: &Token<'_>) -> bool {
    token.is("SELECT") || token.is("VALUES")
}

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn one_table_and_values_are_plain() {
        let is_plain = |sql: &str| is_plain(sql, |name| ["t", "u", "from"].contains(&name));
        for sql in [
            "SELECT a, b FROM t WHERE name = ? AND x IN (1, 2) ORDER BY a, b LIMIT 3",
            "SELECT a FROM main.t AS v WHERE name NOT IN (?)",
            "SELECT a FROM \"from\" WHERE a = 1",
            "SELECT 1",
            "DELETE FROM t WHERE name = 'FROM x JOIN y'",
            "UPDATE t SET a = 1, b = lower(?) WHERE c > upper('x')",
            "UPDATE OR IGNORE [t] SET a = 1",
            "INSERT INTO t(a, b) VALUES (1, 'x')",
            "INSERT INTO t(a, b) VALUES (1, 'x') ON CONFLICT(a) DO UPDATE SET b = 2",
            "INSERT INTO t SELECT a, b FROM u WHERE name = 'x'",
        ] {
            assert!(is_plain(sql), "{sql}");
        }
        for sql in [
            "SELECT * FROM t, u WHERE t.a = u.b",
            "SELECT * FROM t JOIN u ON t.a = u.b",
            "SELECT * FROM t WHERE a IN (SELECT b FROM u)",
            "SELECT * FROM t WHERE a = (SELECT max(b) FROM u)",
            "SELECT * FROM t WHERE a = CAST(? AS INTEGER)",
            "UPDATE t SET a = 1 FROM u WHERE u.b = t.c",
            "EXPLAIN QUERY PLAN UPDATE t SET a = 1 FROM u WHERE u.b = t.c",
            "WITH u(b) AS (SELECT 1) SELECT * FROM t WHERE a = 1",
            "SELECT * FROM (t), u WHERE t.a = u.b",
            "SELECT * FROM t WHERE a IN (VALUES (1))",
            "SELECT * FROM t WHERE a IN u",
            "SELECT * FROM t WHERE a NOT IN main.u",
            "SELECT * FROM v",
            "SELECT * FROM main.v AS t",
            "SELECT * FROM temp.t",
            "DELETE FROM v WHERE a = 1",
            "UPDATE v SET a = 1",
            "UPDATE OR FAIL v SET a = 1",
            "INSERT INTO v VALUES (1)",
            "INSERT INTO t SELECT * FROM v",
        ] {
            assert!(!is_plain(sql), "{sql}");
        }
    }
}
