//! What is counted and kept of requests.

use crate::spans::Spans;
use crate::watch::history::History;
use crate::watch::jobs::Jobs;
use crate::watch::observe::Observed;
use crate::watch::slow::SlowRequests;
use crate::watch::trace::Ids;
use crate::watch::traffic::Traffic;
use crate::watch::versions::Versions;
use pando::{Error, Result};
use profile::Window;
use std::sync::Arc;
use std::time::Duration;

/// All that is counted and kept of requests.
#[derive(Debug)]
pub struct Watch {
    /// The counts and latencies of requests.
    pub observed: Observed,
    /// The bytes of connections, and the refused requests.
    pub traffic: Traffic,
    /// The counts that differ between the versions of HTTP.
    pub versions: Versions,
    /// The figures of the last hour.
    pub history: History,
    /// The work that takes long.
    pub jobs: Arc<Jobs>,
    /// The slowest requests.
    pub slow: SlowRequests,
    /// The CPU profile of the last seconds, if it is kept.
    pub window: Option<Window>,
    /// The generator of request ids.
    pub ids: Ids,
    /// The code that exports requests, if there is any.
    pub spans: Option<Arc<dyn Spans>>,
}

impl Watch {
    /// Creates empty counts. Requests that take `slow` or longer will be kept, and `window` of the CPU profile. `start`
    /// is a number that no other start of the server has. `spans` exports the requests.
    pub fn new(
        slow: Duration,
        window: Option<Duration>,
        start: u64,
        spans: Option<Arc<dyn Spans>>,
    ) -> Result<Self> {
        let window = window.map(|keep| Window::start(profile::Kind::Cpu, keep)).transpose();
        Ok(Watch {
            observed: Observed::new(),
            traffic: Traffic::new(),
            versions: Versions::default(),
            history: History::new(),
            jobs: Arc::default(),
            slow: SlowRequests::new(slow),
            window: window.map_err(|error| Error::invalid(error.to_string()))?,
            ids: Ids::new(start),
            spans,
        })
    }
}
