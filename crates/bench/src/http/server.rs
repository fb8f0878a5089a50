//! Runs `pando serve` in a process of its own, so that its usage is separate from that of its clients.

use crate::{Failure, Outcome};
use serde_json::{Map, Value};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, fs, thread};

/// A running server, which is killed when this is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// The address on which it listens.
    pub address: SocketAddr,
}

impl Server {
    /// Serves `dir` at a free port. The program is `program`, or the running one, which supports `serve` if it is
    /// `pando`.
    pub fn start(program: Option<&Path>, dir: &Path, options: &[&str]) -> Outcome<Self> {
        let program = program.map_or_else(env::current_exe, |program| Ok(program.to_owned()))?;
        let mut child = Command::new(&program)
            .arg("serve")
            .arg(dir)
            .args(["--listen", "127.0.0.1:0"])
            .args(options)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line)?;
        let address = line.trim().rsplit_once("http://").and_then(|(_, address)| address.parse().ok());
        // If the server does not print its address, this value's drop ends it.
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        let server = Server { child, address: address.unwrap_or(unknown) };
        match address {
            Some(_) => Ok(server),
            None => Err(Failure::Usage(format!(
                "{} does not serve: run `pando bench http-kv`, or name the command with --server",
                program.display()
            ))),
        }
    }

    /// Returns the statistics of its default database.
    pub fn stats(&self) -> Outcome<Map<String, Value>> {
        self.object("/v1/databases/default/stats")
    }

    /// Returns the number of its connections, including that of this request.
    pub fn connections(&self) -> Outcome<u64> {
        let count = self.object("/v1/server")?.get("connections").and_then(Value::as_u64);
        count.ok_or_else(|| {
            Failure::Wrong("/v1/server does not say how many connections there are".to_owned())
        })
    }

    /// Waits up to some seconds until `are_right` accepts the number of connections. What is measured is the cost of
    /// the connections while they are open, and not the cost of closing earlier ones.
    pub fn await_connections(&self, are_right: impl Fn(u64) -> bool) -> Outcome<()> {
        for _ in 0..200 {
            if are_right(self.connections()?) {
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn object(&self, target: &str) -> Outcome<Map<String, Value>> {
        let body = self.get(target)?;
        serde_json::from_slice(&body).map_err(|error| Failure::Wrong(format!("{target}: {error}")))
    }

    /// Returns the response to a GET, on a connection of its own.
    fn get(&self, target: &str) -> Outcome<Vec<u8>> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.write_all(
            format!("GET {target} HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n").as_bytes(),
        )?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let head_end = answer.windows(4).position(|window| window == b"\r\n\r\n");
        let body =
            head_end.filter(|_| answer.starts_with(b"HTTP/1.1 200")).map(|end| answer.split_off(end + 4));
        body.ok_or_else(|| Failure::Wrong(format!("{target} was answered with {}", answer.escape_ascii())))
    }

    /// Returns the peak of its memory in bytes; `None` if the system does not report it.
    pub fn peak_memory_bytes(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib << 10)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its directory is removed too, so no clean shutdown is necessary.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
