//! `serve --follow`: the options of a replica.

use super::source::source;
use crate::failure::{Failure, Outcome};
use crate::text;
use clap::Args;
use server::following::Source;
use std::sync::Arc;
use std::time::Duration;

/// Options of `serve`.
#[derive(Args, Clone, Debug)]
pub struct FollowArgs {
    /// Be a replica: follow all databases of the server at http://HOST:PORT or https://HOST:PORT, or of the bucket that
    /// a server ships to (s3://, gs://, az://, file:/// or the path of a folder), and serve reads. Writes are
    /// redirected to the primary. The variable PANDO_FOLLOW_TOKEN holds the token for the server, which must allow
    /// everything (admin)
    #[arg(long, value_name = "URL", env = "PANDO_FOLLOW")]
    pub follow: Option<String>,
    /// Look for new commits in a bucket every TIME, as in 200ms or 5s, and at least 10ms. With a shorter time, the
    /// replica lags less and makes more requests
    #[arg(long, value_name = "TIME", default_value = "500ms", env = "PANDO_FOLLOW_INTERVAL",
          value_parser = text::parse_interval)]
    pub follow_interval: Duration,
    /// Redirect writes to the server at this address [default: the server in --follow; none for a bucket, and writes
    /// get 503]
    #[arg(long, value_name = "URL", env = "PANDO_PRIMARY")]
    pub primary: Option<String>,
}

impl FollowArgs {
    /// Returns the source at `address`, with the other options.
    #[cfg(feature = "ship")]
    pub fn source_at(&self, address: &str) -> Outcome<Arc<dyn Source>> {
        source(address, self.primary.as_deref(), self.follow_interval)
    }

    /// Returns the source of a replica; `None` for a primary.
    pub fn source(&self) -> Outcome<Option<Arc<dyn Source>>> {
        match &self.follow {
            Some(address) => source(address, self.primary.as_deref(), self.follow_interval).map(Some),
            None if self.primary.is_some() => {
                Err(Failure::Usage("--primary is only used together with --follow".to_owned()))
            }
            None => Ok(None),
        }
    }
}
