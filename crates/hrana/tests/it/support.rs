//! A stream, and what it replies.

use pando_hrana::{Cursor, Lines, Pipeline, Reply, Stop, Stream};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub struct Client {
    pub stream: Stream,
    pub may_write: bool,
    pub most_bytes: usize,
}

pub fn sql() -> sql::Sql {
    sql::Sql::new(pando::Database::builder().in_memory().unwrap())
}

pub fn stop() -> Stop {
    Stop::after(Duration::from_secs(60))
}

impl Client {
    pub fn of(sql: &sql::Sql) -> Self {
        let stream = Stream::new(sql.connect().unwrap()).unwrap();
        Client { stream, may_write: true, most_bytes: 16 << 20 }
    }

    /// The results of a pipeline.
    pub fn pipeline(&mut self, requests: Value) -> Vec<Value> {
        self.pipeline_until(requests, &stop())
    }

    pub fn pipeline_until(&mut self, requests: Value, stop: &Stop) -> Vec<Value> {
        let body = json!({ "requests": requests }).to_string();
        let pipeline = Pipeline::read(body.as_bytes()).unwrap();
        let mut reply = Reply::new(self.most_bytes, |_| true);
        self.stream.run(pipeline.requests, self.may_write, stop, &mut reply);
        let reply: Value = serde_json::from_slice(&reply.finish(Some("next"))).unwrap();
        assert_eq!((&reply["baton"], &reply["base_url"]), (&json!("next"), &Value::Null));
        reply["results"].as_array().unwrap().clone()
    }

    /// The response to one request, or the code of its error.
    pub fn ask(&mut self, request: Value) -> Result<Value, String> {
        let kind = request["type"].clone();
        let mut results = self.pipeline(json!([request]));
        assert_eq!(results.len(), 1);
        let result = results.remove(0);
        match result["type"].as_str().unwrap() {
            "ok" => {
                assert_eq!(result["response"]["type"], kind);
                Ok(result["response"].clone())
            }
            _ => Err(result["error"]["code"].as_str().unwrap().to_owned()),
        }
    }

    /// The result of one statement, or the code of its error.
    pub fn execute(&mut self, sql: &str) -> Result<Value, String> {
        self.ask(json!({"type": "execute", "stmt": {"sql": sql}})).map(|response| response["result"].clone())
    }

    /// The rows of a query, with their values as texts.
    pub fn rows(&mut self, sql: &str) -> Vec<Vec<String>> {
        let result = self.execute(sql).unwrap();
        let text = |value: &Value| value["value"].as_str().map_or(value.to_string(), str::to_owned);
        let row = |row: &Value| row.as_array().unwrap().iter().map(text).collect();
        result["rows"].as_array().unwrap().iter().map(row).collect()
    }

    /// The lines of a cursor after the first.
    pub fn cursor(&mut self, steps: Value) -> Vec<Value> {
        let body = json!({ "batch": { "steps": steps } }).to_string();
        let cursor = Cursor::read(body.as_bytes()).unwrap();
        let pieces = Arc::new(Mutex::new(Vec::new()));
        let sent = Arc::clone(&pieces);
        let mut lines = Lines::new(Some("next"), move |piece| {
            sent.lock().unwrap().extend(piece);
            Ok(())
        });
        self.stream.run_cursor(&cursor.batch, self.may_write, &stop(), &mut lines);
        let last = lines.finish();
        let mut text = std::mem::take(&mut *pieces.lock().unwrap());
        text.extend(last);
        let text = String::from_utf8(text).unwrap();
        let mut lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let first: Value = lines.next().unwrap();
        assert_eq!(first["baton"], "next");
        lines.collect()
    }
}
