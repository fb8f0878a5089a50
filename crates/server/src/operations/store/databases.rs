//! Databases of a remote store: list, look at and create. None is dropped: other servers may use it.

use crate::access::auth::Gatekeeper;
use crate::calls::call::{Call, json_body};
use crate::data::engine::Remote;
use crate::data::held::Data;
use crate::limits::handoff::hand_off;
use crate::limits::receive::RequestBody;
use crate::limits::room::Room;
use crate::operations::databases::{Options, visible};
use crate::operations::store::tables::list;
use crate::wire::problem::Answer;
use crate::wire::response::json;
use axum::http::StatusCode;
use pando::remote::Capability;
use serde_json::json as object;
use std::sync::Arc;

/// Handles GET: lists the databases that the client may see, with the scope of its token in each and in all.
pub async fn all(data: Arc<Data<Remote>>, keeper: Arc<Gatekeeper>, call: Call) -> Answer {
    let shared = Arc::clone(&data);
    let names = hand_off(move || shared.databases.names()).await?;
    let is_open = |name: &str| data.databases.get_open(name).is_some();
    Ok(json(StatusCode::OK, &visible(&names, &keeper, &call, is_open)))
}

/// Handles GET: describes a database.
pub async fn describe(data: Arc<Data<Remote>>, call: Call) -> Answer {
    let name = call.target().database().to_owned();
    let open = data.database(&name).await?;
    let described = hand_off(move || Ok(object!({ "name": name, "tables": list(&open.db)? })));
    Ok(json(StatusCode::OK, &described.await?))
}

/// Handles PUT: creates a database.
pub async fn create(data: Arc<Data<Remote>>, room: Arc<Room>, call: Call, body: RequestBody) -> Answer {
    let name = call.target().database().to_owned();
    let (options, _): (Options, _) = json_body(&room.reception, body).await?;
    if options.page_bytes.is_some() {
        return Err(Capability::Layouts.refusal().into());
    }
    let made = hand_off(move || {
        let (_, is_new) = data.databases.create(&name)?;
        Ok((is_new, object!({ "name": name })))
    });
    let (is_new, described) = made.await?;
    Ok(json(if is_new { StatusCode::CREATED } else { StatusCode::OK }, &described))
}
