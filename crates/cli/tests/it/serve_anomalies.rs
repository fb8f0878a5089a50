//! The anomalies of Hermitage through a server: three clients with a stream of Hrana each.
#![cfg(feature = "sql")]

#[path = "../../../sql/tests/it/support/hermitage.rs"]
pub mod hermitage;

use crate::http::{Client, Server};
use serde_json::{Value, json};

/// A stream, which goes on by the baton of its last response.
pub struct Stream {
    client: Client,
    baton: Option<String>,
}

impl Stream {
    pub fn of(server: &Server) -> Self {
        Stream { client: server.connect(), baton: None }
    }
}

impl hermitage::Client for Stream {
    fn run(&mut self, sql: &str) -> Result<Vec<String>, hermitage::Failure> {
        let request = json!({"type": "execute", "stmt": {"sql": sql}});
        let body = json!({"baton": self.baton, "requests": [request]}).to_string();
        let path = "/v1/databases/default/hrana/v3/pipeline";
        let reply = self.client.ask("POST", path, &[], body.as_bytes());
        assert_eq!(reply.status, 200, "{sql}: {reply:?}");
        let reply: Value = serde_json::from_slice(&reply.body).unwrap();
        self.baton = Some(reply["baton"].as_str().unwrap().to_owned());
        let result = &reply["results"][0];
        if result["type"] == "ok" {
            let rows = result["response"]["result"]["rows"].as_array().unwrap();
            return Ok(rows.iter().map(|row| row[0]["value"].as_str().unwrap().to_owned()).collect());
        }
        Err(match result["error"]["code"] == "SQLITE_BUSY" {
            true => hermitage::Failure::Conflict,
            false => hermitage::Failure::Other(result["error"].to_string()),
        })
    }
}

#[test]
fn clients_of_a_server_meet_no_anomaly() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(dir.path(), &["--hrana"]);
    let mut clients = std::array::from_fn(|_| Stream::of(&server));
    hermitage::run_all(&mut clients);
}
