//! The header `date` of responses. The library of HTTP/1 adds its own.

use hyper::header::HeaderValue;
use std::cell::RefCell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A date, which each thread keeps until the second is over.
struct Kept {
    until: SystemTime,
    value: HeaderValue,
}

thread_local! {
    static KEPT: RefCell<Kept> =
        const { RefCell::new(Kept { until: UNIX_EPOCH, value: HeaderValue::from_static("") }) };
}

/// Returns the date.
pub fn now() -> HeaderValue {
    at(SystemTime::now())
}

fn at(now: SystemTime) -> HeaderValue {
    KEPT.with_borrow_mut(|kept| {
        // A clock that was set back is found, too.
        if now >= kept.until || kept.until.duration_since(now).is_ok_and(|left| left > SECOND) {
            let value = HeaderValue::from_str(&httpdate::fmt_http_date(now)).expect("letters and digits");
            *kept = Kept { until: next_second(now), value };
        }
        kept.value.clone()
    })
}

const SECOND: Duration = Duration::from_secs(1);

fn next_second(now: SystemTime) -> SystemTime {
    let within = now.duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos();
    now + SECOND - Duration::from_nanos(within.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_kept_for_its_second() {
        let nanos = |ns: u64| UNIX_EPOCH + Duration::from_secs(784_111_777) + Duration::from_nanos(ns);
        let first = at(nanos(0));
        assert_eq!(first, "Sun, 06 Nov 1994 08:49:37 GMT");
        // The same memory: it was not formatted again.
        assert_eq!(at(nanos(999_999_999)).as_bytes().as_ptr(), first.as_bytes().as_ptr());
        assert_eq!(at(nanos(1_000_000_000)), "Sun, 06 Nov 1994 08:49:38 GMT");
        assert_eq!(at(nanos(0)), "Sun, 06 Nov 1994 08:49:37 GMT", "the clock was set back");
    }
}
