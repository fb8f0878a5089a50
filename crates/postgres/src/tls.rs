//! Whether a connection is encrypted.
//!
//! A connection over a network is, and the server's certificate must be valid for its name; `sslmode=disable` in the
//! URL switches that off. A connection to this machine is not, unless the URL has `sslmode=require`. Nothing in
//! between: encryption without a check of the certificate protects from no attacker who can reach the connection.

use base::{Error, ErrorKind, Result};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

pub(crate) enum Tls {
    Off(NoTls),
    On(MakeRustlsConnect),
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tls::Off(_) => "Off",
            Tls::On(_) => "On",
        })
    }
}

/// Decides whether connections are encrypted, and notes it in `config`.
pub(crate) fn choose(config: &mut Config) -> Result<Tls> {
    let is_on = match config.get_ssl_mode() {
        SslMode::Disable => false,
        SslMode::Require => true,
        _ => {
            // An address takes the place of what the name leads to.
            let are_here = config.get_hostaddrs().iter().all(IpAddr::is_loopback);
            !(are_here && config.get_hosts().iter().all(is_here))
        }
    };
    if !is_on {
        config.ssl_mode(SslMode::Disable);
        return Ok(Tls::Off(NoTls));
    }
    config.ssl_mode(SslMode::Require);
    let loaded = rustls_native_certs::load_native_certs();
    let mut roots = rustls::RootCertStore::empty();
    if roots.add_parsable_certificates(loaded.certs).0 == 0 {
        let message = "this machine has no root certificates to check PostgreSQL's certificate with; set \
                       SSL_CERT_FILE to a file that has some";
        return Err(Error::new(ErrorKind::Io, message));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::invalid("TLS cannot be set up").caused_by(error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Tls::On(MakeRustlsConnect::new(client)))
}

fn is_here(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback()),
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_connections_to_this_machine_are_open() {
        let is_encrypted = |url: &str| {
            let mut config: Config = url.parse().unwrap();
            choose(&mut config).map(|_| config.get_ssl_mode() == SslMode::Require)
        };
        for here in ["host=localhost", "host=127.0.0.1", "host=/run", "host=localhost hostaddr=::1"] {
            assert!(!is_encrypted(here).unwrap(), "{here}");
        }
        // On a machine without root certificates, nothing is opened at all.
        for away in ["host=db.example", "host=localhost hostaddr=192.0.2.1", "host=localhost,db.example"] {
            assert!(is_encrypted(away).unwrap_or(true), "{away}");
        }
        assert!(!is_encrypted("host=db.example sslmode=disable").unwrap());
    }
}
