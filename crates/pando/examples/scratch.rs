//! Scratch timing.
use pando::*;
use std::time::Instant;
fn main() -> Result<()> {
    let n: u32 = 1_000_000;
    let mut keys: Vec<u32> = (0..n).collect();
    base_shuffle(&mut keys);
    let t = Instant::now();
    let mut map = std::collections::BTreeMap::new();
    for k in &keys {
        map.insert(*k, ());
    }
    println!("btreemap {:?}", t.elapsed());
    let dir = std::env::temp_dir().join("pando-scratch");
    let _ = std::fs::remove_dir_all(&dir);
    let db = Database::create(&dir)?;
    for round in 0..3 {
        let t = Instant::now();
        let table = db.create_table(&format!("s{round}"), &Default::default())?;
        let mut tx = db.begin()?;
        for k in &keys {
            tx.insert(&table, &k.to_be_bytes(), b"")?;
        }
        let a = t.elapsed();
        tx.commit()?;
        let b = t.elapsed();
        db.checkpoint()?;
        println!("single sync: inserts {a:?} commit {b:?} checkpoint {:?}", t.elapsed());
        let t = Instant::now();
        let s = db.snapshot()?;
        let mut c = s.cursor(&table, ..)?;
        let mut count = 0;
        while c.next()?.is_some() {
            count += 1;
        }
        println!("scan {count} {:?}/rec", t.elapsed() / count);
        let t = Instant::now();
        for k in &keys {
            assert!(s.get_with(&table, &k.to_be_bytes(), |_| ())?.is_some());
        }
        println!("get_with {:?}", t.elapsed() / n);
        let t = Instant::now();
        for _ in 0..n {
            std::hint::black_box(db.snapshot()?);
        }
        println!("begin+end {:?}", t.elapsed() / n);
    }
    for d in [Durability::Buffered] {
        let table = db.create_table("per", &Default::default())?;
        let t = Instant::now();
        for k in &keys {
            let mut tx = db.begin_with(TransactionOptions { durability: d, ..Default::default() })?;
            tx.insert(&table, &k.to_be_bytes(), b"")?;
            tx.commit()?;
        }
        println!("per-insert {d:?} {:?}", t.elapsed() / n);
    }
    println!("{:?}", db.stats()?);
    Ok(())
}
fn base_shuffle(v: &mut [u32]) {
    let mut r = 12345u64;
    for i in (1..v.len()).rev() {
        r = r.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        v.swap(i, ((r >> 33) as usize) % (i + 1));
    }
}
