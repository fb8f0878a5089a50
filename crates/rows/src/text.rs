//! Values as text and as JSON, for import, export and display. A value that one function writes is read back by its
//! counterpart.
//!
//! | type | text | JSON |
//! |---|---|---|
//! | null | `\N`; an empty text too, except in columns of type text or bytes | `null` |
//! | bool, int, uint | `true`, `-7` | `true`, `-7` |
//! | float | `0.1`, `NaN`, `inf` | a number; `"NaN"`, `"inf"` |
//! | text | as it is; `\N` after any number of backslashes gets one more backslash | a string |
//! | timestamp | `2024-02-29T12:00:00.5Z`, also with an offset; or microseconds | a string, or a number |
//! | uuid | `00112233-4455-6677-8899-aabbccddeeff`, hyphens optional | a string |
//! | bytes | hexadecimal | a string, hexadecimal |
//! | json | as it is | as it is, except that a document that is only `null` is read back as null |
//! | any | number or bool if it reads as one, else text | bool, number, string |
//! | | `"12"`, as in JSON, for a text that reads as one | |
//! | | `bytes'00ff'`, in the same way `timestamp` and `uuid` | `{"bytes": "00ff"}`, in the same way |

use crate::value::{ColumnType, Value};
use serde_json::{Value as Json, json};

/// The text of a null.
const NULL: &str = "\\N";

impl ColumnType {
    /// Parses a value of this type from text.
    ///
    /// ```
    /// use pando_rows::{ColumnType, Value};
    /// assert_eq!(ColumnType::Int.parse("-7"), Ok(Value::Int(-7)));
    /// assert_eq!(ColumnType::Timestamp.parse("1970-01-01T00:00:01Z"), Ok(Value::Timestamp(1_000_000)));
    /// assert_eq!(ColumnType::Int.parse("seven").unwrap_err(), "\"seven\" is no int");
    /// ```
    ///
    /// # Errors
    /// The problem in the text, as words that can follow its place.
    pub fn parse(self, text: &str) -> Result<Value<'static>, String> {
        if text == NULL || (text.is_empty() && !matches!(self, ColumnType::Text | ColumnType::Bytes)) {
            return Ok(Value::Null);
        }
        let value = match self {
            ColumnType::Any => return parse_any(text),
            ColumnType::Bool => match text {
                "true" | "1" => Some(Value::Bool(true)),
                "false" | "0" => Some(Value::Bool(false)),
                _ => None,
            },
            ColumnType::Int => text.parse().ok().map(Value::Int),
            ColumnType::UInt => text.parse().ok().map(Value::UInt),
            ColumnType::Float => text.parse().ok().map(Value::Float),
            ColumnType::Timestamp => parse_timestamp(text).map(Value::Timestamp),
            ColumnType::Text => Some(Value::Text(unescaped(text).to_owned().into())),
            ColumnType::Uuid => parse_uuid(text).map(Value::Uuid),
            ColumnType::Bytes => parse_hex(text).map(Value::from),
            ColumnType::Json => {
                let wrong = |error| format!("not JSON: {error}");
                crate::json::check_json(text).map_err(wrong)?;
                Some(Value::Json(text.to_owned().into()))
            }
        };
        value.ok_or_else(|| self.mismatch(&Value::from(text)))
    }

    /// Converts a value of this type from JSON.
    ///
    /// # Errors
    /// As for [`ColumnType::parse`].
    pub fn parse_json(self, json: &Json) -> Result<Value<'static>, String> {
        let mismatch = || format!("{json} is no {self}");
        match (self, json) {
            // This comes before documents: a field that is null means that there is no document.
            (_, Json::Null) => Ok(Value::Null),
            (ColumnType::Json, json) => Ok(Value::json(json)),
            (ColumnType::Any | ColumnType::Text, Json::String(text)) => Ok(Value::from(text.clone())),
            (ColumnType::Bool | ColumnType::Any, Json::Bool(value)) => Ok(Value::Bool(*value)),
            (ColumnType::Any, Json::Number(number)) => {
                let integer = number.as_i64().map(Value::Int).or_else(|| number.as_u64().map(Value::UInt));
                integer.or_else(|| number.as_f64().map(Value::Float)).ok_or_else(mismatch)
            }
            (
                ColumnType::Int | ColumnType::UInt | ColumnType::Float | ColumnType::Timestamp,
                Json::Number(n),
            ) => self.parse(&n.to_string()).map_err(|_| mismatch()),
            (ColumnType::Any, Json::Object(fields)) if fields.len() == 1 => {
                let (name, value) = fields.iter().next().expect("there is one");
                let kinds = [ColumnType::Bytes, ColumnType::Timestamp, ColumnType::Uuid, ColumnType::Float];
                let kind = kinds.into_iter().find(|kind| kind.name() == name).ok_or_else(mismatch)?;
                kind.parse_json(value)
            }
            (
                ColumnType::Float | ColumnType::Timestamp | ColumnType::Uuid | ColumnType::Bytes,
                Json::String(text),
            ) => match self.parse(text)? {
                Value::Null => Err(mismatch()),
                value => Ok(value),
            },
            _ => Err(mismatch()),
        }
    }

    fn mismatch(self, value: &Value<'_>) -> String {
        let hint = match self {
            ColumnType::Timestamp => "; write a timestamp like 2024-02-29T12:00:00Z",
            ColumnType::Bytes => "; write bytes as hexadecimal digits",
            ColumnType::Bool => "; write true or false",
            _ => "",
        };
        format!("{value} is no {self}{hint}")
    }
}

impl Value<'_> {
    /// Returns the value as text that its column's type can parse.
    pub fn to_text(&self, column: ColumnType) -> String {
        match (column, self) {
            (ColumnType::Any, Value::Text(text))
                if text.is_empty() || is_escaped(text) || parse_any(text).as_ref() != Ok(self) =>
            {
                Json::from(text.as_ref()).to_string()
            }
            (ColumnType::Any, Value::Timestamp(_) | Value::Uuid(_) | Value::Bytes(_)) => {
                let own = self.column_type().expect("not null");
                format!("{own}'{}'", self.to_text(own))
            }
            (_, Value::Null) => NULL.to_owned(),
            (_, Value::Bool(value)) => value.to_string(),
            (_, Value::Int(value)) => value.to_string(),
            (_, Value::UInt(value)) => value.to_string(),
            (_, Value::Float(value)) => format!("{value:?}"),
            (_, Value::Timestamp(micros)) => timestamp(*micros),
            (_, Value::Text(text)) if is_escaped(text) => format!("\\{text}"),
            (_, Value::Text(text) | Value::Json(text)) => text.to_string(),
            (_, Value::Uuid(bytes)) => uuid(bytes),
            (_, Value::Bytes(bytes)) => hex(bytes),
        }
    }

    /// Returns the value as JSON that its column's type can convert back.
    pub fn to_json(&self, column: ColumnType) -> Json {
        match (column, self) {
            (ColumnType::Any, Value::Timestamp(_) | Value::Uuid(_) | Value::Bytes(_)) => {
                let own = self.column_type().expect("not null");
                json!({ own.name(): self.to_json(own) })
            }
            (ColumnType::Any, Value::Float(value)) if !value.is_finite() => {
                json!({ "float": format!("{value:?}") })
            }
            (_, Value::Null) => Json::Null,
            (_, Value::Bool(value)) => json!(value),
            (_, Value::Int(value)) => json!(value),
            (_, Value::UInt(value)) => json!(value),
            (_, Value::Float(value)) if value.is_finite() => json!(value),
            (_, Value::Text(text)) => json!(text),
            (_, Value::Json(text)) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
            (_, value) => json!(value.to_text(column)),
        }
    }
}

/// Returns whether a text is that of a null after any number of backslashes.
fn is_escaped(text: &str) -> bool {
    text.ends_with(NULL) && text[..text.len() - 1].bytes().all(|byte| byte == b'\\')
}

fn unescaped(text: &str) -> &str {
    if is_escaped(text) { &text[1..] } else { text }
}

fn parse_any(text: &str) -> Result<Value<'static>, String> {
    let prefixed = |kind: ColumnType| text.strip_prefix(kind.name())?.strip_prefix('\'')?.strip_suffix('\'');
    for kind in [ColumnType::Bytes, ColumnType::Timestamp, ColumnType::Uuid] {
        if let Some(inner) = prefixed(kind) {
            return kind.parse(inner);
        }
    }
    if text.starts_with('"')
        && let Ok(text) = serde_json::from_str::<String>(text)
    {
        return Ok(Value::from(text));
    }
    let number = text.parse().map(Value::Int).or_else(|_| text.parse().map(Value::UInt));
    Ok(match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => number
            .ok()
            .or_else(|| text.parse().ok().map(Value::Float))
            .unwrap_or_else(|| Value::from(text.to_owned())),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16);
    let pair = |pair: &[u8]| Some((digit(pair[0])? * 16 + digit(*pair.get(1)?)?) as u8);
    text.as_bytes().chunks(2).map(pair).collect()
}

fn uuid(bytes: &[u8; 16]) -> String {
    let all = hex(bytes);
    [&all[..8], &all[8..12], &all[12..16], &all[16..20], &all[20..]].join("-")
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    parse_hex(&text.replace('-', ""))?.try_into().ok()
}

const DAY_MICROS: i64 = 86_400_000_000;

/// Formats a timestamp as RFC 3339 in UTC, with as many decimals of the second as needed. Years beyond 9999 are
/// formatted as microseconds.
fn timestamp(micros: i64) -> String {
    let (year, month, day) = date_of(micros.div_euclid(DAY_MICROS));
    if !(0..=9999).contains(&year) {
        return micros.to_string();
    }
    let within = micros.rem_euclid(DAY_MICROS);
    let (seconds, fraction) = (within / 1_000_000, within % 1_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = if fraction == 0 { String::new() } else { format!(".{fraction:06}") };
    let fraction = fraction.trim_end_matches('0');
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

fn parse_timestamp(text: &str) -> Option<i64> {
    if let Ok(micros) = text.parse() {
        return Some(micros);
    }
    let (date, time) = text.split_once(['T', 't', ' ']).unwrap_or((text, "00:00:00Z"));
    let mut parts = date.splitn(3, '-').map(|part| digits(part, 2..=4));
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let days = days_to(year, month, day)?;
    let zone = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    let offset_minutes = match &time[zone..] {
        "" | "Z" | "z" => 0,
        offset => {
            let (hours, minutes) = offset[1..].split_once(':')?;
            let (hours, minutes) = (digits(hours, 2..=2)?, digits(minutes, 2..=2)?);
            let minutes = (hours <= 23 && minutes <= 59).then_some(hours * 60 + minutes)?;
            if offset.starts_with('-') { -minutes } else { minutes }
        }
    };
    let (time, fraction) = time[..zone].split_once('.').unwrap_or((&time[..zone], "0"));
    let mut parts = time.splitn(3, ':').map(|part| digits(part, 2..=2));
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = parts.next().unwrap_or(Some(0))?;
    if hour > 23 || minute > 59 || second > 59 || fraction.len() > 6 {
        return None;
    }
    let fraction = digits(fraction, 1..=6)? * 10i64.pow(6 - fraction.len() as u32);
    let minutes = hour * 60 + minute - offset_minutes;
    Some(days * DAY_MICROS + (minutes * 60 + second) * 1_000_000 + fraction)
}

fn digits(text: &str, count: std::ops::RangeInclusive<usize>) -> Option<i64> {
    (count.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())?
}

/// Returns year, month and day of a day since 1970-01-01 in the Gregorian calendar. The algorithm is Howard Hinnant's,
/// "chrono-Compatible Low-Level Date Algorithms": years begin in March, so that the leap day is their last.
fn date_of(day: i64) -> (i64, i64, i64) {
    let shifted = day + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// Returns the inverse of [`date_of`], or `None` if there is no such date.
fn days_to(year: i64, month: i64, day: i64) -> Option<i64> {
    let from_march = year - i64::from(month <= 2);
    let (era, year_of_era) = (from_march.div_euclid(400), from_march.rem_euclid(400));
    let month_from_march = (month + 9) % 12;
    let of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let days = era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year - 719_468;
    (date_of(days) == (year, month, day)).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::env::Random;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (text, micros) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T23:59:59.999999Z", 951_868_799_999_999),
            ("1969-12-31T23:59:59.5Z", -500_000),
            ("0000-01-01T00:00:00Z", -62_167_219_200_000_000),
            ("9999-12-31T00:00:00Z", 253_402_214_400_000_000),
        ] {
            assert_eq!(timestamp(micros), text);
            assert_eq!(parse_timestamp(text), Some(micros));
        }
        assert_eq!(parse_timestamp("2024-06-01 12:30+02:00"), parse_timestamp("2024-06-01T10:30:00Z"));
        assert_eq!(parse_timestamp("2024-06-01"), parse_timestamp("2024-06-01T00:00:00Z"));
        for wrong in [
            "2023-02-29",
            "2024-13-01",
            "2024-00-10",
            "2024-01-01T24:00",
            "x",
            "2024-1-1T",
            "2024-01-01T00:00+2",
            "-",
            "",
        ] {
            assert_eq!(parse_timestamp(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let texts = [
            "",
            "\\N",
            "\\\\N",
            "a",
            "12",
            "-1e3",
            "NaN",
            "true",
            "\"",
            "\"x\"",
            "bytes'00'",
            "uuid''",
            "\\n",
            "ü",
        ];
        let mut random = Random::seeded(3);
        let mut values: Vec<Value<'static>> =
            texts.iter().map(|text| Value::from(text.to_string())).collect();
        for _ in 0..200 {
            let bits = random.next_u64() >> random.below(64);
            values.extend([
                Value::Int(bits as i64),
                Value::UInt(bits),
                Value::Float(f64::from_bits(bits)),
                Value::Float(bits as f64),
                Value::Timestamp(bits as i64),
                Value::Uuid(u128::from(bits).to_be_bytes()),
                Value::from(bits.to_be_bytes()[..random.below(8) as usize].to_vec()),
            ]);
        }
        values.extend([Value::Null, Value::Bool(true), Value::Float(f64::INFINITY), Value::Float(f64::NAN)]);
        for value in &values {
            let own = value.column_type().unwrap_or(ColumnType::Int);
            for column in [own, ColumnType::Any] {
                let (text, json) = (value.to_text(column), value.to_json(column));
                assert_eq!(column.parse(&text).as_ref(), Ok(value), "{text} of {column}");
                let json: Json = serde_json::from_str(&json.to_string()).unwrap();
                assert_eq!(column.parse_json(&json).as_ref(), Ok(value), "{json} of {column}");
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (kind, text) in [
            (ColumnType::Int, "9223372036854775808"),
            (ColumnType::Int, "1.5"),
            (ColumnType::UInt, "-1"),
            (ColumnType::Float, "1,5"),
            (ColumnType::Bool, "yes"),
            (ColumnType::Uuid, "00"),
            (ColumnType::Bytes, "0"),
            (ColumnType::Bytes, "0ü"),
            (ColumnType::Json, "{"),
            (ColumnType::Json, "1e400"),
            (ColumnType::Json, "[{\"a\": -1e400}]"),
            (ColumnType::Json, &"[".repeat(200)),
            (ColumnType::Json, &format!("{}{}", "[".repeat(128), "]".repeat(128))),
        ] {
            kind.parse(text).unwrap_err();
            // Any text is a document.
            assert_eq!(kind.parse_json(&Json::from(text)).is_ok(), kind == ColumnType::Json);
        }
        for (kind, json) in [
            (ColumnType::Int, json!("7")),
            (ColumnType::Text, json!(7)),
            (ColumnType::Int, json!(7.5)),
            (ColumnType::Any, json!([1])),
            (ColumnType::Any, json!({"x": 1})),
        ] {
            kind.parse_json(&json).unwrap_err();
        }
    }
}
