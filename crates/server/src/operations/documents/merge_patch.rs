//! JSON merge patches (RFC 7396) of documents.
//!
//! 1. A member sets its column. A member that is missing leaves its column as it is, to the bit.
//! 2. `null` removes a value: the column becomes null, or its default if it cannot be null.
//! 3. In a column of documents, an object is merged into the object that is there, at every depth.

use crate::wire::problem::{Answer, Problem};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use rows::{Column, ColumnType, DynamicRow, DynamicTable, Value};
use serde_json::{Map, Value as Json};

/// The types of a patch. The last one is what programs such as curl send by default.
const TYPES: [&str; 3] =
    ["application/merge-patch+json", "application/json", "application/x-www-form-urlencoded"];

/// Refuses patches of other formats, which would be misunderstood.
///
/// # Errors
/// 415 for another type.
pub fn check_patch_type(headers: &HeaderMap) -> Answer<()> {
    let Some(kind) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let kind = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if TYPES.iter().any(|known| known.eq_ignore_ascii_case(kind)) {
        return Ok(());
    }
    let detail = "a patch is a JSON merge patch: send it as `application/merge-patch+json`";
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported", detail))
}

/// Creates a problem with a column.
pub fn wrong(table: &DynamicTable, column: &str, what: impl std::fmt::Display) -> Problem {
    Problem::bad_request(format!("table {:?}, column {column:?}: {what}", table.name()))
}

/// Creates the problem that a column does not exist.
pub fn unknown(table: &DynamicTable, column: &str) -> Problem {
    let known: Vec<_> = table.schema().columns().map(Column::name).collect();
    wrong(table, column, format!("there is no such column; there are {}", known.join(", ")))
}

/// Applies a patch to a row.
///
/// # Errors
/// 400 for a member that is not a column, or whose value the column cannot have, and if the stored text into which an
/// object must be merged is no document.
pub fn apply(table: &DynamicTable, members: &Map<String, Json>, row: &mut DynamicRow) -> Answer<()> {
    for (name, patch) in members {
        let column = table.schema().columns().zip(row.iter_mut()).find(|(column, _)| column.name() == name);
        let (column, value) = column.ok_or_else(|| unknown(table, name))?;
        *value = match patch {
            Json::Null if column.is_nullable() => Value::Null,
            Json::Null => column
                .value_if_absent()
                .filter(|value| !value.is_null())
                .ok_or_else(|| wrong(table, name, "it cannot be null and has no default"))?,
            Json::Object(_) if column.column_type() == ColumnType::Json => {
                let mut document = match &*value {
                    Value::Json(text) => {
                        serde_json::from_str(text).map_err(|error| unreadable(table, name, &error))?
                    }
                    _ => Json::Null,
                };
                merge(&mut document, patch);
                Value::json(&document)
            }
            other => column.column_type().parse_json(other).map_err(|what| wrong(table, name, what))?,
        };
    }
    Ok(())
}

/// Creates the problem that a stored text is no document, so that nothing can be merged into it.
fn unreadable(table: &DynamicTable, column: &str, error: &serde_json::Error) -> Problem {
    wrong(table, column, format_args!("the stored text cannot be read as JSON: {error}; replace it with PUT"))
}

/// Merges a patch into a document, as RFC 7396 defines it.
fn merge(target: &mut Json, patch: &Json) {
    let Json::Object(members) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Json::Object(Map::new());
    }
    let Json::Object(object) = target else { return };
    for (name, patch) in members {
        if patch.is_null() {
            object.remove(name);
        } else {
            merge(object.entry(name.clone()).or_insert(Json::Null), patch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The examples of RFC 7396, appendix A.
    #[test]
    fn patches_merge_as_the_standard_says() {
        for (target, patch, merged) in [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b"}), json!({"a":null}), json!({})),
            (json!({"a":"b","b":"c"}), json!({"a":null}), json!({"b":"c"})),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"c"}), json!({"a":["b"]}), json!({"a":["b"]})),
            (json!({"a":{"b":"c"}}), json!({"a":{"b":"d","c":null}}), json!({"a":{"b":"d"}})),
            (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a":"b"}), json!(["c"]), json!(["c"])),
            (json!({"a":"foo"}), json!(null), json!(null)),
            (json!({"a":"foo"}), json!("bar"), json!("bar")),
            (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
            (json!([1, 2]), json!({"a":"b","c":null}), json!({"a":"b"})),
            (json!({}), json!({"a":{"bb":{"ccc":null}}}), json!({"a":{"bb":{}}})),
        ] {
            let mut got = target.clone();
            merge(&mut got, &patch);
            assert_eq!(got, merged, "{target} with {patch}");
        }
    }

    /// Programs in Rust can store a text that is no document.
    #[test]
    fn what_cannot_be_read_is_not_replaced() {
        let db = pando::Database::builder().in_memory().unwrap();
        let definition = rows::Definition::new("t")
            .column(Column::new("id", ColumnType::Int))
            .column(Column::new("doc", ColumnType::Json).nullable())
            .key(["id"]);
        let table = db.write(|tx| DynamicTable::create(tx, &definition)).unwrap();
        let patch = json!({"doc": {"a": 1}});
        let patch = patch.as_object().unwrap();
        for stored in ["{\"big\": 1e400}", "{"] {
            let mut row = vec![Value::Int(1), Value::Json(stored.into())];
            let problem = apply(&table, patch, &mut row).unwrap_err();
            assert_eq!(problem.status.as_u16(), 400);
            assert!(problem.detail.contains("cannot be read as JSON"), "{}", problem.detail);
            assert_eq!(row[1], Value::Json(stored.into()));
        }
        for (stored, merged) in [(Value::Null, r#"{"a":1}"#), (Value::Json("[2]".into()), r#"{"a":1}"#)] {
            let mut row = vec![Value::Int(1), stored];
            apply(&table, patch, &mut row).unwrap();
            assert_eq!(row[1], Value::Json(merged.into()));
        }
    }

    #[test]
    fn other_formats_are_refused() {
        let check = |kind: &str| {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, kind.parse().unwrap())]);
            check_patch_type(&headers).map_err(|problem| problem.status.as_u16())
        };
        assert_eq!(check("Application/Merge-Patch+JSON; charset=utf-8"), Ok(()));
        assert_eq!(check("application/json"), Ok(()));
        assert!(check_patch_type(&HeaderMap::new()).is_ok());
        for other in ["application/json-patch+json", "text/plain", "", "application/xml"] {
            assert_eq!(check(other), Err(415), "{other}");
        }
    }
}
