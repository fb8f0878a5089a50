//! A handler on hyper's own connections, with which `scripts/http-transports` compares the server. It returns bytes
//! from memory and does nothing else. The arguments are the address, the length of the body, and the transport: `h1` is
//! HTTP/1.1, `h2` is HTTP/2 from the beginning, and with `tls` connections are encrypted and the client chooses one of
//! the two in the handshake.
//!
//! Threads are those of the server: one accepts, and one for each core has an event loop of its own.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, crypto};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How connections begin.
#[derive(Clone)]
enum Transport {
    Http1,
    Http2,
    Tls(TlsAcceptor),
}

async fn serve_http1(stream: impl AsyncRead + AsyncWrite + Unpin, body: Bytes) {
    let answer = service_fn(move |_: Request<Incoming>| respond(body.clone()));
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
}

async fn serve_http2(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, body: Bytes) {
    let answer = service_fn(move |_: Request<Incoming>| respond(body.clone()));
    let _ = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer).await;
}

/// Returns what the server returns for such a value.
async fn respond(body: Bytes) -> Result<Response<Full<Bytes>>, Infallible> {
    static OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");
    let mut response = Response::new(Full::new(body));
    response.headers_mut().insert(CONTENT_TYPE, OCTETS.clone());
    Ok(response)
}

async fn serve(stream: TcpStream, transport: Transport, body: Bytes) {
    let _ = stream.set_nodelay(true);
    match transport {
        Transport::Http1 => serve_http1(stream, body).await,
        Transport::Http2 => serve_http2(stream, body).await,
        Transport::Tls(acceptor) => {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            match stream.get_ref().1.alpn_protocol() {
                Some(b"h2") => serve_http2(stream, body).await,
                _ => serve_http1(stream, body).await,
            }
        }
    }
}

fn tls() -> Result<Transport, Failure> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())?;
    let provider = Arc::new(crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Transport::Tls(TlsAcceptor::from(Arc::new(config))))
}

/// Starts a thread that serves the connections that it is sent.
fn worker(transport: Transport, body: Bytes) -> mpsc::UnboundedSender<std::net::TcpStream> {
    let (connections, mut coming) = mpsc::unbounded_channel::<std::net::TcpStream>();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            while let Some(stream) = coming.recv().await {
                let stream = TcpStream::from_std(stream).expect("a socket of this runtime");
                tokio::spawn(serve(stream, transport.clone(), body.clone()));
            }
        });
    });
    connections
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, bytes, transport] = &words[..] else {
        return Err("give an address, the length of the body, and h1, h2 or tls".into());
    };
    let body = Bytes::from(vec![b'x'; bytes.parse()?]);
    let transport = match &transport[..] {
        "h1" => Transport::Http1,
        "h2" => Transport::Http2,
        "tls" => tls()?,
        other => return Err(format!("there is no transport {other}: give h1, h2 or tls").into()),
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers: Vec<_> = (0..cores).map(|_| worker(transport.clone(), body.clone())).collect();
    let listener = std::net::TcpListener::bind(address)?;
    println!("listens at {}", listener.local_addr()?);
    for (number, stream) in listener.incoming().enumerate() {
        let stream = stream?;
        stream.set_nonblocking(true)?;
        workers[number % workers.len()].send(stream)?;
    }
    Ok(())
}
