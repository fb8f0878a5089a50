//! The span that a cursor keeps, alone or together with the cursors of its memtables.

use base::Span;
use std::ops::Deref;
use std::sync::Arc;

/// The span of a cursor. Memtables share it, so that they need not skip any number of newer keys after it.
#[derive(Debug)]
pub(crate) enum Kept {
    Alone(Span),
    Shared(Arc<Span>),
}

impl Kept {
    /// Returns `span`, shared if `is_shared`. A span of all keys bounds nothing, and is not shared.
    #[inline]
    pub fn new(span: Span, is_shared: bool) -> Self {
        let is_bounded = !span.start().is_empty() || span.end().is_some();
        if is_shared && is_bounded { Kept::Shared(Arc::new(span)) } else { Kept::Alone(span) }
    }

    /// Returns the span for a memtable's cursor.
    #[inline]
    pub fn shared(&self) -> Option<Arc<Span>> {
        match self {
            Kept::Alone(_) => None,
            Kept::Shared(span) => Some(Arc::clone(span)),
        }
    }
}

impl Deref for Kept {
    type Target = Span;

    #[inline]
    fn deref(&self) -> &Span {
        match self {
            Kept::Alone(span) => span,
            Kept::Shared(span) => span,
        }
    }
}
