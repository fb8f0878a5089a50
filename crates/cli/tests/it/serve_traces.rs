//! Requests as spans, at a collector that keeps what it gets.

use crate::common::{failure, pando};
use crate::http::Server;
use crate::serving::command;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A collector of traces: an HTTP server that understands as much as an exporter sends.
struct Collector {
    address: SocketAddr,
    bodies: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, bodies) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<Value>>>::default());
        let kept = Arc::clone(&bodies);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let kept = Arc::clone(&kept);
                // What is kept is kept before the response: the server ends once it has that.
                let keep = move |body| kept.lock().unwrap().push(body);
                thread::spawn(move || while receive(stream.as_ref().unwrap(), &keep).is_some() {});
            }
        });
        Collector { address, bodies }
    }

    /// The spans of all requests so far.
    fn spans(&self) -> Vec<Value> {
        let mut spans = Vec::new();
        for body in self.bodies.lock().unwrap().iter() {
            for resource in body["resourceSpans"].as_array().unwrap() {
                for scope in resource["scopeSpans"].as_array().unwrap() {
                    spans.extend(scope["spans"].as_array().unwrap().iter().cloned());
                }
            }
        }
        spans
    }
}

/// Takes one request of an exporter; `None` at the end of the connection.
fn receive(stream: &TcpStream, keep: &impl Fn(Value)) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut length, mut first) = (0, String::new());
    reader.read_line(&mut first).ok().filter(|&bytes| bytes > 0)?;
    assert!(first.starts_with("POST /v1/traces "), "{first}");
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let response = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    keep(serde_json::from_slice(&body).unwrap());
    { stream }.write_all(response.as_bytes()).unwrap();
    Some(())
}

fn attribute<'v>(span: &'v Value, name: &str) -> Option<&'v Value> {
    let attributes = span["attributes"].as_array()?;
    let found = attributes.iter().find(|attribute| attribute["key"] == name)?;
    found["value"].as_object()?.values().next()
}

fn nanoseconds(span: &Value, name: &str) -> u64 {
    match &span[name] {
        Value::String(digits) => digits.parse().unwrap(),
        number => number.as_u64().unwrap(),
    }
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

#[test]
fn requests_are_spans_of_the_trace_of_their_client() {
    let (dir, collector) = (tempfile::tempdir().unwrap(), Collector::start());
    let mut command = command(dir.path(), &["--otlp", &format!("http://{}", collector.address)]);
    command.env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json");
    // A proxy of the environment does not reach a collector of this machine.
    command.env("http_proxy", "http://127.0.0.1:9").env("HTTP_PROXY", "http://127.0.0.1:9");
    let server = Server::of(command);
    let parent = |flags: &str| format!("00-{TRACE}-{PARENT}-{flags}");
    let [sampled, unsampled] = [parent("01"), parent("00")];
    let ask = |target: &str, headers: &[(&str, &str)]| server.ask_with("GET", target, headers, b"").status;
    let with_id = [("traceparent", &sampled[..]), ("x-request-id", "mine")];
    assert_eq!(ask("/v0/entity?id=secret", &with_id), 404);
    assert_eq!(ask("/v1/databases/default", &[("traceparent", &unsampled)]), 200);
    assert_eq!(ask("/v1/databases/none/tables/t/entries/secret", &[]), 404);
    assert_eq!(ask("/unknown/secret", &[]), 404);
    // A large value takes more than the millisecond from which on the phases of a write are kept.
    for n in 0..20 {
        let put = server.ask("PUT", &format!("/v0/entity?id=secret{n}"), &vec![b'v'; 1 << 20]);
        assert_eq!(put.status, 201);
    }
    // At its end, the server sends what is left.
    assert!(server.terminate().success());

    let spans = collector.spans();
    let text = serde_json::to_string(&spans).unwrap();
    assert!(!text.contains("secret"), "keys are data: {text}");
    let named = |name: &str| -> Vec<&Value> { spans.iter().filter(|span| span["name"] == name).collect() };

    let [read] = named("GET /v0/entity")[..] else { panic!("{text}") };
    assert_eq!((&read["traceId"], &read["parentSpanId"]), (&TRACE.into(), &PARENT.into()));
    assert_eq!(attribute(read, "http.response.status_code").unwrap().to_string().trim_matches('"'), "404");
    assert_eq!(attribute(read, "http.route").unwrap(), "/v0/entity");
    assert_eq!(attribute(read, "pando.request_id").unwrap(), "mine");
    assert!(named("GET /v1/databases/{database}").is_empty(), "its client does not record the trace");
    let [of_key] = named("GET /v1/databases/{database}/tables/{table}/entries/{key}")[..] else {
        panic!("{text}")
    };
    assert_ne!(of_key["traceId"], TRACE);
    assert_eq!(attribute(of_key, "http.request.method").unwrap(), "GET");
    let [unknown] = named("HTTP")[..] else { panic!("{text}") };
    assert_eq!(attribute(unknown, "http.request.method").unwrap(), "_OTHER");

    let writes = named("PUT /v0/entity");
    assert_eq!(writes.len(), 20);
    let commits = named("commit");
    assert!(!commits.is_empty(), "{text}");
    for commit in commits {
        let write = writes.iter().find(|write| write["spanId"] == commit["parentSpanId"]).unwrap();
        assert_eq!(write["traceId"], commit["traceId"]);
        let queues = named("queue");
        let queue = queues.iter().find(|queue| queue["parentSpanId"] == commit["parentSpanId"]).unwrap();
        let [begun, ended] = ["startTimeUnixNano", "endTimeUnixNano"];
        assert_eq!(nanoseconds(queue, ended), nanoseconds(commit, begun));
        assert_eq!(nanoseconds(commit, ended), nanoseconds(write, ended));
        assert!(nanoseconds(queue, begun) >= nanoseconds(write, begun));
        assert!(nanoseconds(commit, begun) < nanoseconds(commit, ended));
    }
}

#[test]
fn a_collector_that_is_away_disturbs_nobody() {
    let dir = tempfile::tempdir().unwrap();
    // The port is closed again.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Server::start_with(dir.path(), &["--otlp", &format!("http://{address}/v1/traces")]);
    for n in 0..3000 {
        assert_eq!(server.ask("GET", &format!("/v0/entity?id={n}"), b"").status, 404);
    }
    assert!(server.terminate().success());
    let dir = dir.path().to_str().unwrap();
    let refused = failure(pando(["serve", dir, "--otlp", "localhost:4318"]), 2);
    assert!(refused.contains("begins with http://"), "{refused}");
}
