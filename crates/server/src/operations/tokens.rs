//! `/v1/tokens`: the tokens of the server. Only their hashes are stored, so a token is shown once, when it is created.

use crate::access::auth::Gatekeeper;
use crate::access::tokens::{NewToken, Scope};
use crate::calls::call::{Call, json_body};
use crate::calls::meanings::{DONE, LATE, TOO_LARGE};
use crate::calls::operation::{Access, Operation, on_both};
use crate::calls::target::table_name;
use crate::limits::handoff::hand_off;
use crate::limits::receive::RequestBody;
use crate::limits::room::Room;
use crate::watch::observe::Kind;
use crate::wire::problem::{Answer, Problem};
use crate::wire::response::{done, json};
use axum::http::HeaderValue;
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use serde::Deserialize;
use serde_json::{Value, json as object};
use std::sync::Arc;
use std::time::Duration;

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[
    on_both!(
        "GET",
        "/v1/tokens",
        Access::All(Scope::Admin),
        Kind::Other,
        "List the tokens: what each allows, until when, and when it was last used",
        |parts, _, _| Box::pin(list(parts.keeper())),
    )
    .responses(&[(200, "JSON")]),
    on_both!(
        "POST",
        "/v1/tokens",
        Access::All(Scope::Admin),
        Kind::Other,
        "Create a token; the response is the only one that has it",
        |parts, call, body| Box::pin(create(parts.keeper(), parts.room(), call, body)),
    )
    .receives("token")
    .on_replicas()
    .responses(&[
        (201, "JSON: the token"),
        (409, "There is a token of this name, or it would lock everybody out"),
        TOO_LARGE,
        LATE,
    ]),
    on_both!(
        "DELETE",
        "/v1/tokens/{token}",
        Access::All(Scope::Admin),
        Kind::Other,
        "Revoke the token of this name",
        |parts, call, _| Box::pin(revoke(parts.keeper(), call)),
    )
    .on_replicas()
    .responses(&[
        DONE,
        (404, "There is no such token"),
        (409, "Nobody could administer the server without it"),
    ]),
];

/// A token that is to be created.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    name: String,
    scope: Scope,
    database: Option<String>,
    rate: Option<u32>,
    concurrency: Option<u32>,
    expires_in_s: Option<u64>,
}

/// Handles GET.
async fn list(keeper: Arc<Gatekeeper>) -> Answer {
    let listed = hand_off(move || {
        let used = keeper.last_uses();
        let describe = |token: &crate::access::tokens::Token| {
            let last = used.iter().find(|(hash, _)| token.hash().is_ok_and(|own| own == *hash));
            object!({
                "name": token.name,
                "scope": token.scope,
                "database": token.database,
                "created_s": token.created_s,
                "expires_s": token.expires_s,
                "is_expired": token.is_expired(),
                "rate": token.rate,
                "concurrency": token.concurrency,
                // Since the server started; null: not since then.
                "last_used_s": last.and_then(|(_, used)| *used),
            })
        };
        let list: Vec<Value> = keeper.file().list()?.iter().map(describe).collect();
        Ok(object!({ "tokens": list }))
    });
    Ok(json(StatusCode::OK, &listed.await?))
}

/// Handles POST.
async fn create(keeper: Arc<Gatekeeper>, room: Arc<Room>, _: Call, body: RequestBody) -> Answer {
    let (wanted, _): (Wanted, _) = json_body(&room.reception, body).await?;
    let created = hand_off(move || {
        let Wanted { name, scope, database, rate, concurrency, expires_in_s } = wanted;
        let is_first = !keeper.is_on_guard();
        if is_first && (scope != Scope::Admin || database.is_some() || expires_in_s.is_some()) {
            return Err(locked_out(
                "the first token must have the scope admin, for all databases and without an end: from then \
                 on the server requires a token for everything",
            ));
        }
        let lives_for = expires_in_s.map(Duration::from_secs);
        let new = NewToken { name: &name, scope, database, rate, concurrency, lives_for };
        let token = keeper.file().create_as(new)?;
        keeper.refresh()?;
        Ok(object!({ "name": name, "token": token }))
    });
    let mut response = json(StatusCode::CREATED, &created.await?);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Handles DELETE.
async fn revoke(keeper: Arc<Gatekeeper>, call: Call) -> Answer {
    let name = table_name(call.target().database())?.into_owned();
    let revoked = hand_off(move || {
        let remains = |tokens: &[crate::access::tokens::Token]| {
            let administers = tokens.iter().any(|token| token.name != name && token.administers_all());
            let is_one = tokens.iter().any(|token| token.name == name && token.administers_all());
            if administers || !is_one { Ok(()) } else { Err(()) }
        };
        match keeper.file().revoke_if(&name, remains)? {
            Ok(()) => Ok(keeper.refresh()?),
            Err(()) => Err(locked_out(
                "it is the last token with the scope admin for all databases; create another one first, or \
                 use `pando token revoke`",
            )),
        }
    });
    revoked.await?;
    Ok(done(None))
}

fn locked_out(detail: &str) -> Problem {
    Problem::new(StatusCode::CONFLICT, "conflict", detail)
}
