//! Where statements begin and end, and what kind they are. SQLite parses them.

pub(crate) use sqlite_format::token::{Kind, Token, quote, tokens};

/// Returns whether a statement begins or ends a transaction. Statements about savepoints do not.
///
/// ```
/// assert!(pando_sql::is_transaction_control("begin immediate"));
/// assert!(!pando_sql::is_transaction_control("ROLLBACK TO halfway"));
/// ```
pub fn is_transaction_control(statement: &str) -> bool {
    let mut tokens = tokens(statement).take(4);
    let Some(first) = tokens.next() else { return false };
    match first.is("ROLLBACK") {
        true => !tokens.any(|token| token.is("TO")),
        false => ["BEGIN", "COMMIT", "END"].iter().any(|word| first.is(word)),
    }
}

/// Returns the first statement of a text, or `None` if it has none. Use it for scripts, and for prompts that read until
/// a semicolon.
///
/// ```
/// let first = pando_sql::split_first("SELECT ';'; SELECT").unwrap();
/// assert_eq!((first.statement, first.is_complete), ("SELECT ';'", true));
/// assert!(!pando_sql::split_first(first.rest).unwrap().is_complete);
/// ```
pub fn split_first(sql: &str) -> Option<First<'_>> {
    let mut all = tokens(sql).skip_while(|token| token.is_mark(';')).peekable();
    let start = all.peek()?.start;
    let mut beginning = Beginning::Nothing;
    // Within a trigger, a `;` ends the statement only directly after a single `END`.
    let mut before = [false, false];
    for token in all {
        beginning = beginning.with(&token);
        if token.is_mark(';') && (beginning != Beginning::Trigger || before == [true, true]) {
            let (statement, rest) = (&sql[start..token.start], &sql[token.end()..]);
            return Some(First { statement, rest, is_complete: true });
        }
        before =
            if token.is_mark(';') { [true, false] } else { [before[0] && token.is("END"), token.is("END")] };
    }
    Some(First { statement: sql[start..].trim_end(), rest: "", is_complete: false })
}

/// How much of `CREATE TEMP TRIGGER` a statement begins with. The word alone may be the name of a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beginning {
    Nothing,
    Create,
    Temp,
    Trigger,
    Other,
}

impl Beginning {
    fn with(self, token: &Token<'_>) -> Self {
        let is = |words: &[&str]| words.iter().any(|word| token.is(word));
        match self {
            Beginning::Nothing if is(&["EXPLAIN", "QUERY", "PLAN"]) => Beginning::Nothing,
            Beginning::Nothing if is(&["CREATE"]) => Beginning::Create,
            Beginning::Create if is(&["TEMP", "TEMPORARY"]) => Beginning::Temp,
            Beginning::Create | Beginning::Temp if is(&["TRIGGER"]) => Beginning::Trigger,
            Beginning::Trigger => Beginning::Trigger,
            _ => Beginning::Other,
        }
    }
}

/// The result of [`split_first`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct First<'a> {
    /// The statement, without its semicolon.
    pub statement: &'a str,
    /// The text after the statement.
    pub rest: &'a str,
    /// Whether the statement ends with a semicolon.
    pub is_complete: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_where_sqlite_ends_them() {
        let all = |mut sql: &'static str| {
            let mut found = Vec::new();
            while let Some(first) = split_first(sql) {
                found.push(first.statement);
                sql = first.rest;
            }
            found
        };
        assert_eq!(all(" ; ;; "), [""; 0]);
        assert_eq!(all("-- nothing\n/* at all"), [""; 0]);
        assert_eq!(all("SELECT ';'; SELECT 2 -- ;\n"), ["SELECT ';'", "SELECT 2 -- ;"]);
        let trigger =
            "CREATE TEMP TRIGGER a AFTER INSERT ON t BEGIN SELECT CASE 1 WHEN 1 THEN 2 END; SELECT 2; END";
        let second = all(
            "CREATE TEMP TRIGGER a AFTER INSERT ON t BEGIN SELECT CASE 1 WHEN 1 THEN 2 END; SELECT 2; END;
             SELECT 3",
        );
        assert_eq!((second.len(), second[0], second[1]), (2, trigger, "SELECT 3"));
        for named_so in ["INSERT INTO trigger VALUES(1)", "CREATE TABLE trigger(a)", "DROP TABLE trigger"] {
            let both = format!("{named_so}; COMMIT");
            assert_eq!(split_first(&both).unwrap().statement, named_so);
        }
        let explained = "EXPLAIN QUERY PLAN CREATE TRIGGER a DELETE ON t BEGIN SELECT 1; END";
        assert_eq!(all(explained), [explained]);
        for unclosed in ["'", "\"", "[", "/*", "--", "x'", "?", ":", "\u{1F333}", "'a''"] {
            let _ = all(unclosed);
        }
    }
}
