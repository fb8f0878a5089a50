//! A door over a database in memory, and a client that reads replies as text.

use pando::Database;
use pando_resp::{Door, Host, Options, Permission};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A server with one database. Its tokens can change.
#[derive(Debug)]
pub struct Open {
    pub db: Database,
    pub tokens: Mutex<Vec<(&'static str, Permission)>>,
}

impl Host for Open {
    fn database(&self) -> &Database {
        &self.db
    }

    fn needs_token(&self) -> bool {
        !self.tokens.lock().unwrap().is_empty()
    }

    fn permission(&self, token: &[u8]) -> Permission {
        let tokens = self.tokens.lock().unwrap();
        let known = tokens.iter().find(|(known, _)| known.as_bytes() == token);
        known.map_or(Permission::Nothing, |(_, permission)| *permission)
    }
}

/// A door that closes when it is dropped.
pub struct Served {
    pub host: Arc<Open>,
    pub door: Door,
}

impl Served {
    pub fn start() -> Self {
        Served::with(Options::default())
    }

    pub fn with(options: Options) -> Self {
        Served::over(Database::builder().in_memory().unwrap(), options)
    }

    pub fn over(db: Database, options: Options) -> Self {
        let host = Arc::new(Open { db, tokens: Mutex::default() });
        let options = Options { listen: ([127, 0, 0, 1], 0).into(), ..options };
        let door = Door::open(host.clone(), options).unwrap();
        Served { host, door }
    }

    pub fn client(&self) -> Client {
        Client::connect(self.door.address())
    }

    /// Returns one of the door's figures.
    pub fn figure(&self, name: &str) -> usize {
        let figures = self.door.prometheus();
        let line = figures.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is not among {figures}")).parse().unwrap()
    }

    /// Waits until one of the door's figures has this value.
    #[track_caller]
    pub fn await_figure(&self, name: &str, value: usize) {
        let until = Instant::now() + Duration::from_secs(20);
        while self.figure(name) != value {
            assert!(Instant::now() < until, "{name} is {}, not {value}", self.figure(name));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until `count` clients wait for an element.
    #[track_caller]
    pub fn await_blocked(&self, count: usize) {
        self.await_figure("pando_redis_blocked_connections", count);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.door.close(Duration::from_secs(5));
    }
}

pub struct Client {
    pub stream: TcpStream,
    replies: BufReader<TcpStream>,
}

impl Client {
    pub fn connect(address: std::net::SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let replies = BufReader::new(stream.try_clone().unwrap());
        Client { stream, replies }
    }

    pub fn send(&mut self, words: &[&[u8]]) {
        self.stream.write_all(&encoded(words)).unwrap();
    }

    /// Sends a command of words, and returns its reply as text.
    #[track_caller]
    pub fn ask(&mut self, line: &str) -> String {
        self.send(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        self.reply()
    }

    pub fn ask_words(&mut self, words: &[&[u8]]) -> String {
        self.send(words);
        self.reply()
    }

    /// Checks the replies of several commands.
    #[track_caller]
    pub fn check(&mut self, expected: &[(&str, &str)]) {
        for (command, reply) in expected {
            let got = self.ask(command);
            // Of what is left to live, a busy machine may have taken some seconds by now.
            let (left, whole) = (got.parse::<i64>(), reply.parse::<i64>());
            if let (true, Ok(left), Ok(whole @ 6..)) = (command.starts_with("TTL "), left, whole) {
                assert!((whole - 5..=whole).contains(&left), "{command}: {left}, not {whole}");
            } else {
                assert_eq!(&got, reply, "{command}");
            }
        }
    }

    /// Returns the next reply: `"text"`, `3`, `OK`, `nil`, `[a, b]`, `{a: b}`, `<a>` for a set, `>[..]` for a message.
    #[track_caller]
    pub fn reply(&mut self) -> String {
        self.try_reply().expect("a reply")
    }

    pub fn try_reply(&mut self) -> Option<String> {
        let mut line = Vec::new();
        self.replies.read_until(b'\n', &mut line).ok()?;
        let line = String::from_utf8_lossy(line.strip_suffix(b"\r\n")?).into_owned();
        let (kind, rest) = (line.chars().next()?, &line[1..]);
        let several = |client: &mut Self, count: usize| {
            let replies: Option<Vec<String>> = (0..count).map(|_| client.try_reply()).collect();
            replies.map(|replies| replies.join(", "))
        };
        Some(match kind {
            '+' | ':' | ',' => rest.to_owned(),
            '-' => format!("-{rest}"),
            '_' => "nil".to_owned(),
            '$' | '=' if rest == "-1" => "nil".to_owned(),
            '$' | '=' => {
                let mut bytes = vec![0; rest.parse::<usize>().ok()? + 2];
                self.replies.read_exact(&mut bytes).ok()?;
                bytes.truncate(bytes.len() - 2);
                format!("{:?}", String::from_utf8_lossy(&bytes))
            }
            '*' if rest == "-1" => "nil".to_owned(),
            '*' => format!("[{}]", several(self, rest.parse().ok()?)?),
            '~' => format!("<{}>", several(self, rest.parse().ok()?)?),
            '>' => format!(">[{}]", several(self, rest.parse().ok()?)?),
            '%' => format!("{{{}}}", several(self, rest.parse::<usize>().ok()? * 2)?),
            other => panic!("an unknown reply: {other}{rest}"),
        })
    }
}

pub fn encoded(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
