//! `sql` of a server: each statement is one request, and therefore one transaction, as in a directory.

use super::session::Receiver;
use crate::failure::{Failure, Outcome};
use crate::output::Cell;
use crate::remote::Remote;
use crate::text;
use pando::ErrorKind;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Lines};
use ureq::BodyReader;

/// The lines of a response.
struct Answer(Lines<BufReader<BodyReader<'static>>>);

impl Answer {
    /// Returns the next line, or the error that it contains.
    fn next(&mut self) -> Outcome<Value> {
        let broken_off = || {
            Failure::Failed(
                "the server's response ended early; it is not known whether the statement was completed"
                    .to_owned(),
            )
        };
        let line = self.0.next().ok_or_else(broken_off)?;
        let line = line.map_err(|cause| Failure::system("read the server's response", cause))?;
        let line: Value = serde_json::from_str(&line)
            .map_err(|error| Failure::Failed(format!("cannot read the server's response: {error}")))?;
        match line["error"]["detail"].as_str() {
            Some(detail) => Err(Failure::Failed(detail.to_owned())),
            None => Ok(line),
        }
    }
}

/// Runs one statement. Returns how many rows it changed.
pub fn run(remote: &Remote, read_only: bool, statement: &str, to: &mut dyn Receiver) -> Outcome<u64> {
    let asks = json!({ "sql": statement, "read_only": read_only }).to_string();
    let response =
        remote.ask("POST", "/sql", Some(&mut asks.as_bytes())).map_err(|failure| match failure {
            // As with a directory, an invalid statement is not an invalid command line.
            Failure::Engine(error) if matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Exists) => {
                Failure::Failed(error.to_string())
            }
            other => other,
        })?;
    let mut answer = Answer(BufReader::new(response.into_body().into_reader()).lines());
    let first = answer.next()?;
    if let Some(columns) = first["columns"].as_array() {
        let names: Vec<_> = columns.iter().map(|name| name.as_str().unwrap_or_default().to_owned()).collect();
        to.columns(&names)?;
        while let Value::Array(row) = answer.next()? {
            give_row(to, &row)?;
        }
    }
    // Only this line confirms that everything is committed.
    answer.next().map(|_| first["changes"].as_u64().unwrap_or_default())
}

fn give_row(to: &mut dyn Receiver, row: &[Value]) -> Outcome {
    // Bytes are decoded from hexadecimal digits.
    let bytes = row.iter().map(|value| match value["bytes"].as_str() {
        Some(digits) => text::from_hex(digits).map_err(Failure::Failed),
        None => Ok(Vec::new()),
    });
    let bytes: Vec<Vec<u8>> = bytes.collect::<Outcome<_>>()?;
    let cells = row.iter().zip(&bytes).map(|(value, bytes)| match value {
        Value::String(text) => Cell::Bytes(text.as_bytes()),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => Cell::Integer(integer),
            None => Cell::Real(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::Object(_) => match value["float"].as_str() {
            Some(float) => Cell::Real(float.parse().unwrap_or(f64::NAN)),
            None => Cell::Blob(bytes),
        },
        _ => Cell::Null,
    });
    to.row(&cells.collect::<Vec<_>>())
}
