//! `sql` of a server: each statement is one request, and therefore one transaction, as in a directory.

use super::SqlArgs;
use super::statements::each_statement;
use crate::failure::{Failure, Outcome};
use crate::output::{self, Cell, Rows};
use crate::remote::Remote;
use crate::text;
use pando::ErrorKind;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, IsTerminal, Lines, Read, stdin};
use std::time::Instant;
use ureq::BodyReader;

/// Runs `pando sql http://...`.
pub fn run(remote: &Remote, args: &SqlArgs) -> Outcome {
    if args.from_sqlite.is_some() || args.to_sqlite.is_some() {
        let message = "--from-sqlite and --to-sqlite work on a directory, not on a server";
        return Err(Failure::Usage(message.to_owned()));
    }
    let statements = match args.statements.is_empty() {
        false => args.statements.clone(),
        true if stdin().is_terminal() => {
            let message = "the prompt works only with a directory; for a server, pass statements, or a \
                           script on standard input";
            return Err(Failure::Usage(message.to_owned()));
        }
        true => {
            let mut script = String::new();
            let refused = |cause| Failure::system("read standard input", cause);
            stdin().lock().read_to_string(&mut script).map_err(refused)?;
            vec![script]
        }
    };
    for text in &statements {
        each_statement(text, |statement| timed(remote, args, statement))?;
    }
    Ok(())
}

fn timed(remote: &Remote, args: &SqlArgs, statement: &str) -> Outcome {
    let begun = Instant::now();
    let done = run_one(remote, args, statement);
    if args.timing {
        let count = done.as_ref().map_or(String::new(), |rows| format!(", {} rows", text::count(*rows)));
        eprintln!("{:.3} ms{count}", begun.elapsed().as_secs_f64() * 1e3);
    }
    done.map(drop)
}

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

/// Runs one statement. Returns how many rows there were, or were changed.
fn run_one(remote: &Remote, args: &SqlArgs, statement: &str) -> Outcome<u64> {
    let asks = json!({ "sql": statement, "read_only": args.read_only }).to_string();
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
    let count = match first["columns"].as_array() {
        None => first["changes"].as_u64().unwrap_or_default(),
        Some(columns) => {
            let names: Vec<&str> = columns.iter().map(|name| name.as_str().unwrap_or_default()).collect();
            let mut out =
                Rows::new(output::stdout(), args.format.format(), &names).map_err(Failure::stdout)?;
            while let Value::Array(row) = answer.next()? {
                write_row(&mut out, &row)?;
            }
            out.finish().map_err(Failure::stdout)?
        }
    };
    // Only this line confirms that everything is committed.
    answer.next().map(|_| count)
}

fn write_row<W: std::io::Write>(out: &mut Rows<'_, W>, row: &[Value]) -> Outcome {
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
    out.row(&cells.collect::<Vec<_>>()).map_err(Failure::stdout)
}
