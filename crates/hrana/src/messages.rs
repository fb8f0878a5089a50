//! The bodies of requests. Members that the protocol does not have are ignored, as it demands.

use crate::condition::Condition;
use crate::failure::{Failure, Outcome};
use crate::value::Value;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The largest number of statements in a body, and of requests.
const MOST_STATEMENTS: usize = 10_000;

/// The body of `POST v2/pipeline` and `v3/pipeline`.
#[derive(Debug, Deserialize)]
pub struct Pipeline {
    /// The baton of the stream; `None` begins a stream.
    #[serde(default)]
    pub baton: Option<String>,
    /// The requests, which are run one after the other, whether or not those before succeed.
    pub requests: Vec<Request>,
}

/// The body of `POST v3/cursor`.
#[derive(Debug, Deserialize)]
pub struct Cursor {
    /// The baton of the stream; `None` begins a stream.
    #[serde(default)]
    pub baton: Option<String>,
    /// The statements.
    pub batch: Batch,
}

/// A request of a pipeline.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// Closes the stream.
    Close,
    /// Runs a statement.
    Execute {
        /// The statement.
        stmt: Stmt,
    },
    /// Runs statements, each under a condition.
    Batch {
        /// The statements.
        batch: Batch,
    },
    /// Runs all statements of a text.
    Sequence {
        /// The text.
        #[serde(flatten)]
        text: Text,
    },
    /// Describes a statement.
    Describe {
        /// The text.
        #[serde(flatten)]
        text: Text,
    },
    /// Stores a text under a number.
    StoreSql {
        /// The number.
        sql_id: i32,
        /// The text.
        sql: String,
    },
    /// Forgets a stored text.
    CloseSql {
        /// The number.
        sql_id: i32,
    },
    /// Asks whether no transaction is open.
    GetAutocommit,
}

/// A text, or the number of a stored one.
#[derive(Debug, Deserialize)]
pub struct Text {
    /// The text.
    #[serde(default)]
    pub sql: Option<String>,
    /// The number.
    #[serde(default)]
    pub sql_id: Option<i32>,
}

/// A statement with its arguments.
#[derive(Debug, Deserialize)]
pub struct Stmt {
    /// The text.
    #[serde(flatten)]
    pub text: Text,
    /// Arguments by position.
    #[serde(default)]
    pub args: Vec<Value>,
    /// Arguments by name.
    #[serde(default)]
    pub named_args: Vec<NamedArg>,
    /// Whether the rows are wanted; they are, unless this is false.
    #[serde(default)]
    pub want_rows: Option<bool>,
}

/// An argument by name.
#[derive(Debug, Deserialize)]
pub struct NamedArg {
    /// The name, with or without its `:`, `@` or `$`.
    pub name: String,
    /// The value.
    pub value: Value,
}

/// Statements, each under a condition.
#[derive(Debug, Deserialize)]
pub struct Batch {
    /// The steps.
    pub steps: Vec<Step>,
}

/// A step of a batch.
#[derive(Debug, Deserialize)]
pub struct Step {
    /// The condition; `None`: the step is run in any case.
    #[serde(default)]
    pub condition: Option<Condition>,
    /// The statement.
    pub stmt: Stmt,
}

impl Pipeline {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// `PROTO_ERROR` if it is not such a body, `TOO_MANY_STATEMENTS` if it has more than 10,000 statements.
    ///
    /// ```
    /// let body = br#"{"requests": [{"type": "execute", "stmt": {"sql": "SELECT 1"}}, {"type": "close"}]}"#;
    /// let pipeline = pando_hrana::Pipeline::read(body)?;
    /// assert_eq!((pipeline.requests.len(), pipeline.closes()), (2, true));
    /// assert_eq!(pando_hrana::Pipeline::read(b"[]").unwrap_err().code(), "PROTO_ERROR");
    /// # Ok::<(), pando_hrana::Failure>(())
    /// ```
    pub fn read(body: &[u8]) -> Outcome<Self> {
        let pipeline: Pipeline = read(body)?;
        let statements = pipeline.requests.iter().map(|request| match request {
            Request::Batch { batch } => batch.steps.len() + 1,
            _ => 1,
        });
        check_count(statements.sum())?;
        Ok(pipeline)
    }

    /// Returns whether the last request closes the stream, so that nothing is kept of it.
    pub fn closes(&self) -> bool {
        matches!(self.requests.last(), Some(Request::Close))
    }

    /// Returns the text of the first statement that is sent as a text, for logs.
    pub fn first_text(&self) -> Option<&str> {
        self.requests.iter().find_map(|request| match request {
            Request::Execute { stmt } => stmt.text.sql.as_deref(),
            Request::Batch { batch } => batch.first_text(),
            Request::Sequence { text } | Request::Describe { text } => text.sql.as_deref(),
            Request::StoreSql { sql, .. } => Some(sql),
            Request::Close | Request::CloseSql { .. } | Request::GetAutocommit => None,
        })
    }
}

impl Cursor {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// Those of [`Pipeline::read`].
    ///
    /// ```
    /// let body = br#"{"baton": null, "batch": {"steps": [{"stmt": {"sql": "SELECT 1"}}]}}"#;
    /// assert_eq!(pando_hrana::Cursor::read(body)?.batch.first_text(), Some("SELECT 1"));
    /// # Ok::<(), pando_hrana::Failure>(())
    /// ```
    pub fn read(body: &[u8]) -> Outcome<Self> {
        let cursor: Cursor = read(body)?;
        check_count(cursor.batch.steps.len())?;
        Ok(cursor)
    }
}

impl Batch {
    /// Returns the text of the first statement that is sent as a text, for logs.
    pub fn first_text(&self) -> Option<&str> {
        self.steps.iter().find_map(|step| step.stmt.text.sql.as_deref())
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Outcome<T> {
    let wrong =
        |what: String| Failure::new("PROTO_ERROR", format!("the body is not a request of Hrana: {what}"));
    // Serde would also read a struct from an array, by the order of its members.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(wrong("it is not a JSON object".to_owned()));
    }
    serde_json::from_slice(body).map_err(|error| wrong(error.to_string()))
}

fn check_count(statements: usize) -> Outcome<()> {
    if statements <= MOST_STATEMENTS {
        return Ok(());
    }
    Err(Failure::new(
        "TOO_MANY_STATEMENTS",
        format!("the request has {statements} statements, and may have {MOST_STATEMENTS}: send several"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_read() {
        let body = r#"{"baton": "b", "unknown": 7, "requests": [
            {"type": "execute", "stmt": {"sql": "a", "args": [{"type": "null"}], "want_rows": false, "more": []}},
            {"type": "batch", "batch": {"steps": [{"stmt": {"sql_id": 1, "named_args":
                [{"name": "x", "value": {"type": "text", "value": "y"}}]},
                "condition": {"type": "not", "cond": {"type": "is_autocommit"}}}], "replication_index": null}},
            {"type": "sequence", "sql": "b; c"}, {"type": "describe", "sql_id": -1},
            {"type": "store_sql", "sql_id": 1, "sql": "d"}, {"type": "close_sql", "sql_id": 1},
            {"type": "get_autocommit"}, {"type": "close"}]}"#;
        let pipeline = Pipeline::read(body.as_bytes()).unwrap();
        assert_eq!((pipeline.requests.len(), pipeline.closes(), pipeline.first_text()), (8, true, Some("a")));
        assert!(matches!(&pipeline.requests[0], Request::Execute { stmt } if stmt.want_rows == Some(false)));
        let Request::Batch { batch } = &pipeline.requests[1] else { panic!() };
        assert_eq!(batch.steps[0].stmt.text.sql_id, Some(1));
        assert_eq!(batch.steps[0].stmt.named_args[0].value, Value::Text { value: "y".into() });
    }

    #[test]
    fn garbage_and_too_many_are_refused() {
        let code = |body: &[u8]| Pipeline::read(body).unwrap_err().code().to_owned();
        let nested = format!(r#"{{"requests": [{}"#, r#"{"type":"not","cond":"#.repeat(100_000));
        let deep = format!(
            r#"{{"requests": [{{"type": "batch", "batch":
                {{"steps": [{{"stmt": {{"sql": ""}}, "condition": {}}}]}}}}]}}"#,
            r#"{"type":"not","cond":"#.repeat(1000) + r#"{"type":"is_autocommit"}"# + &"}".repeat(1000)
        );
        for body in [
            &b""[..],
            b"{",
            b"[]",
            b"null",
            b"\xff\xfe",
            br#"{"requests": 7}"#,
            br#"{"requests": [{}]}"#,
            br#"{"requests": [{"type": "explode"}]}"#,
            br#"{"requests": [{"type": "execute"}]}"#,
            br#"{"requests": [{"type": "store_sql", "sql_id": 4294967296, "sql": ""}]}"#,
            br#"{"requests": [{"type": "execute", "stmt": {"args": [{}]}}]}"#,
            nested.as_bytes(),
            deep.as_bytes(),
        ] {
            assert_eq!(code(body), "PROTO_ERROR", "{}", String::from_utf8_lossy(&body[..body.len().min(80)]));
        }
        let many =
            format!(r#"{{"requests": [{}{{"type": "close"}}]}}"#, r#"{"type":"close"},"#.repeat(10_000));
        assert_eq!(code(many.as_bytes()), "TOO_MANY_STATEMENTS");
    }
}
