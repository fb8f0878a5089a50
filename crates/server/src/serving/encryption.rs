//! The certificate of the server, and the handshake of encrypted connections.
//!
//! 1. The certificate and its key are read when the server starts, again when one of the two files changes (they are
//!    looked at every second), and again at SIGHUP. A connection keeps the certificate with which it began. Files that
//!    cannot be read or do not belong together change nothing: the error is logged, and the certificate in use stays.
//! 2. The handshake runs on the connection's worker. It counts as a part of the first request's head, and must end
//!    within the time of one.
//! 3. The protocols are TLS 1.2 and 1.3. The cryptography is that of `ring`. The client chooses HTTP/2 or HTTP/1.1 in
//!    the handshake (ALPN).

use crate::config::Certificate;
use crate::wire::stream::tls::{Encrypted, HTTP1, HTTP2};
use arc_swap::ArcSwap;
use pando::{Error, ErrorKind, Result};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};

/// The certificate in use, and where it comes from.
pub struct Encryption {
    source: Certificate,
    config: ArcSwap<ServerConfig>,
    /// The files as they were when they were read last.
    seen: Mutex<Option<[Stamp; 2]>>,
}

/// What changes when a file is replaced: its time and its length.
type Stamp = (Option<SystemTime>, u64);

impl std::fmt::Debug for Encryption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encryption").field("source", &self.source).finish_non_exhaustive()
    }
}

impl Encryption {
    /// Reads or makes the certificate of a server that listens on `address`.
    ///
    /// # Errors
    /// `Io` if a file cannot be read; `Invalid` if it is not PEM, or if the key does not belong to the certificate.
    pub fn new(source: Certificate, address: SocketAddr) -> Result<Self> {
        let (stamps, config) = match &source {
            Certificate::Files { chain, key } => {
                // The stamps come first: files that are replaced meanwhile are read again.
                (Some([stamp(chain), stamp(key)]), read(chain, key)?)
            }
            Certificate::SelfSigned => (None, self_signed(address)?),
        };
        Ok(Encryption { source, config: ArcSwap::from_pointee(config), seen: Mutex::new(stamps) })
    }

    /// Reads the files again if one of them has changed, or in any case if `must`.
    pub fn refresh(&self, must: bool) {
        let Certificate::Files { chain, key } = &self.source else { return };
        let stamps = Some([stamp(chain), stamp(key)]);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == stamps && !must {
            return;
        }
        *seen = stamps;
        match read(chain, key) {
            Ok(config) => {
                self.config.store(Arc::new(config));
                tracing::info!("the certificate was read again");
            }
            Err(error) => {
                tracing::error!(%error, "the certificate could not be read again; the one in use stays");
            }
        }
    }

    /// Makes the handshake on a new connection.
    ///
    /// # Errors
    /// Those of the client, and those of the socket.
    pub async fn accept(&self, stream: TcpStream) -> std::io::Result<Encrypted> {
        let acceptor = TlsAcceptor::from(self.config.load_full());
        acceptor.accept(stream).await.map(Encrypted::new)
    }
}

fn stamp(path: &Path) -> Stamp {
    fs::metadata(path).map_or((None, 0), |found| (found.modified().ok(), found.len()))
}

fn read(chain: &Path, key: &Path) -> Result<ServerConfig> {
    let certificates =
        CertificateDer::pem_file_iter(chain).and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>);
    let certificates = certificates.map_err(|error| unreadable(chain, "certificate", error))?;
    if certificates.is_empty() {
        return Err(unreadable(chain, "certificate", pem::Error::NoItemsFound));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, "private key", error))?;
    config(certificates, private).map_err(|error| {
        let (chain, key) = (chain.display(), key.display());
        Error::invalid(format!("the key in {key} cannot be used with the certificate in {chain}: {error}"))
    })
}

fn unreadable(path: &Path, what: &str, error: pem::Error) -> Error {
    let shown = path.display();
    match error {
        pem::Error::Io(error) => Error::io(format!("read the {what} in {shown}"), error),
        pem::Error::NoItemsFound => Error::invalid(format!(
            "{shown} contains no {what} in PEM: it must have a line that begins with `-----BEGIN`"
        )),
        other => Error::invalid(format!("{shown} is not a {what} in PEM: {other}")),
    }
}

fn self_signed(address: SocketAddr) -> Result<ServerConfig> {
    let failed = |error: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Invalid, format!("a certificate could not be made: {error}"))
    };
    let names = vec!["localhost".to_owned(), address.ip().to_string()];
    let made = rcgen::generate_simple_self_signed(names).map_err(|error| failed(&error))?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(|error| failed(&error))?;
    config(vec![made.cert.der().clone()], key).map_err(|error| failed(&error))
}

fn config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> std::result::Result<ServerConfig, tokio_rustls::rustls::Error> {
    let provider = Arc::new(crypto::ring::default_provider());
    let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = versions.with_no_client_auth().with_single_cert(chain, key)?;
    // The first one that the client knows as well is chosen.
    config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    Ok(config)
}
