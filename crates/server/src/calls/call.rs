//! A request, as its handler gets it.

use crate::calls::target::{Captured, Target};
use crate::limits::receive::{Counted, Reception, RequestBody};
use crate::wire::problem::{Answer, Problem};
use axum::http::header::HeaderName;
use axum::http::{HeaderMap, Uri};
use serde::de::DeserializeOwned;

/// Names the transaction that a request belongs to.
pub const TRANSACTION: HeaderName = HeaderName::from_static("pando-transaction");
/// The longest body of JSON.
pub const JSON_BYTES: usize = 1 << 20;

/// A request without its body. Its method and path have led to the handler.
#[derive(Debug)]
pub struct Call {
    /// What is asked for.
    pub uri: Uri,
    /// The headers.
    pub headers: HeaderMap,
    /// Where in the path its parameters stand.
    pub captured: Captured,
}

impl Call {
    /// What is asked for.
    pub fn target(&self) -> Target<'_> {
        Target::new(&self.uri, self.captured)
    }

    /// The token of the transaction that the request belongs to, if to any.
    pub fn transaction(&self) -> Answer<Option<String>> {
        let Some(value) = self.headers.get(TRANSACTION) else { return Ok(None) };
        let token = value
            .to_str()
            .map_err(|_| Problem::bad_request("`pando-transaction` is not a transaction's token"))?;
        Ok(Some(token.to_owned()))
    }

    /// Refuses a request that names a transaction, where what it asks for cannot be part of one: it would be done at
    /// once, and stay when the transaction is given up.
    pub fn no_part_of_transactions(&self, what: &str) -> Answer<()> {
        match self.transaction()? {
            None => Ok(()),
            Some(_) => Err(Problem::bad_request(format!(
                "{what} not possible within an interactive transaction; leave out `pando-transaction`"
            ))),
        }
    }
}

/// A body, as JSON of a certain shape, and what it is counted as; an empty one is an empty object.
pub async fn json_body<T: DeserializeOwned>(
    reception: &Reception,
    body: RequestBody,
) -> Answer<(T, Counted)> {
    let (bytes, counted) = reception.receive_whole(body, JSON_BYTES).await?;
    let text = match bytes.trim_ascii() {
        b"" => &b"{}"[..],
        text => text,
    };
    // A structure would be read from an array as well, its members by their order.
    if !text.starts_with(b"{") {
        return Err(Problem::bad_request("the body must be a JSON object"));
    }
    let shaped = serde_json::from_slice(text);
    let wrong = |error: serde_json::Error| {
        Problem::bad_request(format!("the body is not the expected JSON: {error}"))
    };
    Ok((shaped.map_err(wrong)?, counted))
}
