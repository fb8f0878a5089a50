//! Expired entries: they stay in the server until `delete_expired`, which deletes them and nothing else.

use crate::{server, statements};
use pando::{ErrorKind, TableOptions};
use pando_postgres::Options;
use std::thread;
use std::time::Duration;

#[test]
fn expired_entries_are_deleted_and_nothing_else() {
    let Some(server) = server::shared() else { return };
    let schema = server::schema();
    let db = Options::default().schema(&schema).open(&server::url(server)).unwrap();
    let options = TableOptions::default().ttl(Duration::from_secs(4));
    let (dated, plain) = (db.create_table("dated", &options).unwrap(), db.ensure_table("plain").unwrap());
    let count = || -> u64 {
        let sql = format!("SELECT count(*) FROM {schema}.records WHERE tbl = {}", dated.id().0);
        statements::run(server, &sql).unwrap().parse().unwrap()
    };
    // Two full pages and a third one, with short and long keys.
    let key = |number: u32| [&number.to_be_bytes()[..], &vec![7; number as usize % 9]].concat();
    db.write(|tx| {
        tx.put(&plain, "k", [0; 8])?;
        (0..2500).try_for_each(|number| tx.put(&dated, key(number), "v"))
    })
    .unwrap();
    assert_eq!((db.delete_expired(&dated).unwrap(), count()), (0, 2500), "nothing has expired yet");
    thread::sleep(Duration::from_millis(4100));
    db.write(|tx| [999, 1000, 2600].into_iter().try_for_each(|number| tx.put(&dated, key(number), "new")))
        .unwrap();
    assert_eq!(db.snapshot().range(&dated, ..).unwrap().count(), 3);
    assert_eq!(count(), 2501);
    assert_eq!((db.delete_expired(&dated).unwrap(), count()), (2498, 3));
    assert_eq!(db.snapshot().range(&dated, ..).unwrap().count(), 3);
    assert_eq!(db.get(&plain, "k").unwrap().unwrap(), [0; 8]);
    assert_eq!(db.delete_expired(&plain).unwrap_err().kind(), ErrorKind::Invalid);
    db.drop_table("dated").unwrap();
    assert_eq!(db.delete_expired(&dated).unwrap_err().kind(), ErrorKind::Missing);
}
