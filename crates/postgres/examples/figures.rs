//! What a database in PostgreSQL costs, beside the same work by statements written by hand.
//!
//! `cargo run --release --package pando-db-postgres --example figures URL` measures gets, single puts and batches of
//! 100 puts, with 1 to 8 threads. Pando and the statements by hand take turns, each for a second, and each figure is
//! the median of its five turns. By hand each thread has a connection with the same client library, the same isolation,
//! and prepared statements on a relation of the same shape, without tokens and checks. A get of Pando looks its table
//! up as well; `gets, checked` compares it with a statement that does so, too.
//! `scripts/postgres figures` starts a server for it.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
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
    let mut by_hand = ByHand::connect(&url)?;
    by_hand.fill()?;
    println!("{:<18} {:>8} {:>12} {:>12} {:>6}", "work", "threads", "Pando /s", "by hand /s", "ratio");
    for threads in [1, 2, 4, 8] {
        let get = |key| db.get(&t, spread(key)).map(|found| assert!(found.is_some())).map_err(Into::into);
        let put = |key| db.put(&t, spread(key), VALUE).map_err(Into::into);
        let batch = |key| {
            let keys = (0..100).map(|place| spread(key + place));
            db.write(|tx| keys.clone().try_for_each(|key| tx.put(&t, key, VALUE))).map_err(Into::into)
        };
        let connect = || ByHand::connect(&url);
        let by_hand = |work: fn(&mut ByHand, u64) -> Outcome<()>| {
            measure(threads, || connect().map(|mut hand| move |key| work(&mut hand, key)))
        };
        let row = |work: &str,
                   pando: &dyn Fn() -> Outcome<f64>,
                   hand: fn(&mut ByHand, u64) -> Outcome<()>| {
            let turns = (0..TURNS).map(|_| Ok((pando()?, by_hand(hand)?))).collect::<Outcome<Vec<_>>>()?;
            let (pando, hand): (Vec<_>, Vec<_>) = turns.into_iter().unzip();
            let (pando, hand) = (median(pando), median(hand));
            println!("{work:<18} {threads:>8} {pando:>12.0} {hand:>12.0} {:>6.2}", pando / hand);
            Outcome::Ok(())
        };
        row("gets", &|| measure(threads, || Ok(get)), ByHand::get)?;
        row("gets, checked", &|| measure(threads, || Ok(get)), ByHand::get_checked)?;
        row("single puts", &|| measure(threads, || Ok(put)), ByHand::put)?;
        row("batches of 100", &|| measure(threads, || Ok(batch)), ByHand::batch)?;
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

/// Returns how often threads do the work in a second.
fn measure<W: FnMut(u64) -> Outcome<()>>(threads: u64, make: impl Fn() -> Outcome<W> + Sync) -> Outcome<f64> {
    let done = AtomicU64::new(0);
    let rates = thread::scope(|scope| {
        let run = |number: u64| {
            let (done, make) = (&done, &make);
            scope.spawn(move || -> Outcome<f64> {
                let mut work = make()?;
                let begun = Instant::now();
                let mut count = 0;
                while begun.elapsed() < LASTS {
                    // Threads are far apart, so that they do not conflict.
                    work(number * (RECORDS / 8) + (count * 101) % (RECORDS / 8))?;
                    count += 1;
                }
                done.fetch_add(count, Ordering::SeqCst);
                Ok(count as f64 / begun.elapsed().as_secs_f64())
            })
        };
        let running: Vec<_> = (0..threads).map(run).collect();
        running
            .into_iter()
            .map(|thread| thread.join().expect("a thread panicked"))
            .collect::<Outcome<Vec<f64>>>()
    })?;
    Ok(rates.iter().sum())
}

/// A connection of its own, with statements by hand.
struct ByHand {
    runtime: tokio::runtime::Runtime,
    client: Client,
    statements: [tokio_postgres::Statement; 4],
}

impl ByHand {
    fn connect(url: &str) -> Outcome<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (client, statements) = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
            tokio::spawn(connection);
            let set_up = "SET default_transaction_isolation = 'serializable';
                          SET plan_cache_mode = force_generic_plan;
                          CREATE TABLE IF NOT EXISTS by_hand (key bytea PRIMARY KEY, value bytea NOT NULL)
                          WITH (fillfactor = 90)";
            client.batch_execute(set_up).await?;
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
        let keys: Vec<_> = (0..100).map(|place| spread(key + place)).collect();
        let mut keys: Vec<_> = keys.iter().map(|key| &key[..]).collect();
        keys.sort_unstable();
        let values = vec![&VALUE[..]; 100];
        self.runtime.block_on(self.client.execute(&self.statements[2], &[&keys, &values]))?;
        Ok(())
    }
}
