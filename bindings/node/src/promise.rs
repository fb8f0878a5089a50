//! Promises that the threads of the pool settle, and errors as JavaScript gets them.

use crate::pool::{self, Urgency};
use binding::{Failure, Kind, Outcome, guard};
use napi::bindgen_prelude::{Object, ToNapiValue};
use napi::{Env, Error, Result, Status};
use pando::ErrorKind;
use std::fmt::Write;

/// What a failure begins with that `lib/errors.js` reads: then come the code, the table and the key in hexadecimal
/// digits, SQLite's code, or nothing for none, and the message, each after a line break.
const MARK: &str = "pando-failure";

/// The code of a kind, as Node's errors have it.
fn code_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Misuse => "PANDO_INVALID",
        Kind::InUse => "PANDO_IN_USE",
        Kind::TooSmall => "PANDO_INVALID",
        Kind::Internal => "PANDO_INTERNAL",
        Kind::Interrupted => "PANDO_INTERRUPTED",
        Kind::Constraint => "PANDO_CONSTRAINT",
        Kind::Engine(kind) => match kind {
            ErrorKind::Conflict => "PANDO_CONFLICT",
            ErrorKind::SnapshotTooOld => "PANDO_SNAPSHOT_TOO_OLD",
            ErrorKind::TooOld => "PANDO_TOO_OLD",
            ErrorKind::Full => "PANDO_FULL",
            ErrorKind::Exists => "PANDO_EXISTS",
            ErrorKind::Missing => "PANDO_MISSING",
            ErrorKind::WouldWait => "PANDO_WOULD_WAIT",
            ErrorKind::Invalid => "PANDO_INVALID",
            ErrorKind::Mismatch => "PANDO_MISMATCH",
            ErrorKind::Locked => "PANDO_LOCKED",
            ErrorKind::ReadOnly => "PANDO_READ_ONLY",
            ErrorKind::Foreign => "PANDO_FOREIGN",
            ErrorKind::Corruption => "PANDO_CORRUPT",
            ErrorKind::Io => "PANDO_IO",
            ErrorKind::Latched => "PANDO_LATCHED",
            ErrorKind::Indeterminate => "PANDO_INDETERMINATE",
            ErrorKind::Closed => "PANDO_CLOSED",
            ErrorKind::Forked => "PANDO_FORKED",
            ErrorKind::Fenced => "PANDO_FENCED",
            _ => "PANDO_FAILED",
        },
    }
}

/// The digits of bytes, each byte as two, after a sign that there are some.
fn digits(bytes: Option<&[u8]>) -> String {
    let Some(bytes) = bytes else { return String::new() };
    let mut text = String::from("x");
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A failure as an error of Node-API, which carries text only.
#[cold]
pub fn error(failure: Failure) -> Error {
    let Failure { kind, message, table, key, sqlite_code } = failure;
    let (table, key) = (digits(table.as_deref().map(str::as_bytes)), digits(key.as_deref()));
    let sqlite_code = sqlite_code.map_or_else(String::new, |code| code.to_string());
    let text = format!("{MARK}\n{}\n{table}\n{key}\n{sqlite_code}\n{message}", code_of(kind));
    Error::new(Status::GenericFailure, text)
}

/// Runs `work`, which does not wait, at once.
pub fn now<T>(work: impl FnOnce() -> Outcome<T>) -> Result<T> {
    guard(work).map_err(error)
}

/// A promise for the result of `work`, which a thread of the pool runs.
pub fn promise<T: ToNapiValue + Send + 'static>(
    env: &Env,
    work: impl FnOnce() -> Outcome<T> + Send + 'static,
) -> Result<Object<'_>> {
    promise_with(env, Urgency::Usual, work)
}

/// A promise for the result of `work`, which does not wait for other calls if it is urgent.
pub fn promise_with<T: ToNapiValue + Send + 'static>(
    env: &Env,
    urgency: Urgency,
    work: impl FnOnce() -> Outcome<T> + Send + 'static,
) -> Result<Object<'_>> {
    let (deferred, promise) = env.create_deferred()?;
    pool::run(urgency, move || match guard(work) {
        Ok(done) => deferred.resolve(move |_| Ok(done)),
        Err(failure) => deferred.reject(error(failure)),
    });
    Ok(promise)
}
