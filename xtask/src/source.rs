//! A Rust file, line by line, split into code and comments.
//!
//! The scanner knows just enough of the language to never take a word in a string or a comment for code: line
//! comments, nested block comments, strings with escapes, raw and byte strings, and character literals as against
//! lifetimes. In `code` everything else stands in its own column, so that a column is a column of the file.

/// One line of a file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Line {
    /// The line as it stands.
    pub raw: String,
    /// The line with comments and the insides of literals blanked.
    pub code: String,
    /// The text of the comments on the line, markers included.
    pub comment: String,
    /// Whether the line belongs to an item that exists in tests only.
    pub test: bool,
}

/// A scanned file.
#[derive(Debug)]
pub struct Source {
    /// The path from the workspace's root, with `/`.
    pub path: String,
    /// Its lines, the first at index 0.
    pub lines: Vec<Line>,
}

/// Where the scanner stands between two characters.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Code,
    LineComment,
    /// How many block comments are open.
    BlockComment(u32),
    Text,
    /// How many `#` close the raw string.
    RawText(usize),
}

impl Source {
    /// Scans `text`, the content of the file at `path`.
    pub fn new(path: &str, text: &str) -> Self {
        let mut scanner = Scanner { state: State::Code, lines: Vec::new() };
        for line in text.lines() {
            scanner.line(line);
        }
        let mut source = Source { path: path.to_string(), lines: scanner.lines };
        source.mark_tests();
        source
    }

    /// Whether the whole file is test code: it lies under `tests/`, `benches/` or `examples/`, or is `tests.rs`.
    pub fn is_test_file(&self) -> bool {
        let mut parts = self.path.split('/');
        parts.any(|part| matches!(part, "tests" | "benches" | "examples" | "tests.rs"))
    }

    /// The lines of the end of the item or block whose head begins at `line`, column `column`: the line of the
    /// brace that closes its first brace, or of the `;` that ends it without one.
    pub fn end_of_item(&self, line: usize, column: usize) -> usize {
        let mut braces = 0i32;
        let mut others = 0i32;
        for (index, text) in self.lines.iter().enumerate().skip(line) {
            let skip = if index == line { column } else { 0 };
            for c in text.code.chars().skip(skip) {
                match c {
                    '{' => braces += 1,
                    '}' => braces -= 1,
                    '(' | '[' => others += 1,
                    ')' | ']' => others -= 1,
                    ';' if braces == 0 && others == 0 => return index,
                    _ => continue,
                }
                if c == '}' && braces == 0 {
                    return index;
                }
            }
        }
        self.lines.len().saturating_sub(1)
    }

    fn mark_tests(&mut self) {
        let mut index = 0;
        while index < self.lines.len() {
            let code = &self.lines[index].code;
            match code.find("#[").filter(|_| is_test_attribute(code)) {
                Some(column) => {
                    let after = column + code[column..].find(']').map_or(0, |end| end + 1);
                    let end = self.end_of_item(index, code[..after].chars().count());
                    self.lines[index..=end].iter_mut().for_each(|line| line.test = true);
                    index = end + 1;
                }
                None => index += 1,
            }
        }
    }
}

/// `#[test]`, `#[cfg(test)]`, `#[cfg(all(test, ...))]`; not `#[cfg(not(test))]`.
fn is_test_attribute(code: &str) -> bool {
    let code = code.replace(' ', "");
    code.contains("#[test]")
        || (code.contains("#[cfg(") && has_word(&code, "test") && !code.contains("not(test"))
}

/// Whether `word` stands in `text` as a whole word.
pub fn has_word(text: &str, word: &str) -> bool {
    find_word(text, word, 0).is_some()
}

/// The byte offset of the first whole `word` in `text` at or after `from`.
pub fn find_word(text: &str, word: &str, from: usize) -> Option<usize> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut at = from;
    while let Some(found) = text.get(at..).and_then(|rest| rest.find(word)) {
        let start = at + found;
        let end = start + word.len();
        let before = text[..start].chars().next_back().is_some_and(is_word);
        let after = text[end..].chars().next().is_some_and(is_word);
        if !before && !after {
            return Some(start);
        }
        at = end;
    }
    None
}

struct Scanner {
    state: State,
    lines: Vec<Line>,
}

impl Scanner {
    fn line(&mut self, raw: &str) {
        let chars: Vec<char> = raw.chars().collect();
        let mut line = Line { raw: raw.to_string(), ..Line::default() };
        if self.state == State::LineComment {
            self.state = State::Code;
        }
        let mut at = 0;
        while at < chars.len() {
            let taken = match self.state {
                State::Code => self.code(&chars, at, &mut line),
                State::LineComment => {
                    line.comment.push(chars[at]);
                    1
                }
                State::BlockComment(depth) => self.block_comment(&chars[at..], depth, &mut line),
                State::Text => self.text(&chars[at..], &mut line),
                State::RawText(hashes) => self.raw_text(&chars[at..], hashes, &mut line),
            };
            at += taken;
            while line.code.chars().count() < at.min(chars.len()) {
                line.code.push(' ');
            }
        }
        self.lines.push(line);
    }

    /// One step in code; answers how many characters it took.
    fn code(&mut self, chars: &[char], at: usize, line: &mut Line) -> usize {
        let rest = &chars[at..];
        let next = rest.get(1).copied();
        match rest[0] {
            '/' if next == Some('/') => {
                self.state = State::LineComment;
                0
            }
            '/' if next == Some('*') => {
                self.state = State::BlockComment(1);
                line.comment.push_str("/*");
                2
            }
            '"' => {
                line.code.push('"');
                self.state = State::Text;
                1
            }
            'r' if !follows_word(chars, at) && raw_hashes(&rest[1..]).is_some() => {
                let hashes = raw_hashes(&rest[1..]).expect("just seen");
                self.state = State::RawText(hashes);
                hashes + 2
            }
            '\'' => char_literal(rest).unwrap_or_else(|| {
                line.code.push('\'');
                1
            }),
            c => {
                line.code.push(c);
                1
            }
        }
    }

    fn block_comment(&mut self, rest: &[char], depth: u32, line: &mut Line) -> usize {
        let two = (rest[0], rest.get(1).copied());
        let (depth, taken) = match two {
            ('*', Some('/')) => (depth - 1, 2),
            ('/', Some('*')) => (depth + 1, 2),
            _ => (depth, 1),
        };
        line.comment.extend(&rest[..taken]);
        self.state = if depth == 0 { State::Code } else { State::BlockComment(depth) };
        taken
    }

    fn text(&mut self, rest: &[char], line: &mut Line) -> usize {
        match rest[0] {
            '\\' => 2,
            '"' => {
                line.code.push('"');
                self.state = State::Code;
                1
            }
            _ => 1,
        }
    }

    fn raw_text(&mut self, rest: &[char], hashes: usize, line: &mut Line) -> usize {
        let closes = rest[0] == '"' && rest.len() > hashes && rest[1..=hashes].iter().all(|&c| c == '#');
        if closes {
            line.code.push('"');
            self.state = State::Code;
            return hashes + 1;
        }
        1
    }
}

/// Whether the character before `at` continues a word, so that an `r` there begins no raw string. `br"` and `cr"`
/// do begin one.
fn follows_word(chars: &[char], at: usize) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let Some(before) = at.checked_sub(1) else { return false };
    let prefix =
        matches!(chars[before], 'b' | 'c') && !before.checked_sub(1).is_some_and(|i| is_word(chars[i]));
    is_word(chars[before]) && !prefix
}

/// After the `r` of a raw string: how many `#` stand before the quote; `None` if this is no raw string.
fn raw_hashes(rest: &[char]) -> Option<usize> {
    let hashes = rest.iter().take_while(|&&c| c == '#').count();
    (rest.get(hashes) == Some(&'"')).then_some(hashes)
}

/// At a `'`: how many characters a literal takes; `None` where it is a lifetime.
fn char_literal(rest: &[char]) -> Option<usize> {
    match rest.get(1)? {
        // The character after the backslash may itself be a quote.
        '\\' => rest.iter().skip(3).position(|&c| c == '\'').map(|end| end + 4),
        _ => (rest.get(2) == Some(&'\'')).then_some(3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Vec<String> {
        Source::new("x.rs", text).lines.into_iter().map(|line| line.code.trim_end().to_string()).collect()
    }

    #[test]
    fn comments_and_literals_are_not_code() {
        assert_eq!(code("let a = \"dbg!(\"; // dbg!"), ["let a = \"     \";"]);
        assert_eq!(code("a /* b /* c */ d */ e"), ["a                   e"]);
        assert_eq!(code("x = r#\"a \" unsafe\"#; y"), ["x =              \" ; y"]);
        assert_eq!(code("x = br\"\\\"; y"), ["x = b   \"; y"]);
        assert_eq!(code("f('\"', '\\'', '{'); g"), ["f(   ,     ,    ); g"]);
        assert_eq!(code("fn f<'a>(x: &'a str)"), ["fn f<'a>(x: &'a str)"]);
        assert_eq!(code("\"two\n  { lines\" + z"), ["\"", "         \" + z"]);
    }

    #[test]
    fn comments_are_kept() {
        let source = Source::new("x.rs", "let a = 1; // SAFETY: fine\n/* one\ntwo */ b");
        let comments: Vec<_> = source.lines.iter().map(|line| line.comment.as_str()).collect();
        assert_eq!(comments, ["// SAFETY: fine", "/* one", "two */"]);
    }

    #[test]
    fn test_items_are_marked_to_their_end() {
        let text =
            "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nfn c() {}\n#[cfg(not(test))]\nfn d() {}";
        let marks: Vec<_> = Source::new("x.rs", text).lines.iter().map(|line| line.test).collect();
        assert_eq!(marks, [false, true, true, true, true, false, false, false]);
        let text = "#[cfg(all(test, not(loom)))]\nmod tests;\nfn c() {}\n#[test]\nfn e() {\n}";
        let marks: Vec<_> = Source::new("x.rs", text).lines.iter().map(|line| line.test).collect();
        assert_eq!(marks, [true, true, false, true, true, true]);
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("an unsafe block", "unsafe"));
        assert!(!has_word("unsafe_op in not_unsafe", "unsafe"));
    }
}
