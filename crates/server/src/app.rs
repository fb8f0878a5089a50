//! What all requests share, and the way of each: answered here and now if memory can tell, else handed on.

use crate::body::Body;
use crate::config::Config;
use crate::open::Open;
use crate::problem::{Answer, Problem};
use crate::receive::{Reception, RequestBody};
use crate::{fast, v0};
use arc_swap::ArcSwap;
use axum::Router;
use axum::http::{Request, Response};
use pando::{Result, Table};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_service::Service as _;

/// What all requests share.
#[derive(Debug)]
pub struct App {
    /// How the server is run.
    pub config: Config,
    /// The database of `/v0`.
    pub default: Arc<Open>,
    /// The table of `/v0`.
    pub entity: ArcSwap<Table>,
    /// The bounds of request bodies.
    pub reception: Reception,
    streams: Arc<Semaphore>,
}

/// Answers requests. Cheap to clone: each connection has one.
#[derive(Clone)]
pub struct Service {
    app: Arc<App>,
    router: Router,
}

impl App {
    /// Over the open default database.
    pub fn new(config: Config, default: Arc<Open>) -> Result<Arc<Self>> {
        let entity = default.table_or_create(v0::TABLE, &v0::table_options())?;
        Ok(Arc::new(App {
            reception: Reception::new(&config.limits),
            streams: Arc::new(Semaphore::new(config.limits.streams)),
            entity: ArcSwap::from_pointee(entity),
            default,
            config,
        }))
    }

    /// The right to stream, for as long as it is kept.
    pub fn stream_permit(&self) -> Answer<OwnedSemaphorePermit> {
        let busy = |_| Problem::busy("as many long values and ranges are on their way as are allowed");
        Arc::clone(&self.streams).try_acquire_owned().map_err(busy)
    }
}

impl Service {
    /// Answers for `app`.
    pub fn new(app: Arc<App>) -> Self {
        let router = v0::routes().with_state(Arc::clone(&app));
        Service { app, router }
    }

    /// The response to a request. Ready at once if memory can tell.
    pub fn answer<B>(
        &self,
        request: Request<B>,
    ) -> impl Future<Output = std::result::Result<Response<Body>, Infallible>> + use<B>
    where
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let ready = fast::answer(&self.app, &request);
        let later = match ready {
            Some(response) => Err(response),
            None => Ok((self.router.clone(), request)),
        };
        async move {
            match later {
                Err(response) => Ok(response),
                Ok((mut router, request)) => {
                    let response = router.call(request.map(RequestBody::new)).await;
                    response.map(|response| response.map(Body::from))
                }
            }
        }
    }
}
