//! Another server as the source of a replica: backups and the binary form of `GET .../changes`.
//!
//! A replica is a consumer of its primary's changes, so that the primary keeps what the replica still needs, also while
//! it is away. A copy is made in this order, so that no commit is missing after it: the consumer is created, then a
//! backup is taken and restored, then the changes after the backup are read.

use crate::failure::{Failure, Outcome};
use crate::remote::encrypted;
use pando::{Database, Error, ErrorKind, Result};
use serde_json::{Map, Value};
use server::following::{Feed, Source, TakeOver, Watch};
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant};
use ureq::http::{Request, Response, StatusCode, header};
use ureq::{Agent, Body, SendBody};

/// How long a stream of changes goes on without a change, in seconds. Then it is opened again, so that a replica ends
/// within about this time.
const WAIT_SECONDS: u32 = 1;
/// How often the primary learns what it need not keep any longer. It syncs files for that.
const ACKNOWLEDGE: Duration = Duration::from_secs(5);
/// How often the primary is asked for its newest commit, and how often what was applied is synced.
const LOOK: Duration = Duration::from_secs(1);
/// The header of a stream of changes that names the database and its fork.
const IDENTITY: &str = "pando-identity";
/// The longest response that is read into memory.
const ANSWER_BYTES: u64 = 16 << 20;

/// A server, by its address.
#[derive(Clone, Debug)]
pub struct Primary {
    /// For short responses.
    asking: Agent,
    /// For streams of changes.
    streaming: Agent,
    /// For backups, whose pieces can be long in coming.
    copying: Agent,
    /// For a promotion, which applies everything first.
    promoting: Agent,
    base: String,
    token: Option<String>,
}

/// Returns a client that verifies the server if `is_encrypted`, and waits for `read` at each read and `all` in total.
fn agent(is_encrypted: bool, read: Duration, all: Option<Duration>) -> Outcome<Agent> {
    let config = Agent::config_builder().http_status_as_error(false).max_redirects(0).proxy(None);
    let config = config.timeout_connect(Some(Duration::from_secs(5))).timeout_per_read(Some(read));
    let config = config.timeout_global(all);
    let config = if is_encrypted { encrypted(config)? } else { config };
    Ok(Agent::new_with_config(config.build()))
}

/// Returns the scheme and the host at `address`; `None` if that is no address of a server.
fn server_at(address: &str) -> Outcome<Option<(&str, &str)>> {
    let (scheme, host) = match address.split_once("://") {
        Some((scheme @ ("http" | "https"), host)) => (scheme, host.trim_end_matches('/')),
        _ => return Ok(None),
    };
    if host.is_empty() || host.contains(['/', '?', '#', '@']) {
        let message = "write http://HOST:PORT or https://HOST:PORT, without a database or another path";
        return Err(Failure::Usage(format!("{address}: {message}")));
    }
    Ok(Some((scheme, host)))
}

/// Returns whether `address` is that of a server, and not of a bucket.
#[cfg(feature = "ship")]
pub fn is_server(address: &str) -> bool {
    !matches!(server_at(address), Ok(None))
}

impl Primary {
    /// Returns the server at `address`; `None` if that is no address of a server. The token is taken from
    /// `PANDO_FOLLOW_TOKEN` or `PANDO_TOKEN`.
    pub fn at(address: &str) -> Outcome<Option<Self>> {
        let Some((scheme, host)) = server_at(address)? else { return Ok(None) };
        let agent = |read, all: Option<u64>| {
            agent(scheme == "https", Duration::from_secs(read), all.map(Duration::from_secs))
        };
        let token = ["PANDO_FOLLOW_TOKEN", "PANDO_TOKEN"].iter().find_map(|name| std::env::var(name).ok());
        Ok(Some(Primary {
            asking: agent(5, Some(5))?,
            streaming: agent(5, None)?,
            copying: agent(60, None)?,
            promoting: agent(3600, None)?,
            base: format!("{scheme}://{host}"),
            token,
        }))
    }

    /// Returns the server at `address` as [`Primary::at`] does, with the token of commands.
    pub fn for_command(address: &str) -> Outcome<Option<Self>> {
        let token = std::env::var("PANDO_TOKEN").ok();
        Ok(Primary::at(address)?.map(|server| Primary { token, ..server }))
    }

    /// Sends a request without a body. Returns the response if it is a success.
    fn ask(&self, agent: &Agent, method: &str, path: &str) -> Result<Response<Body>> {
        let response = self.send(agent, method, path)?;
        if response.status().is_success() { Ok(response) } else { Err(self.refused(path, response)) }
    }

    /// Sends a request without a body. Returns the response, which may be a refusal.
    fn send(&self, agent: &Agent, method: &str, path: &str) -> Result<Response<Body>> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let wrong = |error| Error::invalid(format!("{}: {error}", self.base));
        let answered = match method {
            "GET" => agent.run(request.body(()).map_err(wrong)?),
            _ => agent.run(request.body(SendBody::none()).map_err(wrong)?),
        };
        let failed = |error: ureq::Error| Error::new(ErrorKind::Io, format!("{}{path}: {error}", self.base));
        answered.map_err(failed)
    }

    /// Converts a refusal to an error.
    fn refused(&self, path: &str, response: Response<Body>) -> Error {
        let status = response.status().as_u16();
        let problem = object(response).unwrap_or_default();
        let detail = problem.get("detail").and_then(Value::as_str).unwrap_or("no details");
        let kind = match status {
            404 => ErrorKind::Missing,
            409 => ErrorKind::Mismatch,
            410 => ErrorKind::TooOld,
            400 | 401 | 403 => ErrorKind::Invalid,
            _ => ErrorKind::Io,
        };
        let refused = match (status, &self.token) {
            (401 | 403, Some(_)) => "the token was refused: ",
            (401 | 403, None) => "there is no token: ",
            _ => "",
        };
        Error::new(kind, format!("{}{path}: {refused}{detail} ({status})", self.base))
    }

    /// Sends a request and returns the JSON object of the response.
    pub fn ask_json(&self, method: &str, path: &str) -> Result<Map<String, Value>> {
        object(self.ask(&self.asking, method, path)?)
    }

    /// Makes the server the primary. Returns the JSON object of the response, which may take an hour.
    pub fn promote(&self) -> Result<Map<String, Value>> {
        object(self.ask(&self.promoting, "POST", "/v1/promote")?)
    }

    fn newest(&self, name: &str) -> Result<u64> {
        let stats = self.ask_json("GET", &format!("/v1/databases/{name}/stats"))?;
        let unreadable = || Error::new(ErrorKind::Io, "the stats of the primary have no last_commit");
        stats.get("last_commit").and_then(Value::as_u64).ok_or_else(unreadable)
    }

    /// Acknowledges the commit `applied` for a replica, or creates its consumer. A consumer that has lost its position
    /// is replaced, because only the replica can notice what it lacks.
    fn acknowledge(&self, name: &str, replica: &str, applied: Option<u64>) -> Result<()> {
        let consumer = format!("/v1/databases/{name}/consumers/replica-{replica}");
        let query = applied.map_or_else(String::new, |commit| format!("?acknowledge={commit}"));
        let path = format!("{consumer}{query}");
        match self.ask(&self.asking, "PUT", &path) {
            Err(error) if error.kind() == ErrorKind::TooOld => {
                self.ask(&self.asking, "DELETE", &consumer)?;
                self.ask(&self.asking, "PUT", &path).map(drop)
            }
            done => done.map(drop),
        }
    }
}

/// Checks the address to which writes are redirected. It may be one that only clients can reach.
pub fn redirect_to(address: &str) -> Outcome<String> {
    match server_at(address)? {
        Some((scheme, host)) => Ok(format!("{scheme}://{host}")),
        None => Err(Failure::Usage(format!("{address}: write http://HOST:PORT or https://HOST:PORT"))),
    }
}

fn object(response: Response<Body>) -> Result<Map<String, Value>> {
    let mut text = Vec::new();
    let unreadable =
        |what: String| Error::new(ErrorKind::Io, format!("cannot read the response of the primary: {what}"));
    let read = response.into_body().into_reader().take(ANSWER_BYTES).read_to_end(&mut text);
    read.map_err(|error| unreadable(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))
}

/// A server as the source of a replica.
#[derive(Debug)]
pub struct FromServer {
    server: Primary,
    /// The address to which writes are redirected.
    primary: String,
}

impl FromServer {
    /// Follows `server`. Writes are redirected to `primary`, or to the same server.
    pub fn new(server: Primary, primary: Option<&str>) -> Outcome<Self> {
        let primary = match primary {
            Some(address) => redirect_to(address)?,
            None => server.base.clone(),
        };
        Ok(FromServer { server, primary })
    }

    fn feed(&self, name: &str) -> Box<dyn Feed> {
        let (server, name) = (self.server.clone(), name.to_owned());
        Box::new(FromStream { server, name, looked: None, acknowledged: None })
    }
}

impl Source for FromServer {
    fn address(&self) -> &str {
        &self.server.base
    }

    fn primary(&self) -> Option<&str> {
        Some(&self.primary)
    }

    fn databases(&self) -> Result<Vec<String>> {
        let answer = self.server.ask_json("GET", "/v1/databases")?;
        let unreadable = || Error::new(ErrorKind::Io, "the primary's list of databases cannot be read");
        let list = answer.get("databases").and_then(Value::as_array).ok_or_else(unreadable)?;
        let name = |database: &Value| database["name"].as_str().map(str::to_owned).ok_or_else(unreadable);
        list.iter().map(name).collect()
    }

    fn to_take_over(&self, _: &dyn Fn(&str) -> bool) -> Result<Vec<String>> {
        // The primary has failed, or is to be stopped: what is here is all.
        Ok(Vec::new())
    }

    fn copy(&self, name: &str, dir: &Path, watch: &dyn Watch) -> Result<Box<dyn Feed>> {
        watch.reached(self.server.newest(name)?);
        self.server.acknowledge(name, watch.replica(), None)?;
        let path = format!("/v1/databases/{name}/backup");
        let backup = self.server.ask(&self.server.copying, "GET", &path)?;
        let mut backup = Until { input: backup.into_body().into_reader(), watch };
        pando::restore_stream(&mut backup, dir)?;
        Ok(self.feed(name))
    }

    fn resume(&self, name: &str, _: &Path, _: &Database) -> Result<Box<dyn Feed>> {
        Ok(self.feed(name))
    }

    fn take_over(&self, _: &str, _: &Path, db: &Database) -> Result<TakeOver> {
        // Nothing keeps the other server from accepting writes: that is for its operator to see to.
        db.sync().map(|()| TakeOver::Done)
    }
}

impl Primary {
    /// Opens a stream after the last commit of `db`.
    ///
    /// # Errors
    /// `Mismatch` if the changes cannot be applied to `db`. An older server does not name its database: then the first
    /// change shows which one it is.
    fn changes_after(&self, name: &str, db: &Database) -> Result<Box<dyn Read + Send>> {
        let last = db.snapshot()?.commit_number();
        let path = format!("/v1/databases/{name}/changes?format=binary&after={last}&wait={WAIT_SECONDS}");
        let response = self.send(&self.streaming, "GET", &path)?;
        if !response.status().is_success() {
            let is_of_commit = response.status() == StatusCode::BAD_REQUEST;
            let error = self.refused(&path, response);
            if is_of_commit {
                let message = format!("{name:?} has commit {last} here, which the primary may lack");
                return Err(Error::new(ErrorKind::Mismatch, message).caused_by(error));
            }
            return Err(error);
        }
        if let Some(identity) = response.headers().get(IDENTITY) {
            let identity = identity.to_str().ok().and_then(|text| text.parse().ok());
            let unreadable = || {
                Error::new(
                    ErrorKind::Io,
                    format!("{}{path}: the header {IDENTITY} cannot be read", self.base),
                )
            };
            let checked = db.check_follows(identity.ok_or_else(unreadable)?);
            checked.map_err(|error| error.within(format!("{name:?} cannot follow {}", self.base)))?;
        }
        Ok(Box::new(response.into_body().into_reader()))
    }
}

/// One database of a server, followed.
struct FromStream {
    server: Primary,
    name: String,
    /// When the primary was asked for its newest commit.
    looked: Option<Instant>,
    /// The last commit that was acknowledged, and when.
    acknowledged: Option<(u64, Instant)>,
}

impl Feed for FromStream {
    fn run(&mut self, db: &Database, watch: &dyn Watch) -> Result<()> {
        while !watch.is_over() {
            let stream = self.server.changes_after(&self.name, db)?;
            let mut looked = Looked { stream, feed: self, db, watch, failure: None };
            match db.apply_changes(&mut looked) {
                Ok(_) => {}
                Err(_) if watch.is_over() => {}
                Err(error) => return Err(looked.failure.unwrap_or(error)),
            }
        }
        // What was applied need not be kept while this replica is away.
        self.acknowledge(db, watch).or_else(|_| Ok(()))
    }
}

impl FromStream {
    /// Syncs what was applied, and asks the primary how far it is.
    fn look(&mut self, db: &Database, watch: &dyn Watch) -> Result<()> {
        db.sync()?;
        watch.reached(self.server.newest(&self.name)?);
        self.looked = Some(Instant::now());
        if self.acknowledged.is_none_or(|(_, at)| at.elapsed() >= ACKNOWLEDGE) {
            self.acknowledge(db, watch)?;
        }
        Ok(())
    }

    /// Acknowledges what was applied, which is synced before.
    fn acknowledge(&mut self, db: &Database, watch: &dyn Watch) -> Result<()> {
        let applied = db.snapshot()?.commit_number();
        if self.acknowledged.is_none_or(|(commit, _)| commit < applied) {
            db.sync()?;
            self.server.acknowledge(&self.name, watch.replica(), Some(applied))?;
            self.acknowledged = Some((applied, Instant::now()));
        }
        Ok(())
    }
}

/// A backup that ends with the server.
struct Until<'w, R> {
    input: R,
    watch: &'w dyn Watch,
}

impl<R: Read> Read for Until<'_, R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.watch.is_over() {
            return Err(io::Error::other("the server ends"));
        }
        self.input.read(bytes)
    }
}

/// A stream of changes, during which the feed looks at the primary every second.
struct Looked<'f> {
    stream: Box<dyn Read + Send>,
    feed: &'f mut FromStream,
    db: &'f Database,
    watch: &'f dyn Watch,
    failure: Option<Error>,
}

impl Read for Looked<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.watch.is_over() {
            return Err(io::Error::other("the server ends"));
        }
        if self.feed.looked.is_none_or(|at| at.elapsed() >= LOOK) {
            self.feed.look(self.db, self.watch).map_err(|error| {
                let text = error.to_string();
                self.failure = Some(error);
                io::Error::other(text)
            })?;
        }
        self.stream.read(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::thread;

    /// A watch of the replica `r1`, which has no end.
    struct Endless;

    impl Watch for Endless {
        fn replica(&self) -> &str {
            "r1"
        }

        fn is_over(&self) -> bool {
            false
        }

        fn pause(&self, _: Duration) {}

        fn reached(&self, _: u64) {}
    }

    /// A server that sends these replies, one to each connection. Returns its address, and the requests that it got.
    fn server(replies: &'static [(u16, &str)]) -> (String, thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let serving = thread::spawn(move || {
            let mut asked = Vec::new();
            for (status, body) in replies {
                let (mut stream, _) = listener.accept().unwrap();
                let mut head = BufReader::new(&stream).lines().map(|line| line.unwrap());
                asked.push(head.next().unwrap().trim_end_matches(" HTTP/1.1").to_owned());
                head.find(String::is_empty).expect("the end of the head");
                let length = body.len();
                let reply =
                    format!("HTTP/1.1 {status} -\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
                stream.write_all((reply + body).as_bytes()).unwrap();
            }
            asked
        });
        (address, serving)
    }

    #[test]
    fn the_primary_keeps_changes_before_a_copy_is_made_of_it() {
        let (address, serving) = server(&[(200, "{\"last_commit\":7}"), (201, "{}"), (500, "{}")]);
        let source = FromServer::new(Primary::at(&address).unwrap().unwrap(), None).unwrap();
        let dir = tempfile::tempdir().unwrap();
        assert!(source.copy("d", &dir.path().join("copy"), &Endless).is_err(), "there is no backup");
        let d = "/v1/databases/d";
        let expected =
            [format!("GET {d}/stats"), format!("PUT {d}/consumers/replica-r1"), format!("GET {d}/backup")];
        assert_eq!(serving.join().unwrap(), expected);
    }

    #[test]
    fn a_consumer_that_fell_behind_is_replaced() {
        let (address, serving) = server(&[(410, "{}"), (204, ""), (201, "{}")]);
        let primary = Primary::at(&address).unwrap().unwrap();
        primary.acknowledge("d", "r1", Some(9)).unwrap();
        let consumer = "/v1/databases/d/consumers/replica-r1";
        let put = format!("PUT {consumer}?acknowledge=9");
        assert_eq!(serving.join().unwrap(), [put.clone(), format!("DELETE {consumer}"), put]);
    }

    #[test]
    fn a_refused_token_is_not_taken_for_a_missing_commit() {
        let db = Database::builder().in_memory().unwrap();
        const PROBLEM: &str = "{\"detail\":\"this request needs a valid token\"}";
        let (address, serving) = server(&[(401, PROBLEM), (403, "{}"), (400, "{}")]);
        let primary = Primary { token: Some("t".to_owned()), ..Primary::at(&address).unwrap().unwrap() };
        let mut said = (0..3).map(|_| primary.changes_after("d", &db).err().unwrap().to_string());
        for refused in said.by_ref().take(2) {
            assert!(refused.contains("the token was refused") && !refused.contains("commit"), "{refused}");
        }
        let lacks = said.next().unwrap();
        assert!(lacks.contains("which the primary may lack") && !lacks.contains("token"), "{lacks}");
        serving.join().unwrap();
    }

    #[test]
    fn an_address_names_a_server_and_no_database() {
        let base = |address: &str| Primary::at(address).map(|server| server.map(|server| server.base));
        assert_eq!(base("http://h:1/").unwrap().as_deref(), Some("http://h:1"));
        assert_eq!(base("s3://bucket/x").unwrap(), None);
        assert_eq!(base("/folder").unwrap(), None);
        assert!(base("http://h:1/shop").unwrap_err().message().contains("without a database"));
        assert!(base("http://").is_err() && base("http://a@b").is_err() && base("https://h/shop").is_err());
        #[cfg(feature = "tls")]
        assert_eq!(base("https://h").unwrap().as_deref(), Some("https://h"));
        // Only clients use this one.
        assert_eq!(redirect_to("https://h/").unwrap(), "https://h");
        assert!(redirect_to("h:1").is_err());
    }
}
