//! Numbers as text, as Redis reads and writes them, and as keys whose order is that of the numbers.

/// Returns the integer that `text` holds: digits without spaces, leading zeros or a plus.
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_canonical = match digits {
        [] => false,
        [b'0'] => text.len() == 1,
        [first, ..] => *first != b'0',
    };
    if !is_canonical || digits.len() > 19 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Returns the number that `text` holds, which can be infinite; `None` for what is no number.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    if text.is_empty() || text.trim() != text {
        return None;
    }
    let number: f64 = text.parse().ok()?;
    (!number.is_nan()).then_some(number)
}

/// Returns the shortest text that reads as the same number.
pub fn show_f64(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let magnitude = number.abs();
    if number == number.trunc() && magnitude < 1e17 {
        // `-0` is shown as Redis shows it.
        return if number == 0.0 && number.is_sign_negative() {
            "-0".to_owned()
        } else {
            format!("{}", number as i64)
        };
    }
    if (1e-5..1e17).contains(&magnitude) {
        return format!("{number}");
    }
    // Exponents as C writes them: a sign and at least two digits.
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').expect("it is written with an exponent");
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
    format!("{digits}e{sign}{exponent:0>2}")
}

/// Returns eight bytes whose order is the order of the scores. Both zeros are equal.
pub fn score_key(score: f64) -> [u8; 8] {
    let bits = (score + 0.0).to_bits();
    let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    ordered.to_be_bytes()
}

/// Returns the score of which `key` is the [`score_key`].
pub fn key_score(key: [u8; 8]) -> f64 {
    let ordered = u64::from_be_bytes(key);
    f64::from_bits(if ordered >> 63 == 1 { ordered & !(1 << 63) } else { !ordered })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_canonical() {
        for (text, number) in [("0", 0), ("-1", -1), ("9223372036854775807", i64::MAX)] {
            assert_eq!(parse_i64(text.as_bytes()), Some(number));
        }
        assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
        for text in ["", "-", "-0", "01", "+1", " 1", "1 ", "1.0", "9223372036854775808", "x"] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn scores_are_ordered_as_their_keys() {
        let scores =
            [f64::NEG_INFINITY, f64::MIN, -1.5, -1.0, -f64::MIN_POSITIVE, 0.0, 5e-324, 1.0, 2.0, f64::MAX];
        for pair in scores.windows(2) {
            assert!(score_key(pair[0]) < score_key(pair[1]), "{pair:?}");
        }
        for score in scores {
            assert_eq!(key_score(score_key(score)), score);
        }
        assert_eq!(score_key(-0.0), score_key(0.0));
    }

    #[test]
    fn numbers_are_shown_as_redis_shows_them() {
        for (number, text) in [
            (3.0, "3"),
            (10.6, "10.6"),
            (-0.5, "-0.5"),
            (1e20, "1e+20"),
            (1.5e-7, "1.5e-07"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(show_f64(number), text);
            assert_eq!(parse_f64(text.as_bytes()), Some(number));
        }
        assert_eq!(parse_f64(b"nan"), None);
        assert_eq!(parse_f64(b" 1"), None);
    }
}
