//! A server in a process of its own, and a client that says exactly what a test wants said. The tests of `pando serve`
//! use this file, too: `crate::serving` of either program has what starts a server.
#![allow(dead_code)] // Each of the two programs uses a part of it.

use crate::serving::command;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A running `pando serve`, killed when dropped.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    /// Its standard output, which stays open: a test program writes there after a minute, and ends if it cannot.
    _said: BufReader<ChildStdout>,
}

impl Server {
    /// Serves `dir` at a free port.
    pub fn start(dir: &Path) -> Self {
        Server::start_with(dir, &[])
    }

    pub fn start_with(dir: &Path, options: &[&str]) -> Self {
        Server::of(command(dir, options))
    }

    /// What a command starts that says its address on standard output.
    pub fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut lines = said.by_ref().lines().map_while(|line| line.ok());
        let address = lines.find_map(|line| Some(line.rsplit_once("://")?.1.parse().unwrap()));
        Server { child, address: address.expect("the start-up line has the address"), _said: said }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// As power loss would, but for the disk.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The same; returns what it said on standard error, if that was piped.
    pub fn kill_and_hear(mut self) -> String {
        self.child.kill().unwrap();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }

    /// Sends a signal.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }

    /// As an operator would.
    pub fn terminate(self) -> ExitStatus {
        self.signal("TERM");
        self.wait()
    }

    /// Waits for the server's end.
    pub fn wait(mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A connection.
    pub fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// One request on a connection of its own.
    pub fn ask(&self, method: &str, target: &str, body: &[u8]) -> Reply {
        self.connect().ask(method, target, &[], body)
    }

    /// The same with headers.
    pub fn ask_with(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        self.connect().ask(method, target, headers, body)
    }

    /// The memory of the process now, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection that stays open from request to request.
pub struct Client {
    pub stream: BufReader<TcpStream>,
}

/// A response.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Of a chunked body, each chunk.
    pub chunks: Vec<Vec<u8>>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream: BufReader::new(stream) }
    }

    pub fn ask(&mut self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        self.try_ask(method, target, headers, body).expect("a response")
    }

    pub fn try_ask(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> std::io::Result<Reply> {
        let mut head = format!("{method} {target} HTTP/1.1\r\nhost: test\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() || matches!(method, "PUT" | "POST") {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        let mut message = head.into_bytes();
        message.extend_from_slice(body);
        self.send(&message)?;
        self.reply(method == "HEAD")
    }

    /// Sends the head of a PUT, and returns once the server asks for the body: the request is under way.
    pub fn begin_put(&mut self, target: &str, length: usize) {
        let head = format!("PUT {target} HTTP/1.1\r\nhost: test\r\ncontent-length: {length}\r\n");
        self.send(format!("{head}expect: 100-continue\r\n\r\n").as_bytes()).unwrap();
        assert_eq!(self.reply_head().unwrap().status, 100);
    }

    /// Bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// The status line and the headers of the next response.
    pub fn reply_head(&mut self) -> std::io::Result<Reply> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status line: {line:?}"));
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        Ok(Reply { status, headers, body: Vec::new(), chunks: Vec::new() })
    }

    pub fn reply(&mut self, no_body: bool) -> std::io::Result<Reply> {
        let mut reply = self.reply_head()?;
        if no_body || matches!(reply.status, 204 | 304) {
            return Ok(reply);
        }
        if reply.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk()? {
                reply.body.extend_from_slice(&chunk);
                reply.chunks.push(chunk);
            }
        } else {
            let length = reply.header("content-length").expect("a length").parse().unwrap();
            reply.body.resize(length, 0);
            self.stream.read_exact(&mut reply.body)?;
        }
        Ok(reply)
    }

    /// The next chunk; `None` after the last one.
    pub fn chunk(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let length = usize::from_str_radix(line.trim(), 16).unwrap();
        let mut chunk = vec![0; length + 2];
        self.stream.read_exact(&mut chunk)?;
        assert_eq!(chunk.split_off(length), b"\r\n");
        Ok((length > 0).then_some(chunk))
    }
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| &value[..])
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// Every byte escaped.
pub fn escape(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("%{byte:02x}")).collect()
}
