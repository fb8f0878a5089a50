//! A database of a server in the place of a directory: `http://HOST:PORT`, or `http://HOST:PORT/DATABASE` for another
//! database than `default`. The token is taken from `PANDO_TOKEN`.
//!
//! An address that begins with `https://` is verified with the usual certificate authorities, or with the ones in the
//! PEM file that `PANDO_CA_CERT` names.
//!
//! Responses of the server are reported as the same command reports them for a directory, including the exit code.

use crate::failure::{Failure, Outcome};
use crate::open::{CreateArgs, TableArgs, TableTtl};
use crate::text;
use pando::{Error, ErrorKind};
use serde_json::{Map, Value, json};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use ureq::config::ConfigBuilder;
use ureq::http::{HeaderName, Request, Response, header};
#[cfg(feature = "tls")]
use ureq::tls::{Certificate, PemItem, TlsConfig, parse_pem};
use ureq::typestate::AgentScope;
use ureq::{Agent, Body, SendBody};

/// The commands that support a server.
pub const COMMANDS: [&str; 23] = [
    "put",
    "get",
    "delete",
    "scan",
    "tables",
    "rename",
    "layout",
    "ttl",
    "compression",
    "stats",
    "explain",
    "options",
    "advise",
    "doctor",
    "check",
    "checkpoint",
    "compact",
    "import",
    "export",
    "backup",
    "watch",
    "consumers",
    "sql",
];

/// Commands that do not support a server, and what to do instead.
const ELSEWHERE: [(&str, &str); 5] = [
    ("copy", "run it on the server's machine with the directory of the database"),
    (
        "restore",
        "restore into a new directory DIR/NAME below the served directory DIR: the server opens it as NAME",
    ),
    ("salvage", "stop the server, or copy the directory, and run salvage on the directory"),
    (
        "token",
        "run it on the server's machine with the served directory; a running server notices the change",
    ),
    ("profile", "a server profiles itself: GET /debug/profile?kind=cpu&seconds=5, or its dashboard"),
];

/// The longest response that is read into memory.
const ANSWER_BYTES: u64 = 16 << 20;

/// A database of a server.
#[derive(Debug)]
pub struct Remote {
    agent: Agent,
    /// The address of the server.
    server: String,
    /// The address of the database.
    base: String,
    /// The name of the database.
    database: String,
    token: Option<String>,
}

impl Remote {
    /// Returns the remote database if `dir` is an address.
    pub fn find(dir: &Path) -> Outcome<Option<Self>> {
        let Some((scheme, rest)) = address(dir) else { return Ok(None) };
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => "http",
            "https" => "https",
            _ => {
                let message =
                    format!("the address of a server begins with http:// or https://, not {scheme}://");
                return Err(Failure::Usage(message));
            }
        };
        let (host, database) = rest.trim_end_matches('/').split_once('/').unwrap_or((rest, "default"));
        let (host, database) =
            (host.trim_end_matches('/'), if database.is_empty() { "default" } else { database });
        let config = Agent::config_builder().http_status_as_error(false).max_redirects(0).proxy(None);
        let config = if scheme == "https" { encrypted(config)? } else { config };
        Ok(Some(Remote {
            agent: config.build().new_agent(),
            server: format!("{scheme}://{host}"),
            base: format!("{scheme}://{host}/v1/databases/{}", escape(database.as_bytes())),
            database: database.to_owned(),
            token: std::env::var("PANDO_TOKEN").ok(),
        }))
    }

    /// Returns the name of the database.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Returns the address as users write it.
    pub fn address(&self) -> String {
        format!("{}/{}", self.server, self.database)
    }

    /// Returns the text at a path of the server that does not belong to a database.
    pub fn ask_server(&self, path: &str) -> Outcome<String> {
        let response = self.send("GET", &format!("{}{path}", self.server), &[], None)?;
        let text = read_all(response)?;
        String::from_utf8(text)
            .map_err(|error| Failure::Failed(format!("cannot read the server's response: {error}")))
    }

    /// Returns the path of a table below the database.
    pub fn table(name: &str) -> String {
        format!("/tables/{}", escape(name.as_bytes()))
    }

    /// Returns the path of a typed table.
    pub fn documents(name: &str) -> String {
        format!("/documents/{}", escape(name.as_bytes()))
    }

    /// Returns the path of a key.
    pub fn entry(table: &str, key: &[u8]) -> String {
        format!("{}/entries/{}", Remote::table(table), escape(key))
    }

    /// Sends a request and returns the response if it is not a refusal.
    pub fn ask(&self, method: &str, path: &str, body: Option<&mut dyn Read>) -> Outcome<Response<Body>> {
        self.ask_with(method, path, &[], body)
    }

    /// Sends a request with headers. With `if-match` it is conditional on the current value. With `expect` the client
    /// waits for permission before it sends the body.
    pub fn ask_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(HeaderName, &str)],
        body: Option<&mut dyn Read>,
    ) -> Outcome<Response<Body>> {
        self.send(method, &format!("{}{path}", self.base), headers, body)
    }

    fn send(
        &self,
        method: &str,
        address: &str,
        headers: &[(HeaderName, &str)],
        body: Option<&mut dyn Read>,
    ) -> Outcome<Response<Body>> {
        let mut request = Request::builder().method(method).uri(address);
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let wrong = |error: ureq::http::Error| Failure::Usage(format!("{}: {error}", self.base));
        let has_body = body.is_some();
        let mut nothing = std::io::empty();
        let body = body.or(if matches!(method, "POST" | "PUT") { Some(&mut nothing as _) } else { None });
        let answered = match body {
            Some(mut body) => self.agent.run(request.body(SendBody::from_reader(&mut body)).map_err(wrong)?),
            None => self.agent.run(request.body(()).map_err(wrong)?),
        };
        let response = answered.map_err(|error| {
            let hint = if has_body && is_cut_off(&error) { CUT_OFF } else { "" };
            Failure::Unanswered(format!("{}: {error}{hint}", self.base))
        })?;
        if response.status().is_success() { Ok(response) } else { Err(refused(response)) }
    }

    /// Sends a request and returns the JSON object of the response.
    pub fn ask_json(&self, method: &str, path: &str) -> Outcome<Map<String, Value>> {
        Remote::object(self.ask(method, path, None)?)
    }

    /// Returns the JSON object of a response.
    pub fn object(response: Response<Body>) -> Outcome<Map<String, Value>> {
        let text = read_all(response)?;
        serde_json::from_slice(&text)
            .map_err(|error| Failure::Failed(format!("cannot read the server's response: {error}")))
    }

    /// Creates the database if it does not exist. An existing one must have the requested options.
    pub fn make_database(&self, create: CreateArgs) -> Outcome {
        let wanted = create.page_size.map_or(json!({}), |bytes| json!({ "page_bytes": bytes }));
        self.ask("PUT", "", Some(&mut wanted.to_string().as_bytes())).map(drop)
    }

    /// Creates the database and the table if they do not exist. Existing ones must have the requested options.
    pub fn make_table(&self, name: &str, options: TableArgs, create: CreateArgs) -> Outcome {
        let make_table = || {
            let mut wanted = Map::new();
            if let Some(layout) = options.layout {
                wanted.insert("layout".to_owned(), layout.name().into());
            }
            match options.ttl {
                Some(TableTtl::AfterPut(ttl)) => {
                    drop(wanted.insert("ttl_ms".to_owned(), (ttl.as_millis() as u64).into()));
                }
                Some(TableTtl::ByKey) => drop(wanted.insert("ttl_by_key".to_owned(), true.into())),
                None => {}
            }
            if let Some(compression) = options.compression {
                wanted.insert("compression".to_owned(), compression.name().into());
            }
            let wanted = Value::Object(wanted).to_string();
            self.ask("PUT", &Remote::table(name), Some(&mut wanted.as_bytes())).map(drop)
        };
        if create.page_size.is_some() {
            self.make_database(create)?;
        }
        match make_table() {
            Err(Failure::Engine(error)) if error.kind() == ErrorKind::Missing => {}
            made => return made,
        }
        self.make_database(create)?;
        make_table()
    }

    /// Runs `each` on every record in the response to `path`.
    pub fn each_record(&self, path: &str, each: impl FnMut(&[u8], &[u8]) -> Outcome) -> Outcome {
        Remote::each_of(self.ask("GET", path, None)?, each)
    }

    /// Runs `each` on every record of a response.
    pub fn each_of(response: Response<Body>, mut each: impl FnMut(&[u8], &[u8]) -> Outcome) -> Outcome {
        Self::each_with_ttl(response, |key, value, _| each(key, value))
    }

    /// Runs `each` on every record of a response, with how many milliseconds it still lives; `None`: until it is
    /// deleted.
    pub fn each_with_ttl(
        response: Response<Body>,
        mut each: impl FnMut(&[u8], &[u8], Option<u64>) -> Outcome,
    ) -> Outcome {
        let broken = |error| Failure::system("read the server's response", error);
        for line in BufReader::new(response.into_body().into_reader()).lines() {
            let line = line.map_err(broken)?;
            let record: Map<String, Value> = serde_json::from_str(&line)
                .map_err(|error| Failure::Failed(format!("cannot read the server's response: {error}")))?;
            if record.contains_key("cursor") {
                break;
            }
            let ttl_ms = record.get("ttl_ms").and_then(Value::as_u64);
            each(&bytes_of(&record, "key")?, &bytes_of(&record, "value")?, ttl_ms)?;
        }
        Ok(())
    }
}

/// Returns the scheme of an address, and what comes after `://`; `None` if `place` is a path.
fn address(place: &Path) -> Option<(&str, &str)> {
    let (scheme, rest) = place.to_str()?.split_once("://")?;
    let is_scheme = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    (is_scheme && scheme.starts_with(|first: char| first.is_ascii_alphabetic())).then_some((scheme, rest))
}

/// Refuses an address in the place of a directory, which would otherwise be created. `instead` says what to do.
pub fn refuse_address(place: &Path, instead: &str) -> Outcome {
    let message = |scheme| format!("{scheme}://... is an address, not a directory: {instead}");
    address(place).map_or(Ok(()), |(scheme, _)| Err(Failure::Usage(message(scheme))))
}

/// What is added to the error of a body that could not be sent to its end.
const CUT_OFF: &str = ": the server ended the connection before it had the whole body, which may be longer \
     than its limit (--max-body, --max-import)";

/// Returns whether the connection was closed by the other side.
fn is_cut_off(error: &ureq::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(error, ureq::Error::Io(cause)
        if matches!(cause.kind(), BrokenPipe | ConnectionReset | ConnectionAborted))
}

/// Converts a refusal to the failure that the engine would report.
fn refused(response: Response<Body>) -> Failure {
    let status = response.status();
    if status.is_redirection() {
        return redirected(&response);
    }
    let problem: Map<String, Value> =
        read_all(response).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    let word = |name| problem.get(name).and_then(Value::as_str);
    let detail = word("detail").map_or_else(|| status.to_string(), str::to_owned);
    let what = word("type").and_then(|name| name.rsplit(':').next()).unwrap_or_default();
    let kind = match (status.as_u16(), what) {
        // As with a directory, the command line is valid, but the content that it names is not.
        (_, "import") => return Failure::Failed(detail),
        (400, _) => ErrorKind::Invalid,
        (404, _) => ErrorKind::Missing,
        (409, "exists" | "constraint") => ErrorKind::Exists,
        (409, "mismatch") => ErrorKind::Mismatch,
        (409, "snapshot-too-old") => ErrorKind::SnapshotTooOld,
        (409, _) => ErrorKind::Conflict,
        (410, _) => ErrorKind::TooOld,
        (500, "corruption") => ErrorKind::Corruption,
        (500, "indeterminate") => ErrorKind::Indeterminate,
        (503, "locked") => ErrorKind::Locked,
        (503, "latched") => ErrorKind::Latched,
        (507, _) => ErrorKind::Full,
        _ => return Failure::Failed(format!("{detail} ({})", status.as_u16())),
    };
    Failure::Engine(Error::new(kind, detail))
}

/// Returns the failure of a request that another address would serve. The request is not repeated there, because that
/// would show the token to another server.
fn redirected(response: &Response<Body>) -> Failure {
    let location = response.headers().get(header::LOCATION).and_then(|location| location.to_str().ok());
    let location = location.map_or_else(String::new, |location| format!(", to {location}"));
    let status = response.status().as_u16();
    Failure::Failed(format!(
        "nothing was done: the server redirects the request{location} ({status}). A replica does this with \
         writes, and a proxy with http: use the address of the primary, or https"
    ))
}

fn read_all(response: Response<Body>) -> Outcome<Vec<u8>> {
    let mut text = Vec::new();
    let mut reader = response.into_body().into_reader().take(ANSWER_BYTES);
    reader.read_to_end(&mut text).map_err(|error| Failure::system("read the server's response", error))?;
    Ok(text)
}

fn bytes_of(record: &Map<String, Value>, name: &str) -> Outcome<Vec<u8>> {
    if let Some(text) = record.get(name).and_then(Value::as_str) {
        return Ok(text.as_bytes().to_vec());
    }
    let digits = record.get(&format!("{name}_hex")).and_then(Value::as_str).unwrap_or_default();
    text::from_hex(digits).map_err(Failure::Failed)
}

/// Percent-encodes bytes for an address.
pub fn escape(bytes: &[u8]) -> String {
    let mut escaped = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

/// Returns the failure of a command that does not support servers.
fn not_for_servers(command: &str) -> Failure {
    Failure::Usage(match ELSEWHERE.iter().find(|(name, _)| *name == command) {
        Some((_, instead)) => format!("`{command}` works on a directory, not on a server: {instead}"),
        None => {
            let known = COMMANDS.join(", ");
            format!("{command:?} does not work with --url; these commands do: {known}")
        }
    })
}

/// Converts `pando --url ADDRESS get TABLE KEY` to `pando get ADDRESS TABLE KEY`: the address takes the place of the
/// directory.
pub fn expand(mut words: Vec<std::ffi::OsString>) -> Outcome<Vec<std::ffi::OsString>> {
    let Some(flag) = words.get(1).and_then(|word| word.to_str()).map(str::to_owned) else { return Ok(words) };
    let address = match flag.strip_prefix("--url=") {
        Some(address) => address.into(),
        None if flag == "--url" && words.len() > 2 => words.remove(2),
        // The profiled command may use a server.
        None if flag != "profile" && ELSEWHERE.iter().any(|(name, _)| *name == flag) => {
            let is_server = |scheme: &str| ["http", "https"].contains(&scheme.to_ascii_lowercase().as_str());
            let is_address = |word: &std::ffi::OsString| {
                address(Path::new(word)).is_some_and(|(scheme, _)| is_server(scheme))
            };
            return if words.iter().any(is_address) { Err(not_for_servers(&flag)) } else { Ok(words) };
        }
        None => return Ok(words),
    };
    words.remove(1);
    let command = words.get(1).and_then(|word| word.to_str()).unwrap_or_default();
    if !COMMANDS.contains(&command) {
        return Err(not_for_servers(command));
    }
    words.insert(2, address);
    Ok(words)
}

/// Configures how the server is verified.
#[cfg(feature = "tls")]
pub fn encrypted(config: ConfigBuilder<AgentScope>) -> Outcome<ConfigBuilder<AgentScope>> {
    let Some(path) = std::env::var_os("PANDO_CA_CERT") else { return Ok(config) };
    let shown = Path::new(&path).display();
    let wrong = |problem: String| Failure::Usage(format!("PANDO_CA_CERT: {shown}: {problem}"));
    let bytes = std::fs::read(&path).map_err(|error| wrong(error.to_string()))?;
    let items: Result<Vec<PemItem<'_>>, _> = parse_pem(&bytes).collect();
    let authorities = items.map_err(|error| wrong(error.to_string()))?;
    let authorities: Vec<Certificate<'static>> = authorities
        .into_iter()
        .filter_map(|item| match item {
            PemItem::Certificate(certificate) => Some(certificate.to_owned()),
            _ => None,
        })
        .collect();
    if authorities.is_empty() {
        return Err(wrong("there is no certificate in it".to_owned()));
    }
    Ok(config.tls_config(TlsConfig::builder().root_certs(authorities.into()).build()))
}

/// Refuses the address: this build has no encryption.
#[cfg(not(feature = "tls"))]
pub fn encrypted(_: ConfigBuilder<AgentScope>) -> Outcome<ConfigBuilder<AgentScope>> {
    let message = "this build of pando does not support HTTPS: build it with the feature `tls`, or connect \
                   through a TLS proxy on this machine (`http://127.0.0.1:...`)";
    Err(Failure::Usage(message.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_takes_the_place_of_a_directory() {
        let words = |line: &str| line.split(' ').map(Into::into).collect::<Vec<std::ffi::OsString>>();
        let expanded = |line: &str| expand(words(line)).ok();
        assert_eq!(expanded("pando --url http://h get t k"), Some(words("pando get http://h t k")));
        assert_eq!(
            expanded("pando --url=http://h tables --json"),
            Some(words("pando tables http://h --json"))
        );
        assert_eq!(expanded("pando get d t k"), Some(words("pando get d t k")));
        assert_eq!(expanded("pando --url http://h salvage x"), None);
        assert_eq!(expanded("pando"), Some(words("pando")));
        let refused = |line: &str| expand(words(line)).unwrap_err().message();
        assert!(refused("pando --url http://h restore x").contains("below the served directory"));
        assert!(refused("pando restore x http://h/shop").contains("below the served directory"));
        assert!(refused("pando --url http://h demo").contains("does not work with --url"));
        assert_eq!(expanded("pando restore x y"), Some(words("pando restore x y")));
        assert!(expanded("pando profile -- pando get http://h t k").is_some());
    }

    #[test]
    fn an_address_names_a_database() {
        let base = |address: &str| Remote::find(Path::new(address)).unwrap().map(|remote| remote.base);
        assert_eq!(base("http://h:1").as_deref(), Some("http://h:1/v1/databases/default"));
        assert_eq!(base("http://h:1/").as_deref(), Some("http://h:1/v1/databases/default"));
        assert_eq!(base("http://h:1/shop").as_deref(), Some("http://h:1/v1/databases/shop"));
        assert_eq!(base("HTTP://h:1/shop").as_deref(), Some("http://h:1/v1/databases/shop"));
        for path in ["some/dir", "./http://h", "/a://b", "://b", "1a://b"] {
            assert_eq!(base(path), None, "{path}");
        }
        for place in ["htp://h/shop", "s3://bucket", "postgres://app:secret@db/shop"] {
            let said = Remote::find(Path::new(place)).unwrap_err().message();
            assert!(said.contains("begins with http:// or https://"), "{said}");
        }
        #[cfg(feature = "tls")]
        assert_eq!(base("https://h/shop").as_deref(), Some("https://h/v1/databases/shop"));
        #[cfg(not(feature = "tls"))]
        assert!(Remote::find(Path::new("https://h")).is_err());
    }
}
