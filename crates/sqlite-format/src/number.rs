//! Texts and floats as numbers, where SQLite converts them: in columns of affinity INTEGER, REAL and NUMERIC
//! (<https://www.sqlite.org/datatype3.html>, section 3.1).

/// Returns the integer that equals a float, within the range in which SQLite converts.
///
/// ```
/// use pando_sqlite_format::number::integral;
/// assert_eq!((integral(7.0), integral(7.5), integral(1e300)), (Some(7), None, None));
/// ```
pub fn integral(number: f64) -> Option<i64> {
    // Rust's conversion saturates, and the two integers at which it does are excluded.
    let integer = number as i64;
    (integer as f64 == number && integer > i64::MIN && integer < i64::MAX).then_some(integer)
}

/// What a text is where SQLite looks for a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// It is none.
    Absent,
    /// An integer. A real is one if it can be.
    Integer(i64),
    /// A real.
    Real(f64),
    /// A number that SQLite may round in another way than Rust does.
    Unsure,
}

/// Returns the number that a whole text is, apart from spaces around it. O(length).
///
/// ```
/// use pando_sqlite_format::number::{Number, number_of};
/// assert_eq!(number_of(b" 2.0 "), Number::Integer(2));
/// assert_eq!(number_of(b"2 apples"), Number::Absent);
/// assert_eq!(number_of(b"0.1234567890123456789"), Number::Unsure);
/// ```
pub fn number_of(text: &[u8]) -> Number {
    if let Some(end) = text.iter().position(|&byte| byte == 0) {
        // SQLite stops at the zero in some places, and reads on in others.
        return if number_of(&text[..end]) == Number::Absent { Number::Absent } else { Number::Unsure };
    }
    let is_space = |byte: &u8| matches!(byte, b' ' | 9..=13);
    let start = text.iter().position(|byte| !is_space(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_space(byte)).map_or(start, |last| last + 1);
    let Ok(text) = str::from_utf8(&text[start..end]) else { return Number::Absent };
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let power = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if !is_digits(whole) || !is_digits(fraction) || whole.len() + fraction.len() == 0 {
        return Number::Absent;
    }
    if !is_digits(power) || power.is_empty() {
        return Number::Absent;
    }
    if unsigned == whole
        && let Ok(integer) = text.parse()
    {
        return Number::Integer(integer);
    }
    // With 15 digits and a small power of ten there is a single rounding, which is the same everywhere.
    let is_exact = whole.len() + fraction.len() <= 15
        && exponent.parse::<i32>().is_ok_and(|power| (i64::from(power) - fraction.len() as i64).abs() <= 22);
    match text.parse::<f64>() {
        Ok(number) if is_exact => integral(number).map_or(Number::Real(number), Number::Integer),
        _ => Number::Unsure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_numbers_where_sqlite_says_so() {
        let (int, real) = (Number::Integer, Number::Real);
        for (text, wanted) in [
            ("5", int(5)),
            (" -07\n", int(-7)),
            ("+5.", int(5)),
            (".5", real(0.5)),
            ("1e3", int(1000)),
            ("-1.5E+2", int(-150)),
            ("2.5e-3", real(0.0025)),
            ("9223372036854775807", int(i64::MAX)),
            ("-9223372036854775808", int(i64::MIN)),
            ("9223372036854775808", Number::Unsure),
            ("0.1234567890123456", Number::Unsure),
            ("1e23", Number::Unsure),
            ("1e99999999999", Number::Unsure),
            ("1.5e-2147483648", Number::Unsure),
            ("1e-2147483648", Number::Unsure),
            ("1.5e2147483647", Number::Unsure),
            ("5\0", Number::Unsure),
            ("5\0x", Number::Unsure),
            ("\0five", Number::Absent),
            ("x\0five", Number::Absent),
            ("", Number::Absent),
            (".", Number::Absent),
            ("-", Number::Absent),
            ("1e", Number::Absent),
            ("1e+", Number::Absent),
            ("0x10", Number::Absent),
            ("5 5", Number::Absent),
            ("inf", Number::Absent),
            ("nan", Number::Absent),
            ("\u{a0}5", Number::Absent),
        ] {
            assert_eq!(number_of(text.as_bytes()), wanted, "{text:?}");
        }
    }
}
