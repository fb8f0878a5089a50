//! Streams of Hrana that clients hold between two requests. A server that was built without SQL has none.

use std::time::Duration;

#[cfg(feature = "sql")]
pub use with_sql::Session;

/// The streams that clients hold.
#[derive(Debug)]
pub struct HranaStreams {
    /// Whether the protocol is spoken.
    #[cfg_attr(not(feature = "sql"), allow(dead_code))] // Without SQL, every request is refused.
    pub is_on: bool,
    /// What is kept of each stream, under its baton.
    #[cfg(feature = "sql")]
    pub batons: hrana::Batons<Session>,
}

impl HranaStreams {
    /// Creates an empty set of at most `most` streams, each of which is closed after `idle` without a request.
    #[cfg_attr(not(feature = "sql"), expect(unused_variables, reason = "without SQL there are no streams"))]
    pub fn new(is_on: bool, most: usize, idle: Duration) -> Self {
        HranaStreams {
            is_on,
            #[cfg(feature = "sql")]
            batons: hrana::Batons::new(most, idle),
        }
    }

    /// Returns the number of streams that are kept or in use.
    pub fn count(&self) -> usize {
        #[cfg(feature = "sql")]
        return self.batons.places();
        #[cfg(not(feature = "sql"))]
        0
    }

    /// Closes streams that were unused for too long, and rolls back their transactions. The caller may wait.
    pub fn give_up_idle(&self) {
        #[cfg(feature = "sql")]
        drop(self.batons.expired());
    }

    /// Closes all streams.
    pub fn give_up_all(&self) {
        #[cfg(feature = "sql")]
        self.batons.clear();
    }
}

#[cfg(feature = "sql")]
mod with_sql {
    use std::fmt::Debug;
    use std::sync::Arc;

    /// A stream, and the database that it keeps open.
    #[derive(Debug)]
    pub struct Session {
        /// The stream. It is dropped before the database is released.
        pub stream: hrana::Stream,
        _open: Arc<dyn Debug + Send + Sync>,
    }

    impl Session {
        /// Adds the database to its stream.
        pub fn new(stream: hrana::Stream, open: Arc<dyn Debug + Send + Sync>) -> Self {
            Session { stream, _open: open }
        }
    }
}
