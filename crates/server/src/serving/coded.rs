//! Content codings of requests and responses: where they apply.
//!
//! 1. Bodies of imports are decoded. Other bodies are stored as they come, or are too short for it to matter.
//! 2. Responses of operations that send many records are compressed if the client asks for it. What a get, a put or a
//!    delete returns never is, so that these requests do not even look at the header.

#[cfg(feature = "compression")]
pub use with::*;
#[cfg(not(feature = "compression"))]
pub use without::*;

#[cfg(feature = "compression")]
mod with {
    use crate::calls::operation::Operation;
    use crate::limits::decoded;
    use crate::limits::receive::RequestBody;
    use crate::limits::room::Room;
    use crate::send::compressed::compress;
    use crate::watch::observe::Kind;
    use crate::wire::body::Body;
    use crate::wire::coding::Coding;
    use crate::wire::problem::Answer;
    use axum::http::{HeaderMap, Response};

    /// What a client wants of the coding of a response.
    pub struct Asked(Option<Coding>);

    impl Asked {
        /// Reads what a request for this operation wants.
        pub fn of(operation: Option<&Operation>, headers: &HeaderMap) -> Self {
            let is_of_one =
                |operation: &Operation| matches!(operation.kind, Kind::Get | Kind::Put | Kind::Delete);
            match operation {
                Some(operation) if !is_of_one(operation) => Asked(Coding::accepted(headers)),
                _ => Asked(None),
            }
        }

        /// Compresses the response, if that is wanted and useful.
        pub fn answered(self, room: &Room, response: Response<Body>) -> Response<Body> {
            match response.body() {
                Body::Whole(_) => response,
                Body::Pieces { .. } => compress(room, self.0, response),
            }
        }
    }

    /// Returns the body of an import decoded.
    ///
    /// # Errors
    /// 415 for a coding that is not supported, 503 if too many bodies are decoded.
    pub fn decoded(
        room: &Room,
        operation: &Operation,
        headers: &HeaderMap,
        body: RequestBody,
    ) -> Answer<RequestBody> {
        if operation.is_import { decoded::decoded(room, headers, body) } else { Ok(body) }
    }
}

#[cfg(not(feature = "compression"))]
mod without {
    use crate::calls::operation::Operation;
    use crate::limits::receive::RequestBody;
    use crate::limits::room::Room;
    use crate::wire::body::Body;
    use crate::wire::problem::{Answer, Problem};
    use axum::http::header::CONTENT_ENCODING;
    use axum::http::{HeaderMap, Response, StatusCode};

    /// Nothing: responses are sent as they are.
    pub struct Asked;

    impl Asked {
        /// Reads nothing.
        pub fn of(_: Option<&Operation>, _: &HeaderMap) -> Self {
            Asked
        }

        /// Returns the response as it is.
        pub fn answered(self, _: &Room, response: Response<Body>) -> Response<Body> {
            response
        }
    }

    /// Returns the body as it is.
    ///
    /// # Errors
    /// 415 for an import with a coding, which cannot be read in this build.
    pub fn decoded(
        _: &Room,
        operation: &Operation,
        headers: &HeaderMap,
        body: RequestBody,
    ) -> Answer<RequestBody> {
        if operation.is_import && headers.get(CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
            let detail = "this server was built without the feature `compression`: send the import without \
                          `content-encoding`";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported", detail));
        }
        Ok(body)
    }
}
