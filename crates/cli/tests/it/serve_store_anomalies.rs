//! The anomalies of Hermitage through three servers, which are three processes, on one store.
//!
//! PostgreSQL may report a conflict earlier than the engine does, and one that is none. So this does not compare each
//! step: what was committed must have a serial order. The transactions are run one after another in a database of the
//! engine, in each order, until every statement returns there what it returned.
#![cfg(feature = "sql")]

use crate::http::Server;
use crate::serve_anomalies::Stream;
use crate::serve_anomalies::hermitage::{Client, Failure, Step, scripts, set_up};
use crate::server;

/// A transaction, or a statement by itself.
struct Ran {
    at: usize,
    /// Whether it was committed by `COMMIT`.
    is_transaction: bool,
    /// Each statement and its rows, or why it failed.
    statements: Vec<(&'static str, String)>,
}

/// What can be seen when a script has ended.
const END: [&str; 4] = [
    "SELECT id || '=' || value FROM test ORDER BY id",
    "SELECT value FROM test INDEXED BY by_value WHERE value > -1 ORDER BY value",
    "SELECT name FROM names ORDER BY name",
    "SELECT parent || '/' || id FROM child LEFT JOIN test ON id = parent ORDER BY 1",
];

#[test]
fn clients_of_three_servers_on_a_store_meet_no_anomaly() {
    // A server of its own: beside long transactions of others, PostgreSQL refuses nearly everything.
    let Some(postgres) = server::Server::start() else { return };
    let (url, schema) = (server::url(&postgres.dir), server::schema());
    let dirs: [_; 4] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    let start = |at: usize| {
        Server::start_with(dirs[at].path(), &["--store", &url, "--store-schema", &schema, "--hrana"])
    };
    let servers: [Server; 3] = std::array::from_fn(start);
    let engine = Server::start_with(dirs[3].path(), &["--hrana"]);
    let mut clients = servers.each_ref().map(Stream::of);
    let mut serial = Stream::of(&engine);
    let mut conflicts = 0;
    for (name, steps) in scripts() {
        // PostgreSQL can refuse all transactions of a script.
        let some = (0..20).find_map(|_| {
            make_tables(&mut clients[0]);
            let (committed, lost) = run(&mut clients, name, &steps);
            conflicts += lost;
            committed.iter().any(|ran| ran.is_transaction).then_some(committed)
        });
        let mut committed = some.unwrap_or_else(|| panic!("{name}: no transaction has committed"));
        let end = END.map(|sql| (sql, outcome(clients[0].run(sql)).expect(name)));
        committed.push(Ran { at: 0, is_transaction: false, statements: end.to_vec() });
        let found = orders(&committed).into_iter().any(|order| explains(&order, &committed, &mut serial));
        let committed: Vec<_> = committed.iter().map(|ran| (ran.at + 1, &ran.statements)).collect();
        assert!(found, "{name}: no serial order explains {committed:#?}");
    }
    // In one database, 17 of the scripts end with one.
    assert!(conflicts >= 17, "{conflicts} transactions were refused");
}

/// Creates the tables; other servers may still be looking at the old ones.
fn make_tables(client: &mut Stream) {
    let made = (0..20).find_map(|_| match set_up(client) {
        Ok(()) => Some(()),
        Err(Failure::Conflict) => None,
        Err(Failure::Other(message)) => panic!("{message}"),
    });
    made.expect("tables");
}

/// Returns what a statement returned; `None` for a conflict.
fn outcome(result: Result<Vec<String>, Failure>) -> Option<String> {
    match result {
        Ok(rows) => Some(rows.join(" ")),
        Err(Failure::Conflict) => None,
        Err(Failure::Other(message)) => Some(format!("failed: {message}")),
    }
}

/// Runs a script. Returns what was committed, in the order of the commits, and how many transactions were refused.
fn run(clients: &mut [Stream; 3], name: &str, steps: &[Step]) -> (Vec<Ran>, usize) {
    let mut open: [Option<Ran>; 3] = std::array::from_fn(|_| None);
    let mut is_refused = [false; 3];
    let (mut committed, mut refused) = (Vec::new(), 0);
    for &Step { at, sql, .. } in steps {
        let ends = matches!(sql, "COMMIT" | "ROLLBACK");
        if is_refused[at] {
            is_refused[at] = !ends;
            continue;
        }
        let Some(found) = outcome(clients[at].run(sql)) else {
            refused += 1;
            // A statement by itself has no transaction that goes on.
            is_refused[at] = open[at].take().is_some() && !ends;
            if is_refused[at] {
                let _ = clients[at].run("ROLLBACK");
            }
            continue;
        };
        match (sql, &mut open[at]) {
            ("BEGIN", none) => *none = Some(Ran { at, is_transaction: true, statements: Vec::new() }),
            ("COMMIT", some) => {
                assert_eq!(found, "", "{name}: {}: COMMIT", at + 1);
                committed.extend(some.take());
            }
            ("ROLLBACK", some) => *some = None,
            (sql, Some(ran)) => ran.statements.push((sql, found)),
            (sql, None) => committed.push(Ran { at, is_transaction: false, statements: vec![(sql, found)] }),
        }
    }
    for (client, _) in clients.iter_mut().zip(open).filter(|(_, open)| open.is_some()) {
        client.run("ROLLBACK").expect(name);
    }
    (committed, refused)
}

/// Returns the orders in which each client's transactions follow one another, and the last one is last. The first
/// order is that of the commits.
fn orders(committed: &[Ran]) -> Vec<Vec<usize>> {
    let last = committed.len() - 1;
    let mut orders = vec![Vec::new()];
    for _ in 0..last {
        let longer = orders.iter().flat_map(|order: &Vec<usize>| {
            let is_next = |&next: &usize| {
                let before = (0..next).filter(|&other| committed[other].at == committed[next].at);
                !order.contains(&next) && before.into_iter().all(|other| order.contains(&other))
            };
            (0..last).filter(is_next).map(|next| [&order[..], &[next]].concat())
        });
        orders = longer.collect();
    }
    orders.iter_mut().for_each(|order| order.push(last));
    orders
}

/// Returns whether the transactions return the same, one after another in this order.
fn explains(order: &[usize], committed: &[Ran], serial: &mut Stream) -> bool {
    set_up(serial).expect("tables");
    order.iter().all(|&next| {
        serial.run("BEGIN").expect("BEGIN");
        let statements = &committed[next].statements;
        let same = statements.iter().all(|(sql, found)| outcome(serial.run(sql)).as_ref() == Some(found));
        serial.run("COMMIT").expect("COMMIT");
        same
    })
}

#[test]
fn a_history_with_write_skew_has_no_serial_order() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Server::start_with(dir.path(), &["--hrana"]);
    let mut serial = Stream::of(&engine);
    let ran = |at, statements: &[(&'static str, &str)]| {
        let statements = statements.iter().map(|&(sql, found)| (sql, found.to_owned())).collect();
        Ran { at, is_transaction: true, statements }
    };
    let sum = "SELECT sum(value) FROM test";
    let history = |second: &str, end: &str| {
        vec![
            ran(0, &[(sum, "30"), ("UPDATE test SET value = value - 15 WHERE id = 1", "")]),
            ran(1, &[(sum, second), ("UPDATE test SET value = value - 15 WHERE id = 2", "")]),
            ran(0, &[(sum, end)]),
        ]
    };
    let mut is_serial =
        |history: &[Ran]| orders(history).iter().any(|order| explains(order, history, &mut serial));
    assert!(is_serial(&history("15", "0")));
    assert!(!is_serial(&history("30", "0")), "both have seen the first state");
    assert!(!is_serial(&history("15", "15")), "an update is lost");
}
