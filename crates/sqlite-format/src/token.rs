//! Tokens of SQL: as much as is needed to see where a statement ends, what kind it is, and what a definition names that
//! SQLite has accepted.

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A keyword or a name without quotes.
    Word,
    /// A name in double quotes, brackets or backticks.
    Quoted,
    /// A string or a blob.
    Literal,
    /// A number. One with a point or a signed exponent is several tokens.
    Number,
    /// `?`, `?1`, `:name`, `@name`, `$name`.
    Parameter,
    /// A single other character.
    Mark,
}

/// A token, with its position in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// The kind.
    pub kind: Kind,
    /// The text, with its quotes.
    pub text: &'a str,
    /// Where it begins, in bytes.
    pub start: usize,
}

impl Token<'_> {
    /// Returns where it ends, in bytes.
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// Returns whether it is this keyword.
    pub fn is(&self, keyword: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(keyword)
    }

    /// Returns whether it is this character.
    pub fn is_mark(&self, mark: char) -> bool {
        self.kind == Kind::Mark && self.text.starts_with(mark)
    }

    /// Returns the name that the token represents, without its quotes. SQLite accepts strings as names, too.
    pub fn name(&self) -> Option<String> {
        match self.kind {
            Kind::Word => Some(self.text.to_owned()),
            Kind::Quoted | Kind::Literal => {
                let mut chars = self.text.chars();
                let close = match chars.next()? {
                    '[' => return Some(self.text.get(1..self.text.len() - 1)?.to_owned()),
                    quote @ ('"' | '`' | '\'') => quote,
                    _ => return None,
                };
                let inner = self.text.get(1..self.text.len() - 1)?;
                Some(inner.replace(&format!("{close}{close}"), &close.to_string()))
            }
            _ => None,
        }
    }
}

/// Returns the tokens of a text, without spaces and comments. A token that is not closed extends to the end.
pub fn tokens(sql: &str) -> impl Iterator<Item = Token<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at += skipped(&sql[at..]);
        let rest = &sql[at..];
        let (kind, count) = first(rest)?;
        let token = Token { kind, text: &rest[..count], start: at };
        at += count;
        Some(token)
    })
}

/// Returns the number of bytes of spaces and comments at the front.
fn skipped(sql: &str) -> usize {
    let mut rest = sql;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r', '\x0c', '\u{feff}']);
        let comment = if rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(inside) = rest.strip_prefix("/*") {
            inside.find("*/").map_or(rest.len(), |end| end + 4)
        } else {
            return sql.len() - rest.len();
        };
        rest = &rest[comment..];
    }
}

fn first(rest: &str) -> Option<(Kind, usize)> {
    let in_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii();
    let word = |from: &str| from.find(|c| !in_word(c)).unwrap_or(from.len());
    let first = rest.chars().next()?;
    Some(match first {
        '\'' => (Kind::Literal, quoted(rest, '\'')),
        '"' | '`' => (Kind::Quoted, quoted(rest, first)),
        '[' => (Kind::Quoted, rest.find(']').map_or(rest.len(), |end| end + 1)),
        'x' | 'X' if rest[1..].starts_with('\'') => (Kind::Literal, 1 + quoted(&rest[1..], '\'')),
        '?' => (Kind::Parameter, 1 + rest[1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - 1)),
        ':' | '@' | '$' | '#' if word(&rest[1..]) > 0 => (Kind::Parameter, 1 + word(&rest[1..])),
        _ if first.is_ascii_digit() => (Kind::Number, word(rest)),
        _ if in_word(first) => (Kind::Word, word(rest)),
        _ => (Kind::Mark, first.len_utf8()),
    })
}

/// Returns the length of a token that begins with `quote`; a doubled quote does not end it.
fn quoted(rest: &str, quote: char) -> usize {
    let mut at = 1;
    while let Some(found) = rest[at..].find(quote) {
        at += found + 1;
        if !rest[at..].starts_with(quote) {
            return at;
        }
        at += 1;
    }
    rest.len()
}

/// Returns a name in quotes, as SQL writes it.
pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_where_they_are() {
        let sql =
            "SELECT 'it''s', \"a\"\"b\", [c d], x'00', 1.5e3 /* ; */ -- ;\n FROM t WHERE a=?1 AND b=:b;";
        let found: Vec<_> = tokens(sql).map(|token| (token.kind, token.text)).collect();
        assert_eq!(found[1], (Kind::Literal, "'it''s'"));
        assert_eq!(found[3], (Kind::Quoted, "\"a\"\"b\""));
        assert_eq!(found[5], (Kind::Quoted, "[c d]"));
        assert_eq!(found[7], (Kind::Literal, "x'00'"));
        assert!(found.contains(&(Kind::Parameter, "?1")) && found.contains(&(Kind::Parameter, ":b")));
        let names: Vec<_> =
            tokens(sql).filter(|token| token.kind == Kind::Quoted).map(|t| t.name()).collect();
        assert_eq!(names, [Some("a\"b".to_owned()), Some("c d".to_owned())]);
        for token in tokens(sql) {
            assert_eq!(&sql[token.start..token.end()], token.text);
        }
    }

    #[test]
    fn what_is_not_closed_extends_to_the_end() {
        for unclosed in ["'", "\"", "[", "/*", "--", "x'", "?", ":", "\u{1F333}", "'a''"] {
            tokens(unclosed).for_each(|token| drop(token.name()));
        }
    }
}
