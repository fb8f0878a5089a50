//! The request as its handler receives it.

use crate::calls::target::{Captured, Target};
use crate::limits::receive::{Counted, Reception, RequestBody};
use crate::wire::problem::{Answer, Problem};
use axum::http::header::HeaderName;
use axum::http::{HeaderMap, Uri};
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// The header that names the transaction of a request.
pub const TRANSACTION: HeaderName = HeaderName::from_static("pando-transaction");
/// The longest body of JSON in bytes.
pub const JSON_BYTES: usize = 1 << 20;

/// A request without its body. The handler was chosen by its method and path.
#[derive(Debug)]
pub struct Call {
    /// The address of the request.
    pub uri: Uri,
    /// The headers of the request.
    pub headers: HeaderMap,
    /// The positions of the path's parameters.
    pub captured: Captured,
    /// The count of the results of statements, if the connection keeps one.
    pub results: Option<ResultMemory>,
}

/// Counts memory for the results of a request's statements. A connection of HTTP/2 has many responses at a time, and
/// refuses statements if its client does not receive them.
#[derive(Clone)]
pub struct ResultMemory(pub Arc<dyn Fn() -> Answer<()> + Send + Sync>);

impl std::fmt::Debug for ResultMemory {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ResultMemory")
    }
}

impl Call {
    /// Returns the target of the request.
    pub fn target(&self) -> Target<'_> {
        Target::new(&self.uri, self.captured)
    }

    /// Counts memory for the results of statements. It is called when the body was received and the statements can
    /// run, so that requests that wait hold none.
    ///
    /// # Errors
    /// 503 if there is none. The statements must not run then.
    #[cfg_attr(not(feature = "sql"), allow(dead_code))]
    pub fn count_results(&self) -> Answer<()> {
        self.results.as_ref().map_or(Ok(()), |results| (results.0)())
    }

    /// Returns the token of the transaction that the request belongs to, if it belongs to one.
    pub fn transaction(&self) -> Answer<Option<String>> {
        let Some(value) = self.headers.get(TRANSACTION) else { return Ok(None) };
        let token = value
            .to_str()
            .map_err(|_| Problem::bad_request("`pando-transaction` is not a transaction's token"))?;
        Ok(Some(token.to_owned()))
    }

    /// Refuses a request that names a transaction if its operation cannot be part of one. The operation would take
    /// effect at once and would remain after a rollback.
    pub fn no_part_of_transactions(&self, what: &str) -> Answer<()> {
        match self.transaction()? {
            None => Ok(()),
            Some(_) => Err(Problem::bad_request(format!(
                "{what} not possible within an interactive transaction; leave out `pando-transaction`"
            ))),
        }
    }
}

/// Parses a JSON body of type `T` and returns it with the memory that it is counted as. An empty body is an empty
/// object.
pub async fn json_body<T: DeserializeOwned>(
    reception: &Reception,
    body: RequestBody,
) -> Answer<(T, Counted)> {
    let (bytes, counted) = reception.receive_whole(body, JSON_BYTES).await?;
    let text = match bytes.trim_ascii() {
        b"" => &b"{}"[..],
        text => text,
    };
    // Serde would also read a struct from an array, by the order of its members.
    if !text.starts_with(b"{") {
        return Err(Problem::bad_request("the body must be a JSON object"));
    }
    let shaped = serde_json::from_slice(text);
    let wrong = |error: serde_json::Error| {
        Problem::bad_request(format!("the body is not the expected JSON: {error}"))
    };
    Ok((shaped.map_err(wrong)?, counted))
}
