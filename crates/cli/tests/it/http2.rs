//! A client of HTTP/2 that says exactly what a test wants said.

use bytes::Bytes;
use h2::client::{self, SendRequest};
use h2::{RecvStream, SendStream};
use http::{Request, Response};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long a test waits for anything.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a test that takes no longer than [`PATIENCE`] and a half.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime: Runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { timeout(PATIENCE * 3 / 2, test).await.expect("it takes too long") })
}

/// A connection.
pub struct Client {
    pub send: SendRequest<Bytes>,
    /// Ends with the connection.
    pub connection: JoinHandle<Result<(), h2::Error>>,
}

/// A response.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: http::response::Parts,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// A request to the host `test`.
pub fn request(method: &str, target: &str) -> Request<()> {
    Request::builder().method(method).uri(format!("http://test{target}")).body(()).unwrap()
}

/// Reads a body to its end.
pub async fn read(mut body: RecvStream) -> Result<Vec<u8>, h2::Error> {
    let mut all = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece?;
        body.flow_control().release_capacity(piece.len())?;
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

impl Client {
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Client::over(stream, &client::Builder::new()).await
    }

    /// A connection of which the server may send this much of each response before it is taken.
    pub async fn with_window(address: SocketAddr, bytes: u32) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let mut builder = client::Builder::new();
        builder.initial_window_size(bytes).initial_connection_window_size(1 << 20);
        Client::over(stream, &builder).await
    }

    pub async fn over(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        builder: &client::Builder,
    ) -> Self {
        let (send, connection) = builder.handshake(stream).await.unwrap();
        let connection = tokio::spawn(connection);
        Client { send, connection }
    }

    /// Sends the head of a request, and the body unless there is none.
    pub async fn begin(
        &mut self,
        request: Request<()>,
        has_body: bool,
    ) -> Result<(client::ResponseFuture, SendStream<Bytes>), h2::Error> {
        self.send = self.send.clone().ready().await?;
        self.send.send_request(request, !has_body)
    }

    pub async fn try_send(&mut self, request: Request<()>, body: &[u8]) -> Result<Reply, h2::Error> {
        let (response, mut stream) = self.begin(request, !body.is_empty()).await?;
        if !body.is_empty() {
            // The library keeps what the server does not take yet.
            stream.send_data(Bytes::copy_from_slice(body), true)?;
        }
        let (head, body) = Response::into_parts(response.await?);
        let body = read(body).await?;
        Ok(Reply { status: head.status.as_u16(), head, body })
    }

    pub async fn ask(&mut self, method: &str, target: &str, body: &[u8]) -> Reply {
        self.try_send(request(method, target), body).await.expect("a response")
    }
}
