//! A database inside an asynchronous server: each client of a line protocol over TCP is a task.
//!
//! Calls of the engine block, as a commit waits for the disk. Each request therefore runs in `spawn_blocking`, on a
//! thread that may wait, and the threads of the runtime go on with other clients. Commits that wait at the same time
//! share one flush of the log.
//!
//! The feature `aio` has calls for tasks, which need no thread while they wait: see the example `async_commits`.
//!
//! Run it with `cargo run -p pando-db --example async_server`.

use pando::{Database, Error, ErrorKind, Table};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, spawn_blocking};

const CLIENTS: u32 = 8;
const REQUESTS: u32 = 10;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What a request needs. Clones share one database.
#[derive(Clone)]
struct Counters {
    db: Database,
    table: Table,
}

impl Counters {
    /// Runs one request, and returns the reply. Blocks.
    fn run(&self, request: &str) -> pando::Result<String> {
        match request.split(' ').collect::<Vec<_>>()[..] {
            ["GET", key] => Ok(decode(self.db.get(&self.table, key.as_bytes())?).to_string()),
            ["ADD", key, amount] => {
                let amount = amount.parse::<u64>();
                let amount = amount.map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))?;
                // Two requests that add to one counter at the same time conflict, and `write` runs one of them again.
                self.db.write(|tx| {
                    let sum = decode(tx.get(&self.table, key.as_bytes())?) + amount;
                    tx.put(&self.table, key.as_bytes(), &sum.to_be_bytes())?;
                    Ok(sum.to_string())
                })
            }
            _ => Err(Error::new(ErrorKind::Invalid, "a request is `GET key` or `ADD key amount`")),
        }
    }
}

fn decode(value: Option<Vec<u8>>) -> u64 {
    value.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes)
}

/// Replies to each line of a client until it hangs up.
async fn serve(client: TcpStream, counters: Counters) -> Result<(), Failure> {
    let (reader, mut writer) = client.into_split();
    let mut requests = BufReader::new(reader).lines();
    while let Some(request) = requests.next_line().await? {
        let counters = counters.clone();
        let reply = spawn_blocking(move || counters.run(&request)).await?;
        let reply = reply.unwrap_or_else(|error| format!("error: {error}"));
        writer.write_all(format!("{reply}\n").as_bytes()).await?;
    }
    Ok(())
}

/// Sends requests, one after the other, and returns the last reply.
async fn ask(address: std::net::SocketAddr, request: &str, times: u32) -> Result<String, Failure> {
    let (reader, mut writer) = TcpStream::connect(address).await?.into_split();
    let mut replies = BufReader::new(reader).lines();
    let mut last = String::new();
    for _ in 0..times {
        writer.write_all(format!("{request}\n").as_bytes()).await?;
        last = replies.next_line().await?.ok_or("the server hung up")?;
    }
    Ok(last)
}

/// Runs the example, and asserts what it shows.
#[tokio::main]
pub async fn main() -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let db = Database::create(dir.path())?;
    let counters = Counters { table: db.ensure_table("counters")?, db };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let shared = counters.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client, shared.clone()));
        }
    });

    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(ask(address, "ADD visits 1", REQUESTS));
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    let visits = ask(address, "GET visits", 1).await?;
    println!("{CLIENTS} clients added {REQUESTS} visits each: the counter is {visits}");
    assert_eq!(visits, (CLIENTS * REQUESTS).to_string());
    println!("a wrong request gets {:?}", ask(address, "FLY", 1).await?);

    // Closing waits for the disk, too.
    spawn_blocking(move || counters.db.close()).await??;
    Ok(())
}
