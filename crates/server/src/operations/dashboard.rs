//! The dashboard: its page at `/`, and its scripts and styles below `/dashboard/`, all of them embedded in the program.
//!
//! 1. The files are plain modules of JavaScript, as browsers run them. Nothing is generated, and nothing is loaded from
//!    another server.
//! 2. Every address in them is relative, so that the dashboard works below the path of a proxy.
//! 3. The content security policy allows scripts and styles from files of this server only, and no text that becomes
//!    markup. So nothing that a database holds can run in the page.
//! 4. A browser asks again with the tag of the file that it has (`If-None-Match`), and gets 304 until the server is
//!    another version.

use crate::calls::call::Call;
use crate::calls::operation::{Access, Operation};
use crate::data::conditions::{Conditions, etag, etag_header};
use crate::watch::observe::Kind;
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::{fixed, not_modified};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, ETAG};
use pando::remote::Capability;
use std::future::ready;
use std::sync::LazyLock;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The policy of the page: files of this server only.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'";

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[
    Operation::new("GET", "/", Access::Any, Kind::Other, "Open the dashboard", |_, call, _| {
        Box::pin(ready(file("index.html", &call)))
    })
    .needs(Capability::Dashboard)
    .takes(&["if-match", "if-none-match"])
    .responses(&[(200, "A page"), (304, "The client has it"), (412, "It has another tag")])
    .sends(&["text/html"])
    .with_any_query()
    .at_once(),
    Operation::new(
        "GET",
        "/dashboard/{file}",
        Access::Any,
        Kind::Other,
        "Get a script or a style of the dashboard",
        |_, call, _| Box::pin(ready(file(call.target().database(), &call))),
    )
    .needs(Capability::Dashboard)
    .takes(&["if-match", "if-none-match"])
    .responses(&[
        (200, "The file"),
        (304, "The client has it"),
        (404, "There is no such file"),
        (412, "It has another tag"),
    ])
    .sends(&["text/javascript", "text/css", "image/svg+xml"])
    .with_any_query()
    .at_once(),
];

/// A file of the dashboard.
struct File {
    name: &'static str,
    content_type: &'static str,
    content: &'static [u8],
    tag: String,
}

/// Lists files of the folder `dashboard`, each with its content type.
macro_rules! files {
    ($($name:literal: $kind:expr),* $(,)?) => {
        vec![$(File::new($name, $kind, include_bytes!(concat!("../dashboard/", $name)))),*]
    };
}

static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
    files! {
        "index.html": HTML,
        "app.css": CSS,
        "icon.svg": "image/svg+xml",
        "app.js": SCRIPT,
        "api.js": SCRIPT,
        "dom.js": SCRIPT,
        "route.js": SCRIPT,
        "grid.js": SCRIPT,
        "rail.js": SCRIPT,
        "overview.js": SCRIPT,
        "chart.js": SCRIPT,
        "history.js": SCRIPT,
        "data.js": SCRIPT,
        "source.js": SCRIPT,
        "bulk.js": SCRIPT,
        "editor.js": SCRIPT,
        "sql.js": SCRIPT,
        "changes.js": SCRIPT,
        "operations.js": SCRIPT,
        "access.js": SCRIPT,
        "profile.js": SCRIPT,
    }
});

impl File {
    fn new(name: &'static str, content_type: &'static str, content: &'static [u8]) -> Self {
        File { name, content_type, content, tag: etag(content) }
    }
}

/// Returns a file, or 304 if the client has it.
fn file(name: &str, call: &Call) -> Answer {
    let conditions = Conditions::from_headers(&call.headers)?;
    let missing = || Problem::not_found("the dashboard has no such file");
    let file = FILES.iter().find(|file| file.name == name).ok_or_else(missing)?;
    let mut response = match conditions.has_this_already(&file.tag)? {
        true => not_modified(),
        false => fixed(file.content_type, file.content),
    };
    let headers = response.headers_mut();
    headers.insert(ETAG, etag_header(&file.tag));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("content-security-policy", HeaderValue::from_static(POLICY));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers.insert("referrer-policy", HeaderValue::from_static("no-referrer"));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_needs_nothing_but_files_of_this_server() {
        for file in FILES.iter() {
            let text = std::str::from_utf8(file.content).unwrap();
            // A name space of SVG is no address that is loaded.
            let text = text.replace("http://www.w3.org/", "");
            for outside in
                ["http://", "https://", "url(", "@import", "src=\"/", "href=\"/", "innerHTML", "eval("]
            {
                assert!(!text.contains(outside), "{}: {outside}", file.name);
            }
        }
        // Every module that one of them imports is served.
        for file in FILES.iter().filter(|file| file.content_type == SCRIPT) {
            let text = std::str::from_utf8(file.content).unwrap();
            for import in text.lines().filter(|line| line.starts_with("import ")) {
                let name =
                    import.rsplit('"').nth(1).expect("an import names its file").trim_start_matches("./");
                assert!(FILES.iter().any(|other| other.name == name), "{}: {import}", file.name);
            }
        }
        let total: usize = FILES.iter().map(|file| file.content.len()).sum();
        assert!(total < 200 << 10, "the dashboard has {total} bytes");
    }
}
