//! What every new connection needs: the service, and the certificate. Both can be renewed while the server runs.

use crate::config::Reload;
#[cfg(feature = "tls")]
use crate::serving::encryption::Encryption;
use crate::serving::listen::Incoming;
use crate::serving::patience::Timers;
use crate::serving::service::Service;
use crate::wire::stream::Stream;
use arc_swap::ArcSwap;
use std::sync::Arc;
#[cfg(feature = "tls")]
use tokio::time::timeout;

/// What a new connection needs. Cheap to clone: each worker has a clone.
#[derive(Clone, Debug)]
pub struct Door {
    /// The service of new connections. Those that are open keep the one they began with.
    service: Arc<ArcSwap<Service>>,
    reload: Option<Reload>,
    timers: Timers,
    #[cfg(feature = "tls")]
    encryption: Option<Arc<Encryption>>,
}

impl Door {
    /// Creates the door to `service`.
    #[cfg(feature = "tls")]
    pub fn new(
        service: Service,
        reload: Option<Reload>,
        timers: Timers,
        encryption: Option<Arc<Encryption>>,
    ) -> Self {
        Door { service: Arc::new(ArcSwap::from_pointee(service)), reload, timers, encryption }
    }

    /// Creates the door to `service`.
    #[cfg(not(feature = "tls"))]
    pub fn new(service: Service, reload: Option<Reload>, timers: Timers) -> Self {
        Door { service: Arc::new(ArcSwap::from_pointee(service)), reload, timers }
    }

    /// Returns the service of a new connection.
    pub fn service(&self) -> Service {
        Service::clone(&self.service.load())
    }

    /// Returns the timers of connections.
    pub fn timers(&self) -> Timers {
        self.timers.clone()
    }

    /// Reads the files of the certificate again if one of them has changed.
    pub fn refresh(&self) {
        #[cfg(feature = "tls")]
        if let Some(encryption) = &self.encryption {
            encryption.refresh(false);
        }
    }

    /// Reads the configuration and the certificate again. What cannot be used changes nothing.
    pub fn reload(&self) {
        #[cfg(feature = "tls")]
        if let Some(encryption) = &self.encryption {
            encryption.refresh(true);
        }
        let Some(reload) = &self.reload else {
            tracing::info!("SIGHUP was received: there is no configuration to read again");
            return;
        };
        let renewed = reload.read().and_then(|renewed| Ok((self.service().renewed(&renewed)?, renewed)));
        match renewed {
            Ok((service, renewed)) => {
                self.service.store(Arc::new(service));
                renewed.effect.take();
                tracing::info!("the configuration was read again");
                if !renewed.fixed.is_empty() {
                    let fixed = renewed.fixed.join(", ");
                    tracing::warn!("these options change only when the server starts again: {fixed}");
                }
            }
            Err(error) => {
                tracing::error!(%error, "the configuration could not be read again; the one in use stays");
            }
        }
    }

    /// Prepares a connection for its first request: makes the handshake if connections are encrypted. Returns `None`
    /// if that fails.
    pub async fn open(&self, incoming: Incoming) -> Option<Stream> {
        let stream = match incoming.into_stream() {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be handed to its thread");
                return None;
            }
        };
        self.encrypt(stream).await
    }

    /// Makes the handshake, if connections are encrypted.
    #[cfg(feature = "tls")]
    async fn encrypt(&self, stream: Stream) -> Option<Stream> {
        let (encryption, socket) = match (&self.encryption, stream) {
            (Some(encryption), Stream::Tcp(socket)) => (encryption, socket),
            (_, stream) => return Some(stream),
        };
        let patience = self.service.load().limits().head_timeout;
        match timeout(patience, encryption.accept(socket)).await {
            Ok(Ok(stream)) => Some(Stream::Tls(Box::new(stream))),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a handshake failed");
                None
            }
            Err(_) => {
                tracing::debug!("a handshake did not end in time");
                None
            }
        }
    }

    /// Returns the stream as it is: nothing is encrypted.
    #[cfg(not(feature = "tls"))]
    async fn encrypt(&self, stream: Stream) -> Option<Stream> {
        Some(stream)
    }
}
