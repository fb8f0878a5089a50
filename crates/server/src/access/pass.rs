//! The permission of a response that is sent for long. Its request was admitted once, when it began; after that, the
//! token can be revoked, or expire.

use crate::access::auth::Gatekeeper;
use crate::access::credentials::credentials;
use crate::wire::problem::Problem;
use axum::http::{HeaderMap, StatusCode};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

/// The permission of a request that was admitted.
#[derive(Clone, Debug)]
pub struct Pass {
    keeper: Arc<Gatekeeper>,
    /// The hash of the token; `None` if none was required.
    hash: Option<[u8; 32]>,
    /// Whether the request needs no token although others do.
    is_public: bool,
}

impl Pass {
    /// Returns the permission of an admitted request with these headers.
    pub fn new(keeper: Arc<Gatekeeper>, headers: &HeaderMap) -> Self {
        let guards = keeper.is_on_guard();
        let token = guards.then(|| credentials(headers)).flatten();
        let is_public = guards && token.is_none();
        Pass { keeper, hash: token.map(|token| Sha256::digest(token).into()), is_public }
    }

    /// Returns whether a request with the same token would be admitted now.
    pub fn is_valid(&self) -> bool {
        match &self.hash {
            Some(hash) => self.keeper.knows(hash),
            None => self.is_public || !self.keeper.is_on_guard(),
        }
    }

    /// Returns the problem of a response that ends because the permission is not valid any more.
    #[cold]
    pub fn ended() -> Problem {
        let detail = "the token of this request was revoked or has expired; send the request again with a \
                      valid token";
        Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
    }
}
