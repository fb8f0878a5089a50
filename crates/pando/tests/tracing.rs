//! Who subscribes sees the engine's phases, each with its time; who does not sees nothing.

use pando::Database;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut self.0.lock().unwrap())).unwrap()
    }
}

fn work(db: &Database) {
    db.put(&db.ensure_table("t").unwrap(), b"k", b"v").unwrap();
    db.checkpoint().unwrap();
}

#[test]
fn phases_are_spans() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::create(dir.path()).unwrap();
    work(&db);
    db.close().unwrap();

    let lines = Lines::default();
    let writer = lines.clone();
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_span_events(FmtSpan::CLOSE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .init();
    let db = Database::open(dir.path()).unwrap();
    let opened = lines.take();
    assert!(opened.contains("INFO recovery: pando: close time.busy="), "{opened}");
    work(&db);
    let worked = lines.take();
    for span in ["TRACE log_flush: pando:", "DEBUG seal: pando:", "step=\"absorb\"", "step=\"superblock\""] {
        assert!(worked.contains(span), "{span}: {worked}");
    }
    let number = db.stats().unwrap().checkpoint;
    assert!(worked.contains(&format!("checkpoint{{number={number} step=\"switch\"}}")), "{worked}");
    db.close().unwrap();
}
