//! Decides whether everything that a statement compares with columns is a literal, a parameter or a function of such.
//!
//! SQLite converts both sides of a comparison by their *affinities*, which columns, subqueries and casts have. It does
//! not tell a virtual table what is on the other side. So a way by texts, or by values of any type, is as good as
//! SQLite's own only if the other side certainly has no affinity; `bounds.rs` describes what is done otherwise.
//!
//! The tokens of a statement are sufficient: it names one table, and no other query, cast or join. An uncertain
//! statement is not plain.

use crate::lexer::{self, Token};

/// Returns whether no comparison in `sql` can have a column, a subquery or a cast on its other side.
pub(crate) fn is_plain(sql: &str) -> bool {
    let (mut queries, mut depth, mut from_depth) = (0, 0i32, None);
    let mut verb_is_update = false;
    for (place, token) in lexer::tokens(sql).enumerate() {
        depth += i32::from(token.is_mark('(')) - i32::from(token.is_mark(')'));
        verb_is_update |= place == 0 && token.is("UPDATE");
        queries += u32::from(is_query(&token));
        let is_join = token.is("JOIN") || token.is_mark(',') && from_depth == Some(depth);
        if queries > 1 || is_join || token.is("CAST") || token.is("WITH") || token.is("EXISTS") {
            return false;
        }
        if token.is("FROM") {
            // This finds `UPDATE ... FROM`, and a query in parentheses.
            if verb_is_update || from_depth.is_some() {
                return false;
            }
            from_depth = Some(depth);
        } else if ["WHERE", "GROUP", "ORDER", "LIMIT", "WINDOW"].iter().any(|word| token.is(word)) {
            from_depth = from_depth.map(|_| i32::MIN);
        }
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
        for sql in [
            "SELECT a, b FROM t WHERE name = ? AND x IN (1, 2) ORDER BY a, b LIMIT 3",
            "DELETE FROM t WHERE name = 'FROM x JOIN y'",
            "UPDATE t SET a = 1, b = lower(?) WHERE c > upper('x')",
            "INSERT INTO t(a, b) VALUES (1, 'x')",
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
            "WITH u(b) AS (SELECT 1) SELECT * FROM t WHERE a = 1",
            "SELECT * FROM (t), u WHERE t.a = u.b",
            "SELECT * FROM t WHERE a IN (VALUES (1))",
        ] {
            assert!(!is_plain(sql), "{sql}");
        }
    }
}
