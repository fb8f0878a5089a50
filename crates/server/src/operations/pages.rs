//! `/`: the dashboard, one page that needs nothing but this server.

use crate::routes::openapi::page;
use crate::serving::service::App;
use crate::wire::problem::Answer;
use axum::Router;
use axum::http::Method;
use axum::routing::any;
use std::sync::Arc;

/// The path.
pub fn routes() -> Router<Arc<App>> {
    Router::new().route("/", any(show))
}

async fn show(method: Method) -> Answer {
    page(&method, "text/html; charset=utf-8", include_bytes!("dashboard.html"))
}
