//! What a database in PostgreSQL costs, beside the same work by statements written by hand.
//!
//! `cargo run --release --package pando-db-postgres --example figures URL` measures gets, single puts and batches of
//! 100 puts, with 1 to 8 threads. Pando and the statements by hand take turns in the same threads, each for a second,
//! and each figure is the median of its five turns. By hand each thread has a connection with the same client library,
//! the same isolation, and prepared statements on a relation of the same shape. Pando looks up the row of the table as
//! well, and a commit leaves a token by which it can be found: the statements of the rows `checked` do that by hand.
//! `scripts/postgres figures` starts a server for it.

use std::error::Error;
use std::process;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls};

const RECORDS: u64 = 100_000;
const VALUE: [u8; 100] = [7; 100];
const LASTS: Duration = Duration::from_secs(1);
const TURNS: usize = 5;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let url = std::env::args().nth(1).ok_or("give the URL of a PostgreSQL server")?;
    let db = pando_postgres::Options::default().schema("figures").open(&url)?;
    let t = db.ensure_table("figures")?;
    for start in (0..RECORDS).step_by(10_000) {
        db.write(|tx| (start..start + 10_000).try_for_each(|key| tx.put(&t, spread(key), VALUE)))?;
    }
    let mut by_hand = ByHand::connect(&url, "serializable")?;
    by_hand.fill()?;
    println!("{:<20} {:>8} {:>12} {:>12} {:>6}", "work", "threads", "Pando /s", "by hand /s", "ratio");
    let get = |key| db.get(&t, spread(key)).map(|found| assert!(found.is_some())).map_err(Into::into);
    let put = |key| db.put(&t, spread(key), VALUE).map_err(Into::into);
    let batch = |key| {
        let keys = (0..100).map(|place| spread(key + place));
        db.write(|tx| keys.clone().try_for_each(|key| tx.put(&t, key, VALUE))).map_err(Into::into)
    };
    for threads in [1, 2, 4, 8] {
        compare(&url, "gets", threads, get, ByHand::get);
        compare(&url, "gets, checked", threads, get, ByHand::get_checked);
        compare(&url, "single puts", threads, put, ByHand::put);
        compare(&url, "single puts, checked", threads, put, |hand, key| hand.write_checked(key, 1));
        compare(&url, "batches of 100", threads, batch, ByHand::batch);
        compare(&url, "batches, checked", threads, batch, |hand, key| hand.write_checked(key, 100));
    }
    Ok(())
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Returns a key whose place among the others is random.
fn spread(key: u64) -> [u8; 8] {
    (key % RECORDS).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Returns keys in order, so that two commits take their locks in the same one.
fn sorted(key: u64, count: u64) -> Vec<[u8; 8]> {
    let mut keys: Vec<_> = (0..count).map(|place| spread(key + place)).collect();
    keys.sort_unstable();
    keys
}

fn slices(keys: &[[u8; 8]]) -> Vec<&[u8]> {
    keys.iter().map(|key| &key[..]).collect()
}

/// Prints how often threads do some work in a second, in both ways. Threads and connections last for all turns.
fn compare(
    url: &str,
    work: &str,
    threads: u64,
    pando: impl Fn(u64) -> Outcome<()> + Sync,
    by_hand: fn(&mut ByHand, u64) -> Outcome<()>,
) {
    // Gets of Pando have the isolation of a snapshot.
    let isolation = if work.starts_with("gets") { "repeatable read" } else { "serializable" };
    let barrier = Barrier::new(threads as usize);
    let run = &|number: u64| -> Vec<[f64; 2]> {
        let mut hand = ByHand::connect(url, isolation).unwrap_or_else(|error| give_up(&*error));
        let turn = |work: &mut dyn FnMut(u64) -> Outcome<()>| {
            barrier.wait();
            let (begun, mut count) = (Instant::now(), 0);
            while begun.elapsed() < LASTS {
                // Threads are far apart, so that they do not conflict.
                let key = number * (RECORDS / 8) + (count * 101) % (RECORDS / 8);
                work(key).unwrap_or_else(|error| give_up(&*error));
                count += 1;
            }
            count as f64 / begun.elapsed().as_secs_f64()
        };
        (0..TURNS).map(|_| [turn(&mut |key| pando(key)), turn(&mut |key| by_hand(&mut hand, key))]).collect()
    };
    let rates: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|number| scope.spawn(move || run(number))).collect();
        running.into_iter().map(|thread| thread.join().expect("a thread panicked")).collect()
    });
    let of_all = |side: usize| {
        median((0..TURNS).map(|turn| rates.iter().map(|thread| thread[turn][side]).sum()).collect())
    };
    let (pando, hand) = (of_all(0), of_all(1));
    println!("{work:<20} {threads:>8} {pando:>12.0} {hand:>12.0} {:>6.2}", pando / hand);
}

/// Ends the process: other threads wait for the one that has failed.
fn give_up(error: &(dyn Error + Send + Sync)) -> ! {
    eprintln!("figures: {error}: {:?}", error.source());
    process::exit(1)
}

/// A connection of its own, with statements by hand.
struct ByHand {
    runtime: tokio::runtime::Runtime,
    client: Client,
    statements: [tokio_postgres::Statement; 5],
}

impl ByHand {
    fn connect(url: &str, isolation: &str) -> Outcome<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (client, statements) = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
            tokio::spawn(connection);
            let set_up = "SET plan_cache_mode = force_generic_plan;
                          CREATE TABLE IF NOT EXISTS by_hand (key bytea PRIMARY KEY, value bytea NOT NULL)
                          WITH (fillfactor = 90);
                          CREATE TABLE IF NOT EXISTS by_hand_commits (
                              token bytea PRIMARY KEY, made timestamptz NOT NULL DEFAULT now()
                          );
                          CREATE INDEX IF NOT EXISTS by_hand_made ON by_hand_commits (made)";
            client.batch_execute(set_up).await?;
            client.batch_execute(&format!("SET default_transaction_isolation = '{isolation}'")).await?;
            let put = "ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value";
            let statements = [
                client.prepare("SELECT value FROM by_hand WHERE key = $1").await?,
                client.prepare(&format!("INSERT INTO by_hand VALUES ($1, $2) {put}")).await?,
                client
                    .prepare(&format!(
                        "INSERT INTO by_hand SELECT * FROM unnest($1::bytea[], $2::bytea[]) {put}"
                    ))
                    .await?,
                client
                    .prepare(
                        "SELECT (SELECT value FROM by_hand WHERE key = $1),
                                (SELECT value FROM by_hand WHERE key = $2),
                                floor(extract(epoch FROM now()) * 1000)::int8",
                    )
                    .await?,
                client
                    .prepare(&format!(
                        "WITH token AS (INSERT INTO by_hand_commits VALUES ($3)),
                              puts AS (INSERT INTO by_hand SELECT * FROM unnest($1::bytea[], $2::bytea[]) {put})
                         SELECT value FROM by_hand WHERE key = $4"
                    ))
                    .await?,
            ];
            Outcome::Ok((client, statements))
        })?;
        Ok(ByHand { runtime, client, statements })
    }

    fn fill(&mut self) -> Outcome<()> {
        (0..RECORDS).step_by(100).try_for_each(|key| self.batch(key))
    }

    fn get(&mut self, key: u64) -> Outcome<()> {
        let key = &spread(key)[..];
        let found = self.runtime.block_on(self.client.query_opt(&self.statements[0], &[&key]))?;
        assert_eq!(found.map(|row| row.get::<_, Vec<u8>>(0).len()), Some(VALUE.len()));
        Ok(())
    }

    /// Gets a record with the row of its table, and the time, as Pando does.
    fn get_checked(&mut self, key: u64) -> Outcome<()> {
        let (key, table) = (&spread(key)[..], &spread(0)[..]);
        let found = self.runtime.block_on(self.client.query_one(&self.statements[3], &[&key, &table]))?;
        assert_eq!((found.get::<_, Vec<u8>>(0).len(), found.get::<_, Vec<u8>>(1).len()), (100, 100));
        assert!(found.get::<_, i64>(2) > 0);
        Ok(())
    }

    fn put(&mut self, key: u64) -> Outcome<()> {
        let (key, value) = (&spread(key)[..], &VALUE[..]);
        self.runtime.block_on(self.client.execute(&self.statements[1], &[&key, &value]))?;
        Ok(())
    }

    fn batch(&mut self, key: u64) -> Outcome<()> {
        let keys = sorted(key, 100);
        let (keys, values) = (slices(&keys), vec![&VALUE[..]; 100]);
        self.runtime.block_on(self.client.execute(&self.statements[2], &[&keys, &values]))?;
        Ok(())
    }

    /// Writes records with a token by which the commit can be found, and reads the row of their table, as Pando does.
    fn write_checked(&mut self, key: u64, count: u64) -> Outcome<()> {
        let keys = sorted(key, count);
        let (keys, values) = (slices(&keys), vec![&VALUE[..]; count as usize]);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos();
        let (token, table) = ([now as u64, key].map(u64::to_be_bytes).concat(), &spread(0)[..]);
        let params: [&(dyn ToSql + Sync); 4] = [&keys, &values, &token, &table];
        self.runtime.block_on(self.client.query_one(&self.statements[4], &params))?;
        Ok(())
    }
}
