//! What `scripts/http-bench` holds the server against: an axum handler that returns 1 KiB from memory, and does nothing
//! else. Listens at the address that it is given.

use axum::Router;
use axum::routing::get;
use bytes::Bytes;

fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7264".to_owned());
    let body = Bytes::from(vec![b'x'; 1024]);
    let routes = Router::new().route("/v0/entity", get(move || std::future::ready(body.clone())));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(address).await?;
        axum::serve(listener, routes).await
    })
}
