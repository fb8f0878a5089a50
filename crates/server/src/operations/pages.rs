//! Pages and documents that never change: `/docs` and `/openapi.json`, the OpenAPI document.

use crate::calls::operation::{Access, Operation, on_both};
use crate::watch::observe::Kind;
use crate::wire::response::page;
use std::future::ready;

const HTML: &str = "text/html; charset=utf-8";

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[
    on_both!("GET", "/openapi.json", Access::Any, Kind::Other, "Get this document", |parts, _, _| {
        let document = parts.document;
        Box::pin(async move { Ok(page("application/json", document().as_bytes())) })
    })
    .responses(&[(200, "JSON")])
    .with_any_query()
    .at_once(),
    on_both!("GET", "/docs", Access::Any, Kind::Other, "Read this document as a page", |_, _, _| {
        Box::pin(ready(Ok(page(HTML, include_bytes!("docs.html")))))
    })
    .responses(&[(200, "A page")])
    .sends(&["text/html"])
    .with_any_query()
    .at_once(),
];
