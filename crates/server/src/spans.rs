//! The server's interface to the code that exports its requests to a collector of traces.

use axum::http::HeaderMap;
use std::fmt::Debug;
use std::time::{Duration, SystemTime};

/// Exports requests as spans.
pub trait Spans: Debug + Send + Sync {
    /// Takes a request whose response is ready. It is called on the thread that responds, and must neither wait nor
    /// take a lock that is held across input or output: it drops spans that it has no room for.
    fn take(&self, request: &RequestSpan<'_>);
}

/// A request whose response is ready. It has no keys, which are data, no query and no token.
#[derive(Clone, Copy, Debug)]
pub struct RequestSpan<'a> {
    /// The span that the request belongs to, if its client has named one.
    pub parent: Option<Parent>,
    /// The method; empty if the server does not know it.
    pub method: &'a str,
    /// The path, with the names of its parameters in braces; empty if there is no such operation.
    pub route: &'a str,
    /// The status of the response.
    pub status: u16,
    /// The id that the response carries, if it carries one.
    pub request_id: Option<&'a str>,
    /// The moment at which the request had been received, except for its body.
    pub begun: SystemTime,
    /// The time until the response was ready. A long body is sent after that.
    pub took: Duration,
    /// The phases of its write, if it was a single write of a millisecond or more.
    pub phases: Option<Phases>,
}

/// The phases of a single write, one after the other. They end shortly before its request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phases {
    /// The time in the queue: other writes were being committed, or no thread was ready yet.
    pub queued: Duration,
    /// The duration of the commit that included this write, with its flush.
    pub committed: Duration,
    /// The number of writes in that commit.
    pub together: usize,
}

/// The span of a client, as it is named in `traceparent` (W3C Trace Context, level 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The id of the trace, which is not 0.
    pub trace: u128,
    /// The id of the client's span, which is not 0.
    pub span: u64,
    /// Whether the client records the trace.
    pub is_sampled: bool,
}

impl Parent {
    /// Returns the span that the headers name. `None` if they name none, or in a wrong form, which the standard
    /// requires to be ignored.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let text = headers.get("traceparent")?.to_str().ok()?;
        let mut parts = text.split('-');
        let (version, trace, span, flags) = (
            hex(parts.next()?, 2)?,
            hex(parts.next()?, 32)?,
            hex(parts.next()?, 16)?,
            hex(parts.next()?, 2)?,
        );
        // Later versions may append parts. Version 255 is invalid.
        let is_good = version != 255 && (version > 0 || parts.next().is_none()) && trace != 0 && span != 0;
        is_good.then_some(Parent { trace, span: span as u64, is_sampled: flags & 1 == 1 })
    }
}

/// Returns the number in `text` if it has this many digits. The standard knows only lower case.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (text.len() == digits && is_hex).then(|| u128::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent(text: &str) -> Option<Parent> {
        Parent::of(&HeaderMap::from_iter([("traceparent".parse().unwrap(), text.parse().unwrap())]))
    }

    #[test]
    fn a_parent_is_known_by_its_form() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let expected = Parent {
            trace: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736,
            span: 0x00f0_67aa_0ba9_02b7,
            is_sampled: true,
        };
        assert_eq!(parent(good), Some(expected));
        assert_eq!(parent(&format!("{}00", &good[..53])), Some(Parent { is_sampled: false, ..expected }));
        assert_eq!(parent(&format!("01{}-more", &good[2..])), Some(expected), "a later version");
        let no_trace = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        let no_span = format!("{}-{}-01", &good[..35], "0".repeat(16));
        let bad = [
            "",
            "00",
            &good[..52],
            &good.to_uppercase(),
            &format!("ff{}", &good[2..]),
            &format!("{good}-more"),
            &good.replace('4', "+"),
            &no_trace,
            &no_span,
        ];
        for bad in bad {
            assert_eq!(parent(bad), None, "{bad}");
        }
    }
}
