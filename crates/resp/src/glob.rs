//! Patterns as Redis has them: `*`, `?`, `[abc]`, `[^a-c]`, and `\` before a character that stands for itself.

/// Returns whether `text` matches `pattern`. The time is at most proportional to the product of their lengths.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on if what follows the last star does not match here.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() || p < pattern.len() {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            star = Some((p, t));
            continue;
        }
        if t < text.len()
            && let Some(length) = one(&pattern[p..], text[t])
        {
            p += length;
            t += 1;
            continue;
        }
        match star {
            Some((after, at)) if at < text.len() => {
                (p, t) = (after, at + 1);
                star = Some((after, at + 1));
            }
            _ => return false,
        }
    }
    true
}

/// Returns how long the first element of the pattern is, if `byte` matches it.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', rest @ ..] => class(rest, byte).map(|length| length + 1),
        [own, ..] => (*own == byte).then_some(1),
    }
}

/// Returns the length of a class after its bracket, if `byte` is in it. A class that does not end ends with the
/// pattern.
fn class(pattern: &[u8], byte: u8) -> Option<usize> {
    let is_negated = pattern.first() == Some(&b'^');
    let mut at = usize::from(is_negated);
    let mut is_in = false;
    loop {
        match pattern[at..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', escaped, ..] => {
                is_in |= escaped == byte;
                at += 2;
            }
            [low, b'-', high, ..] if high != b']' => {
                is_in |= (low.min(high)..=low.max(high)).contains(&byte);
                at += 3;
            }
            [own, ..] => {
                is_in |= own == byte;
                at += 1;
            }
        }
    }
    (is_in != is_negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("*foo", "foofoo", true),
            ("[", "[", false),
            ("[a", "a", true),
            ("a\\", "a\\", true),
            ("user:*:name", "user:1:2:name", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_of_stars_ends_soon() {
        let pattern = "*a".repeat(1000);
        assert!(!matches(pattern.as_bytes(), "a".repeat(999).as_bytes()));
        assert!(matches(pattern.as_bytes(), "a".repeat(1000).as_bytes()));
    }
}
