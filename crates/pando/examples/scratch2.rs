//! Scratch timing.
use pando::*;
use std::time::Instant;
fn main() -> Result<()> {
    let n: u32 = 1_000_000;
    let mut v: Vec<u32> = (0..n).collect();
    let mut r = 12345u64;
    for i in (1..v.len()).rev() {
        r = r.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        v.swap(i, ((r >> 33) as usize) % (i + 1));
    }
    let db = Database::create(std::env::temp_dir().join(format!("pando-scratch-{}", std::process::id())))?;
    for round in 0..4 {
        let table = db.create_table(&format!("s{round}"), &Default::default())?;
        let t = Instant::now();
        let mut tx = db.begin()?;
        for k in &v {
            tx.insert(&table, &k.to_be_bytes(), b"")?;
        }
        let a = t.elapsed();
        tx.commit()?;
        println!("inserts {a:?} total {:?}", t.elapsed());
    }
    for _ in 0..10_000_000u32 {
        std::hint::black_box(db.snapshot()?);
    }
    let table = db.create_table("per", &Default::default())?;
    let t = Instant::now();
    for k in &v {
        let mut tx =
            db.begin_with(TransactionOptions { durability: Durability::Buffered, ..Default::default() })?;
        tx.insert(&table, &k.to_be_bytes(), b"")?;
        tx.commit()?;
    }
    println!("per {:?}", t.elapsed() / n);
    Ok(())
}
