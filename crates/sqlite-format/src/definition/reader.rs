//! The tokens of a definition, one after the other.

use super::{Understood, not_understood};
use crate::token::{Kind, Token, tokens};

/// Words that begin a constraint of a column, and so end its type.
const CONSTRAINTS: [&str; 11] = [
    "CONSTRAINT",
    "DEFAULT",
    "NOT",
    "NULL",
    "PRIMARY",
    "UNIQUE",
    "CHECK",
    "REFERENCES",
    "COLLATE",
    "DEFERRABLE",
    "AS",
];

/// A part of a key, by the name of its column.
pub(super) struct Named {
    pub name: String,
    /// Its collation, if the key gives one.
    pub collation: Option<String>,
    pub descending: bool,
}

/// The tokens that are still to be read.
pub(super) struct Reader<'s> {
    sql: &'s str,
    tokens: Vec<Token<'s>>,
    at: usize,
}

impl<'s> Reader<'s> {
    pub fn new(sql: &'s str) -> Self {
        Reader { sql, tokens: tokens(sql).collect(), at: 0 }
    }

    pub fn peek(&self) -> Option<Token<'s>> {
        self.tokens.get(self.at).copied()
    }

    pub fn next(&mut self) -> Option<Token<'s>> {
        let token = self.peek()?;
        self.at += 1;
        Some(token)
    }

    /// Goes on if the next token is this keyword.
    pub fn take(&mut self, keyword: &str) -> bool {
        let is_it = self.peek().is_some_and(|token| token.is(keyword));
        self.at += usize::from(is_it);
        is_it
    }

    pub fn next_is_mark(&self, mark: char) -> bool {
        self.peek().is_some_and(|token| token.is_mark(mark))
    }

    pub fn take_mark(&mut self, mark: char) -> bool {
        let is_it = self.next_is_mark(mark);
        self.at += usize::from(is_it);
        is_it
    }

    pub fn expect(&mut self, keyword: &str) -> Understood<()> {
        if self.take(keyword) { Ok(()) } else { self.unexpected(keyword) }
    }

    pub fn expect_mark(&mut self, mark: char) -> Understood<()> {
        if self.take_mark(mark) { Ok(()) } else { self.unexpected(&mark.to_string()) }
    }

    fn unexpected<T>(&self, wanted: &str) -> Understood<T> {
        let found = self.peek().map_or("its end", |token| token.text);
        not_understood(format!("{found:?} in the place of {wanted:?}"))
    }

    pub fn name(&mut self) -> Understood<String> {
        match self.peek().and_then(|token| token.name()) {
            Some(name) => {
                self.at += 1;
                Ok(name)
            }
            None => self.unexpected("a name"),
        }
    }

    /// Returns whether a constraint of the table comes next. These words cannot be names without quotes.
    pub fn starts_constraint(&self) -> bool {
        let words = ["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "DEFERRABLE", "NOT"];
        self.peek().is_some_and(|token| words.iter().any(|word| token.is(word)))
    }

    /// Reads a declared type, which ends where a constraint begins.
    pub fn declared_type(&mut self) -> Understood<String> {
        let start = self.at;
        while let Some(token) = self.peek() {
            let is_generated =
                token.is("GENERATED") && self.tokens.get(self.at + 1).is_some_and(|next| next.is("ALWAYS"));
            if is_generated || CONSTRAINTS.iter().any(|word| token.is(word)) {
                break;
            }
            match token.kind {
                Kind::Word | Kind::Quoted | Kind::Literal => self.at += 1,
                _ => break,
            }
        }
        if self.at > start && self.next_is_mark('(') {
            self.skip_group()?;
        }
        let Some(last) = self.at.checked_sub(1).filter(|_| self.at > start) else { return Ok(String::new()) };
        // Of a type that begins with a quote, SQLite keeps what stands in quotes.
        let text = &self.sql[self.tokens[start].start..self.tokens[last].end()];
        match self.tokens[start].kind {
            Kind::Word => Ok(text.to_owned()),
            _ => self.tokens[start].name().map_or_else(|| not_understood(format!("the type {text}")), Ok),
        }
    }

    /// Passes over what stands in brackets.
    pub fn skip_group(&mut self) -> Understood<()> {
        self.expect_mark('(')?;
        let mut depth = 1;
        while depth > 0 {
            match self.next() {
                Some(token) if token.is_mark('(') => depth += 1,
                Some(token) if token.is_mark(')') => depth -= 1,
                Some(_) => {}
                None => return not_understood("a bracket that is not closed"),
            }
        }
        Ok(())
    }

    /// Reads a default: an expression in brackets, or a single value with its sign.
    pub fn default(&mut self) -> Understood<String> {
        let start = self.at;
        if self.next_is_mark('(') {
            self.skip_group()?;
        } else {
            let is_signed = self.take_mark('-') || self.take_mark('+');
            let Some(mut last) = self.next() else { return self.unexpected("a default") };
            if !matches!(last.kind, Kind::Word | Kind::Quoted | Kind::Literal | Kind::Number)
                && !last.is_mark('.')
                || is_signed && last.kind == Kind::Quoted
            {
                return not_understood(format!("the default {:?}", last.text));
            }
            // A number such as 1.5e-3 is several tokens without spaces between them.
            let is_number = last.kind == Kind::Number || last.is_mark('.');
            while let Some(token) = self.peek().filter(|token| is_number && token.start == last.end()) {
                let continues = matches!(token.kind, Kind::Number | Kind::Word)
                    || ['.', '-', '+'].iter().any(|mark| token.is_mark(*mark));
                if !continues {
                    break;
                }
                (self.at, last) = (self.at + 1, token);
            }
        }
        Ok(self.sql[self.tokens[start].start..self.tokens[self.at - 1].end()].to_owned())
    }

    /// Reads the columns of a `PRIMARY KEY` or `UNIQUE` clause, and whether they are followed by `AUTOINCREMENT`.
    pub fn key_parts(&mut self) -> Understood<(Vec<Named>, bool)> {
        self.expect_mark('(')?;
        let mut parts = Vec::new();
        loop {
            let name = self.name()?;
            let collation = if self.take("COLLATE") { Some(self.name()?) } else { None };
            let descending = !self.take("ASC") && self.take("DESC");
            parts.push(Named { name, collation, descending });
            if !self.take_mark(',') {
                break;
            }
        }
        let is_autoincrement = self.take("AUTOINCREMENT");
        self.expect_mark(')')?;
        Ok((parts, is_autoincrement))
    }

    /// Passes over an `ON CONFLICT`, and returns whether there is one.
    pub fn skip_on_conflict(&mut self) -> Understood<bool> {
        let is_there = self.take("ON");
        if is_there {
            self.expect("CONFLICT")?;
            self.name()?;
        }
        Ok(is_there)
    }

    /// Passes over what follows `REFERENCES`, and returns the name of the other table.
    pub fn skip_reference(&mut self) -> Understood<String> {
        let name = self.name()?;
        if self.next_is_mark('(') {
            self.skip_group()?;
        }
        loop {
            if self.take("ON") {
                self.name()?;
                if self.take("SET") || self.take("NO") {
                    self.next();
                } else {
                    self.name()?;
                }
            } else if self.take("MATCH") {
                self.name()?;
            } else {
                return Ok(name);
            }
        }
    }

    /// Passes over what follows `DEFERRABLE`.
    pub fn skip_initially(&mut self) -> Understood<()> {
        if self.take("INITIALLY") {
            self.name()?;
        }
        Ok(())
    }
}
