//! Lost connections: nothing is written twice, nothing acknowledged is lost, and the caller is left in no doubt.

use crate::proxy::{Cut, MARK, Proxy};
use crate::server::{self, Server};
use crate::statements;
use pando::remote::{InDoubt, Token};
use pando::{ErrorKind, TableOptions};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Counts how often the work of a transaction became visible: each adds one record, and the work can run again.
#[test]
fn a_commit_whose_connection_is_cut_happens_once() {
    let Some(server) = server::shared() else { return };
    let proxy = Proxy::start(server);
    let db = server::options().open(&server::url(&proxy.dir)).unwrap();
    let t = db.ensure_table("t").unwrap();
    for (number, cut) in Cut::ALL.into_iter().cycle().take(2 * Cut::ALL.len()).enumerate() {
        for has_read in [false, true] {
            proxy.cut_next_commit(cut);
            let attempts = AtomicU64::new(0);
            db.write(|tx| {
                let attempt = attempts.fetch_add(1, Ordering::SeqCst);
                let key = [&[number as u8, u8::from(has_read), attempt as u8][..], MARK].concat();
                if has_read {
                    assert_eq!(tx.get(&t, "other")?, None);
                }
                tx.put(&t, key, "")
            })
            .unwrap_or_else(|error| panic!("{cut:?}, {has_read}: {error:?}"));
            let prefix = [number as u8, u8::from(has_read)];
            assert_eq!(db.snapshot().prefix(&t, prefix).unwrap().count(), 1, "{cut:?}, {has_read}");
        }
    }
}

#[test]
fn a_commit_that_cannot_be_resolved_is_indeterminate_and_can_be_asked_for_later() {
    let Some(server) = server::shared() else { return };
    // Each waits twice for as long as a commit is asked about.
    thread::scope(|scope| {
        for cut in Cut::ALL {
            scope.spawn(move || is_indeterminate_after(cut, server));
        }
    });
}

fn is_indeterminate_after(cut: Cut, server: &Path) {
    let expected = cut.is_after_the_request();
    let proxy = Proxy::start(server);
    let options = server::options();
    // To make the database may take longer on a busy machine.
    options.clone().open(&server::url(server)).unwrap().ensure_table("t").unwrap();
    let db = options.request_timeout(Duration::from_secs(2)).open(&server::url(&proxy.dir)).unwrap();
    let t = db.ensure_table("t").unwrap();
    proxy.cut_next_commit(cut);
    let mut tx = db.begin();
    assert_eq!(tx.get(&t, "other").unwrap(), None);
    tx.put(&t, MARK, "").unwrap();
    proxy.set_down(true);
    let error = tx.commit().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{cut:?}: {error:?}");
    let message = error.message().to_owned();
    let token: Token = message.rsplit(' ').next().unwrap().parse().unwrap();
    let commit = InDoubt::in_error(&error).unwrap();
    assert_eq!(commit, InDoubt { database: db.id(), token });
    assert_eq!(db.outcome(token).unwrap_err().kind(), ErrorKind::Io);
    proxy.set_down(false);
    assert_eq!(db.outcome(token).unwrap(), expected, "{cut:?}");
    assert_eq!(db.resolve(&commit).unwrap(), expected, "the second response is the first one");
    assert_eq!(db.get(&t, MARK).unwrap().is_some(), expected, "{cut:?}");
    let other = InDoubt { database: db.id() ^ 1, token };
    assert_eq!(db.resolve(&other).unwrap_err().kind(), ErrorKind::Missing);
}

/// The server may have written its record of the commit before it met trouble of its own, so the client asks.
#[test]
fn an_internal_error_of_the_server_is_asked_about() {
    let Some(server) = server::shared() else { return };
    let schema = server::schema();
    let db = server::options().schema(&schema).open(&server::url(server)).unwrap();
    let t = db.ensure_table("t").unwrap();
    let count = format!("SELECT count(*) FROM {schema}.commits WHERE NOT committed::bool");
    for (code, asked) in [("22000", "0"), ("XX001", "1"), ("58030", "2")] {
        let raise = format!(
            "CREATE OR REPLACE FUNCTION {schema}.fail() RETURNS trigger LANGUAGE plpgsql AS \
                 $$BEGIN RAISE 'trouble' USING ERRCODE = '{code}'; END$$; \
             CREATE OR REPLACE TRIGGER fail BEFORE INSERT ON {schema}.records \
                 FOR EACH ROW EXECUTE FUNCTION {schema}.fail()"
        );
        statements::run(server, &raise);
        let error = db.put(&t, "k", "").unwrap_err();
        assert!(error.kind() == ErrorKind::Io && error.message().contains(code), "{error:?}");
        assert_eq!(statements::run(server, &count).unwrap(), asked, "{code}");
    }
    statements::run(server, &format!("DROP TRIGGER fail ON {schema}.records"));
    db.put(&t, "k", "").unwrap();
}

/// The isolation of a statement by itself travels with the statement. If the server does not change it, a commit must
/// not happen under a weaker one.
#[test]
fn a_commit_by_itself_is_serializable_or_fails() {
    let Some(server) = server::shared() else { return };
    let proxy = Proxy::start(server);
    let db = server::options().max_connections(1).open(&server::url(&proxy.dir)).unwrap();
    let t = db.ensure_table("t").unwrap();
    db.put(&t, "k", "1").unwrap();
    proxy.refuse_isolation(true);
    assert_eq!(db.get(&t, "k").unwrap_err().kind(), ErrorKind::Io, "under an isolation that is not known");
    // The isolation is serializable as before, so this happens, and says so.
    db.put(&t, "k", "2").unwrap();
    proxy.refuse_isolation(false);
    assert_eq!(db.get(&t, "k").unwrap().unwrap(), b"2");
    proxy.refuse_isolation(true);
    for _ in 0..3 {
        db.put(&t, "k", "3").unwrap_err();
        let error = db.write(|tx| tx.put(&t, "k", "4")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error:?}");
    }
    assert_eq!(db.get(&t, "k").unwrap_err().kind(), ErrorKind::Io);
    proxy.refuse_isolation(false);
    assert_eq!(db.get(&t, "k").unwrap().unwrap(), b"2");
    db.put(&t, "k", "5").unwrap();
    assert_eq!(db.get(&t, "k").unwrap().unwrap(), b"5");
}

/// The server remembers what a serializable transaction has read as long as an earlier one is open: a get by itself is
/// none, and a multi_get is.
#[test]
fn the_server_does_not_remember_gets() {
    let Some(server) = Server::start() else { return };
    let db = server::options().open(&server::url(&server.dir)).unwrap();
    let t = db.ensure_table("t").unwrap();
    db.write(|tx| (0..100_u8).try_for_each(|key| tx.put(&t, [key], [key]))).unwrap();
    let old = db.begin();
    old.get(&t, [0]).unwrap();
    let remembered = || -> u64 {
        let count = "SELECT count(*) FROM pg_locks WHERE mode = 'SIReadLock'";
        statements::run(&server.dir, count).unwrap().parse().unwrap()
    };
    let before = remembered();
    (0..100_u8).for_each(|key| assert_eq!(db.get(&t, [key]).unwrap().unwrap(), [key]));
    assert_eq!(remembered(), before);
    assert_eq!(db.multi_get(&t, &[[1], [2]]).unwrap(), [Some(vec![1]), Some(vec![2])]);
    assert!(remembered() > before);
}

#[test]
fn a_token_that_may_be_forgotten_is_not_asked_for() {
    let Some(db) = server::database() else { return };
    assert_eq!(db.outcome(Token([0; 16])).unwrap_err().kind(), ErrorKind::TooOld);
}

/// A transaction that has read cannot go on after its connection, as what it read may have changed.
#[test]
fn a_restart_ends_transactions_and_nothing_else() {
    let Some(mut server) = Server::start() else { return };
    let db = server::options().open(&server::url(&server.dir)).unwrap();
    let t = db.ensure_table("t").unwrap();
    db.put(&t, "k", "before").unwrap();
    let dated = db.create_table("dated", &TableOptions::default().ttl(Duration::from_secs(60))).unwrap();
    for how in ["fast", "immediate"] {
        let (mut tx, snapshot) = (db.begin(), db.snapshot());
        assert!(tx.get(&t, "k").unwrap().is_some() && snapshot.contains(&t, "k").unwrap());
        tx.put(&t, "k", "lost").unwrap();
        server.restart(how);
        assert_eq!(snapshot.get(&t, "k").unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(snapshot.get(&t, "k").unwrap_err().kind(), ErrorKind::Io, "it stays failed");
        assert_eq!(tx.commit().unwrap_err().kind(), ErrorKind::Io);
        // Connections that ended while they were idle are replaced without notice, for reads and for writes.
        assert_eq!(db.get(&t, "k").unwrap().unwrap(), b"before");
        server.restart(how);
        db.put(&t, "other", how).unwrap();
        server.restart(how);
        assert_eq!(db.delete_expired(&dated).unwrap(), 0);
        assert_eq!(db.get(&t, "other").unwrap().unwrap(), how.as_bytes());
    }
}

/// Two programs count in one record while the server is restarted again and again.
#[test]
fn counters_are_exact_through_restarts() {
    let Some(mut server) = Server::start() else { return };
    let options = server::options();
    let dbs = [0, 1].map(|_| options.clone().open(&server::url(&server.dir)).unwrap());
    let t = dbs[0].ensure_table("t").unwrap();
    let (is_over, counted) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for (number, db) in dbs.iter().enumerate() {
            let (t, is_over, counted) = (&t, &is_over, &counted);
            scope.spawn(move || {
                let key = [number as u8];
                while !is_over.load(Ordering::SeqCst) {
                    let done = db.write(|tx| {
                        for key in [&key[..], b"shared"] {
                            let before = tx
                                .get(t, key)?
                                .map_or(0, |value| u64::from_be_bytes(value.try_into().unwrap()));
                            tx.put(t, key, (before + 1).to_be_bytes())?;
                        }
                        Ok(())
                    });
                    match done {
                        Ok(()) => drop(counted.fetch_add(1, Ordering::SeqCst)),
                        Err(error) => {
                            assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::Conflict), "{error:?}");
                        }
                    }
                }
            });
        }
        for how in ["fast", "immediate", "immediate", "fast"] {
            thread::sleep(Duration::from_millis(300));
            server.restart(how);
        }
        thread::sleep(Duration::from_millis(300));
        is_over.store(true, Ordering::SeqCst);
    });
    let number = |key: &[u8]| u64::from_be_bytes(dbs[0].get(&t, key).unwrap().unwrap().try_into().unwrap());
    let counted = counted.into_inner();
    assert_eq!((number(b"shared"), number(&[0]) + number(&[1])), (counted, counted));
    assert!(counted > 100, "only {counted} transactions");
}

#[test]
fn a_pool_that_is_used_up_says_so() {
    let Some(server) = server::shared() else { return };
    let options = server::options().max_connections(1).connect_timeout(Duration::from_secs(2));
    let db = options.open(&server::url(server)).unwrap();
    let t = db.ensure_table("t").unwrap();
    let snapshot = db.snapshot();
    assert!(snapshot.get(&t, "k").unwrap().is_none());
    assert_eq!(db.get(&t, "k").unwrap_err().kind(), ErrorKind::Full);
    drop(snapshot);
    assert_eq!(db.get(&t, "k").unwrap(), None);
    db.close();
    assert_eq!(db.get(&t, "k").unwrap_err().kind(), ErrorKind::Closed);
}

/// A connection is given back, or closed after a large commit, while other threads wait for one.
#[test]
fn threads_that_wait_for_a_connection_are_woken() {
    let Some(server) = server::shared() else { return };
    let patience = Duration::from_secs(20);
    let db =
        server::options().max_connections(1).connect_timeout(patience).open(&server::url(server)).unwrap();
    let t = db.ensure_table("t").unwrap();
    for is_closed in [false, true] {
        let mut tx = db.begin();
        assert!(tx.get(&t, "k").unwrap().is_none());
        if is_closed {
            tx.put(&t, "long", vec![7; 2 << 20]).unwrap();
        }
        let begun = Instant::now();
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| assert!(db.get(&t, "k").unwrap().is_none()));
            }
            thread::sleep(Duration::from_millis(300));
            tx.commit().unwrap();
        });
        assert!(begun.elapsed() < patience / 2, "{is_closed}: after {:?}", begun.elapsed());
    }
}

/// An idle connection would keep the buffers of the largest request that it has sent.
#[test]
fn a_connection_that_sent_a_large_commit_is_closed() {
    let Some(db) = server::database() else { return };
    let t = db.ensure_table("t").unwrap();
    for has_read in [false, true] {
        for (records, bytes, is_kept) in [(1, 1 << 19, true), (1, 1 << 20, false), (50_000, 1, false)] {
            db.put(&t, "other", "").unwrap();
            assert_eq!(db.connections(), 1);
            let mut tx = db.begin();
            if has_read {
                assert!(tx.get(&t, "other").unwrap().is_some());
            }
            for number in 0..records {
                tx.put(&t, u32::to_be_bytes(number), vec![7; bytes]).unwrap();
            }
            tx.commit().unwrap();
            assert_eq!(db.connections() == 1, is_kept, "{has_read}, {records} of {bytes} bytes");
        }
    }
}

#[test]
fn an_idle_transaction_expires() {
    let Some(server) = server::shared() else { return };
    let options = server::options().idle_timeout(Duration::from_secs(1));
    let db = options.open(&server::url(server)).unwrap();
    let t = db.ensure_table("t").unwrap();
    let mut tx = db.begin();
    assert_eq!(tx.get(&t, "k").unwrap(), None);
    tx.put(&t, "k", "").unwrap();
    thread::sleep(Duration::from_millis(2500));
    let error = tx.get(&t, "other").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::SnapshotTooOld | ErrorKind::Io), "{error:?}");
    assert!(tx.commit().is_err());
    assert_eq!(db.get(&t, "k").unwrap(), None);
}
