//! The meanings of the usual statuses, in the words of the OpenAPI document.

/// A status and its meaning.
pub type Meaning = (u16, &'static str);

/// 204.
pub const DONE: Meaning = (204, "Done");
/// 404.
pub const MISSING: Meaning = (404, "The database, table, key or other resource does not exist");
/// 409.
pub const CONFLICT: Meaning =
    (409, "A conflict with another transaction or the current state; `detail` names table and key");
/// 507.
pub const FULL: Meaning = (507, "The disk or the memory budget is full; nothing was written");
/// 412.
pub const FAILED: Meaning = (412, "A condition does not hold; nothing was done");
/// 413.
pub const TOO_LARGE: Meaning = (413, "The body is too long; nothing was stored");
/// 415.
pub const UNSUPPORTED: Meaning =
    (415, "The body has a `content-encoding` or a `content-type` that is not supported");
/// 408.
pub const LATE: Meaning = (408, "The body arrived too slowly");
/// What an import responds.
pub const IMPORTED: &[Meaning] =
    &[(200, "JSON: how many, and the commit"), MISSING, CONFLICT, TOO_LARGE, UNSUPPORTED, LATE, FULL];
/// 200 with a value.
pub const VALUE: Meaning = (200, "The value, byte for byte");
