//! Statements beside Pando, on connections of their own.

use crate::server::url;
use std::path::Path;

/// Runs statements on a connection of its own, and returns the first column of the last row.
pub fn run(dir: &Path, statements: &str) -> Option<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&url(dir), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let responses = client.simple_query(statements).await.unwrap();
        let rows = responses.iter().filter_map(|response| match response {
            tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        rows.last().and_then(|row| Some(row.get(0)?.to_owned()))
    })
}
