//! Text forms of bytes, sizes and times.

use std::fmt::Write;
use std::time::Duration;

/// Returns `bytes` as hexadecimal digits, two for each byte.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the bytes of hexadecimal digits in upper or lower case.
pub fn from_hex(text: &str) -> Result<Vec<u8>, String> {
    let digit = |c: u8| char::from(c).to_digit(16).map(|digit| digit as u8);
    let pairs = text.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    });
    let message = || {
        let text = shorten(text.to_owned(), 80);
        format!("{text:?} is not hexadecimal: write two digits of 0-9 and a-f for each byte")
    };
    bytes.collect::<Option<_>>().ok_or_else(message)
}

/// Returns bytes in one line of a table: text with control characters and backslashes escaped, other bytes as `0x` and
/// hex.
pub fn show(bytes: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(bytes) else { return format!("0x{}", to_hex(bytes)) };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || c == '\\' {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Returns a key for a message as [`show`] does. A long key is shown by its beginning and its length.
pub fn name(key: &[u8]) -> String {
    /// The number of characters that are shown.
    const MOST: usize = 80;
    let beginning = match key.get(..MOST * 4).map(std::str::from_utf8) {
        None => key,
        Some(Ok(text)) => text.as_bytes(),
        Some(Err(error)) if error.error_len().is_none() => &key[..error.valid_up_to()],
        Some(Err(_)) => &key[..MOST],
    };
    match shorten(show(beginning), MOST) {
        shown if beginning.len() == key.len() && !shown.ends_with('…') => shown,
        shown => format!("{} ({} bytes)", shorten(shown + "…", MOST), key.len()),
    }
}

/// Returns at most `columns` characters of `text`, the last of them an ellipsis if some are left out.
pub fn shorten(text: String, columns: usize) -> String {
    match text.char_indices().nth(columns) {
        None => text,
        Some(_) => text.chars().take(columns - 1).chain(['…']).collect(),
    }
}

/// Parses a size: a number of bytes, or of `K`, `M` or `G` (powers of 1024; `KiB` is the same).
pub fn parse_size(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err("write a size as a number of bytes, or with K, M or G, as in 64M".to_owned()),
    };
    let count: usize = digits.parse().map_err(|_| "a size must begin with a whole number".to_owned())?;
    count.checked_mul(1 << shift).ok_or_else(|| "the size is too large".to_owned())
}

/// Parses a time: a whole number of `ms`, `s`, `m`, `h` or `d`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_ms = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err("write a time as a number with ms, s, m, h or d, as in 90s".to_owned()),
    };
    let count: u64 = digits.parse().map_err(|_| "a time must begin with a whole number".to_owned())?;
    count.checked_mul(unit_ms).map(Duration::from_millis).ok_or_else(|| "the time is too long".to_owned())
}

/// The shortest interval at which a process looks for something: with a shorter one, it would do little else.
const LEAST_INTERVAL: Duration = Duration::from_millis(10);

/// Parses the time between two looks for something.
pub fn parse_interval(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        every if every < LEAST_INTERVAL => Err("the shortest interval is 10ms".to_owned()),
        every => Ok(every),
    }
}

/// Returns a time in the same form, in the largest unit of which it is a whole number.
pub fn show_duration(duration: Duration) -> String {
    let ms = duration.as_millis();
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];
    let (unit_ms, unit) =
        units.into_iter().find(|(unit_ms, _)| ms.is_multiple_of(*unit_ms)).unwrap_or((1, "ms"));
    format!("{}{unit}", ms / unit_ms)
}

/// Returns a number as `12,345,678`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let (head, tail) = digits.split_at(first);
    let groups = tail.as_bytes().chunks(3).map(|group| String::from_utf8_lossy(group));
    let head = (!head.is_empty()).then(|| head.into());
    head.into_iter().chain(groups).collect::<Vec<_>>().join(",")
}

/// Returns a size as `1.5 MiB`.
pub fn size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", units[unit])
}

/// Returns a time as `1.25 ms`, `830 us` or `2.40 s`.
pub fn time(duration: Duration) -> String {
    let micros = duration.as_micros();
    match micros {
        0..1_000 => format!("{micros} us"),
        1_000..1_000_000 => format!("{:.2} ms", duration.as_secs_f64() * 1e3),
        _ => format!("{:.2} s", duration.as_secs_f64()),
    }
}

/// Returns a number of seconds that somebody else has measured, as `1.25 ms`, `2.40 s`, `14 minutes`, `30 hours` or
/// `9 days`.
pub fn seconds(seconds: f64) -> String {
    let duration = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
    match duration.as_secs() {
        0..120 => time(duration),
        seconds @ 120..7_200 => format!("{} minutes", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} hours", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// Returns an amount per second.
pub fn rate(amount: u64, duration: Duration) -> u64 {
    (amount as f64 / duration.as_secs_f64().max(1e-9)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_reads_what_it_wrote_and_refuses_the_rest() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(&to_hex(&all)), Ok(all));
        assert_eq!(from_hex("0aFF"), Ok(vec![0x0a, 0xff]));
        for wrong in ["0", "0g", "+1", "é"] {
            assert!(from_hex(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_read_with_units() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("64K"), Ok(64 << 10));
        assert_eq!(parse_size("3MiB"), Ok(3 << 20));
        assert_eq!(parse_size("1g"), Ok(1 << 30));
        for wrong in ["", "M", "1X", "-1", "99999999999999999999", "17179869184G"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_read_as_they_are_shown() {
        for text in ["1ms", "90s", "2m", "36h", "30d", "1500ms"] {
            assert_eq!(show_duration(parse_duration(text).unwrap()), text);
        }
        assert_eq!(show_duration(Duration::from_secs(7200)), "2h");
        for wrong in ["", "5", "s", "-1s", "1.5h", "1w", "99999999999999999999s", "999999999999999d"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn seconds_of_others_are_shown_whatever_they_are() {
        for (given, shown) in [
            (0.5, "500.00 ms"),
            (119.0, "119.00 s"),
            (120.0, "2 minutes"),
            (7_200.0, "2 hours"),
            (172_800.0, "2 days"),
            (-1.0, "0 us"),
            (f64::NAN, "0 us"),
        ] {
            assert_eq!(seconds(given), shown);
        }
        assert!(seconds(f64::INFINITY).ends_with(" days"));
    }

    #[test]
    fn shown_text_is_one_line_and_unambiguous() {
        assert_eq!(show("grün".as_bytes()), "grün");
        assert_eq!(show(b"a\nb"), "a\\nb");
        assert_eq!(show(b"a\\nb"), "a\\\\nb");
        assert_eq!(show(&[0xff, 0]), "0xff00");
        assert_eq!(name("grün".as_bytes()), "grün");
        assert_eq!(name(&[0xff, 0]), "0xff00");
        for long in [vec![b'k'; 5000], vec![0xff; 5000], "€".repeat(5000).into_bytes(), vec![b'\n'; 81]] {
            let shown = name(&long);
            assert!(
                shown.chars().count() < 100 && shown.ends_with(&format!("… ({} bytes)", long.len())),
                "{shown}"
            );
        }
        assert_eq!(shorten("abcdef".to_owned(), 4), "abc…");
        assert_eq!(shorten("abcd".to_owned(), 4), "abcd");
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(
            [count(0), count(999), count(1_000), count(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!([size(5), size(1536), size(3 << 30)], ["5 B", "1.5 KiB", "3.0 GiB"]);
    }
}
