//! The address of a client whose requests come through proxies.
//!
//! 1. The client is the peer of the connection, unless that is a proxy that the configuration names.
//! 2. Each proxy appends the address of its own peer to a header. The header is read from its end, and only as long as
//!    the address found last is again a proxy that is named. What a client has written itself stands before all that,
//!    and is never believed.
//! 3. Only the header that the configuration names is read. A proxy that appends to `X-Forwarded-For` passes on a
//!    `Forwarded` that its client has made up, and the other way around.
//! 4. An entry that is not an address (`unknown`, `_hidden`) ends the search at the address found last.
//!
//! Nothing of this runs for a request whose address nobody asks for.

use crate::config::TrustedProxies;
use axum::http::header::FORWARDED;
use axum::http::{HeaderMap, HeaderName};
use pando::{Error, Result};
use std::net::{IpAddr, SocketAddr};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// The largest number of proxies that a request is followed through. A longer list is not a setup that anybody has.
const MOST_HOPS: usize = 32;

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// An address.
    Address(IpAddr),
    /// A program that connected over the unix socket.
    Unix,
    /// A connection whose address the system did not tell, because it has ended.
    Unknown,
}

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    bits: u8,
}

/// The proxies whose headers are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxies {
    networks: Vec<Network>,
    is_unix_trusted: bool,
    header: HeaderName,
}

impl Proxies {
    /// Reads the names of proxies.
    ///
    /// # Errors
    /// `Invalid` if one of them is neither an address, nor a network, nor `unix`.
    pub fn new(trusted: &TrustedProxies) -> Result<Self> {
        let header = if trusted.write_forwarded { FORWARDED } else { X_FORWARDED_FOR };
        // An empty variable of the environment names none.
        let names = trusted.addresses.iter().map(|name| name.trim()).filter(|name| !name.is_empty());
        let (unix, networks): (Vec<&str>, Vec<&str>) = names.partition(|name| *name == "unix");
        let networks = networks.into_iter().map(Network::parse).collect::<Result<_>>()?;
        Ok(Proxies { networks, is_unix_trusted: !unix.is_empty(), header })
    }

    fn trusts(&self, peer: Peer) -> bool {
        match peer {
            Peer::Address(address) => self.networks.iter().any(|network| network.contains(address)),
            Peer::Unix => self.is_unix_trusted,
            Peer::Unknown => false,
        }
    }

    /// Returns the address of the client that sent a request with these headers over a connection to `peer`; `None` if
    /// it connected over the unix socket.
    pub fn client(&self, peer: Peer, headers: &HeaderMap) -> Option<IpAddr> {
        let mut found = peer;
        if self.trusts(peer) {
            let has_pairs = self.header == FORWARDED;
            // Several headers are one list.
            let lines = headers.get_all(&self.header).iter().rev();
            let entries = lines.flat_map(|line| newest_first(line.as_bytes(), has_pairs));
            for entry in entries.take(MOST_HOPS) {
                let named = if has_pairs { named_in(entry) } else { Some(entry) };
                let Some(address) = named.and_then(address) else { break };
                found = Peer::Address(address);
                if !self.trusts(found) {
                    break;
                }
            }
        }
        match found {
            Peer::Address(address) => Some(address),
            Peer::Unix | Peer::Unknown => None,
        }
    }
}

impl Network {
    fn parse(name: &str) -> Result<Self> {
        let wrong = || {
            Error::invalid(format!(
                "{name:?} is not a proxy: name an address (10.0.0.1), a network (10.0.0.0/8), or `unix` for \
                 the unix socket"
            ))
        };
        let (address, bits) = match name.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().map_err(|_| wrong())?)),
            None => (name, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let mut network = Network { address: address.to_canonical(), bits: bits.unwrap_or(most) };
        if network.bits > most {
            return Err(wrong());
        }
        if network.address.is_ipv4() && most == 128 {
            // Clients of IPv4 are compared as such.
            network.bits = network.bits.checked_sub(96).ok_or_else(wrong)?;
        }
        Ok(network)
    }

    fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differ = u32::from(own) ^ u32::from(other);
                differ.checked_shr(32 - u32::from(self.bits)).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differ = u128::from(own) ^ u128::from(other);
                differ.checked_shr(128 - u32::from(self.bits)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// Splits a header at its commas, the last entry first. If it `has_quotes`, commas within them do not count.
///
/// It is read from its end: a quote that a client opens and never closes must not swallow what proxies append. A proxy
/// closes its own quotes and escapes nothing in them, so a backslash has no meaning here.
fn newest_first(line: &[u8], has_quotes: bool) -> Vec<&[u8]> {
    let mut is_quoted = false;
    let parts = line.rsplit(|byte| {
        is_quoted ^= has_quotes && *byte == b'"';
        *byte == b',' && !is_quoted
    });
    parts.take(MOST_HOPS).map(<[u8]>::trim_ascii).collect()
}

/// Returns the value of `for` in an entry of `Forwarded`.
fn named_in(entry: &[u8]) -> Option<&[u8]> {
    let mut pairs = entry.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    pairs.find_map(|pair| {
        let (name, value) = pair.split_at_checked(4)?;
        name.eq_ignore_ascii_case(b"for=").then_some(value)
    })
}

/// Returns the address in an entry, which may have a port, and quotes around it.
fn address(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry).ok()?;
    let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = match bare.parse::<IpAddr>() {
        Ok(address) => address,
        Err(_) => text.parse::<SocketAddr>().ok()?.ip(),
    };
    // What an IPv6 socket shows of a client of IPv4 is the same client.
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(addresses: &[&str], write_forwarded: bool) -> Result<Proxies> {
        let addresses = addresses.iter().map(|&name| name.to_owned()).collect();
        Proxies::new(&TrustedProxies { addresses, write_forwarded })
    }

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    fn peer(address: &str) -> Peer {
        Peer::Address(address.parse().unwrap())
    }

    const XFF: &str = "x-forwarded-for";

    #[test]
    fn what_named_proxies_append_is_believed_and_nothing_else() {
        let trusted = proxies(&["10.0.0.0/8", "::1", "unix"], false).unwrap();
        let client = |from: Peer, lines: &[(&'static str, &str)]| {
            trusted.client(from, &headers(lines)).map(|address| address.to_string())
        };
        let of = |from: &str, list: &str| client(peer(from), &[(XFF, list)]).unwrap();
        assert_eq!(of("10.0.0.1", "192.0.2.7"), "192.0.2.7");
        assert_eq!(of("::1", "2001:db8::7"), "2001:db8::7");
        // Two proxies, the second of which is named as well.
        assert_eq!(of("10.0.0.1", "192.0.2.7, 10.9.9.9"), "192.0.2.7");
        assert_eq!(client(peer("10.0.0.1"), &[(XFF, "192.0.2.7"), (XFF, "10.9.9.9")]).unwrap(), "192.0.2.7");
        // A client that makes an address up cannot remove what the proxy appends.
        assert_eq!(of("10.0.0.1", "203.0.113.5, 192.0.2.7"), "192.0.2.7");
        assert_eq!(of("10.0.0.1", "10.1.1.1, 192.0.2.7"), "192.0.2.7");
        // Nor by a quote that it does not close.
        assert_eq!(of("10.0.0.1", "\", 192.0.2.7"), "192.0.2.7");
        assert_eq!(of("10.0.0.1", "203.0.113.5, \"x, 192.0.2.7"), "192.0.2.7");
        // Nor is a client believed that is no proxy, in either header.
        assert_eq!(of("192.0.2.7", "203.0.113.5"), "192.0.2.7");
        assert_eq!(client(peer("10.0.0.1"), &[("forwarded", "for=203.0.113.5")]).unwrap(), "10.0.0.1");
        // What is no address ends the search.
        for hidden in ["unknown", "_hidden", "", "192.0.2.7, ", "\"", "1.2.3", "192.0.2.7 x", "\u{7f}"] {
            let Ok(value) = hidden.parse() else { continue };
            let only = HeaderMap::from_iter([(X_FORWARDED_FOR, value)]);
            let found = trusted.client(peer("10.0.0.1"), &only);
            assert_eq!(found.unwrap().to_string(), "10.0.0.1", "{hidden:?}");
        }
        assert_eq!(of("10.0.0.1", "192.0.2.7, unknown, 10.2.2.2"), "10.2.2.2");
        // Ports and other forms.
        assert_eq!(of("10.0.0.1", "192.0.2.7:4711"), "192.0.2.7");
        assert_eq!(of("10.0.0.1", "[2001:db8::7]:4711"), "2001:db8::7");
        assert_eq!(of("10.0.0.1", "[2001:db8::7]"), "2001:db8::7");
        assert_eq!(of("10.0.0.1", "::ffff:192.0.2.7"), "192.0.2.7");
        // A unix socket has no address of its own.
        assert_eq!(client(Peer::Unix, &[(XFF, "192.0.2.7")]).unwrap(), "192.0.2.7");
        assert_eq!(client(Peer::Unix, &[]), None);
        let long = vec!["10.0.0.2"; 100_000].join(",");
        assert_eq!(of("10.0.0.1", &format!("192.0.2.7,{long}")), "10.0.0.2", "the hops are bounded");
    }

    #[test]
    fn nobody_is_believed_by_default() {
        let none = proxies(&[], false).unwrap();
        let made_up = headers(&[(XFF, "203.0.113.5"), ("forwarded", "for=203.0.113.5")]);
        assert_eq!(none.client(peer("127.0.0.1"), &made_up), Some("127.0.0.1".parse().unwrap()));
        assert_eq!(none.client(Peer::Unix, &made_up), None);
        assert_eq!(none.client(Peer::Unknown, &made_up), None);
    }

    #[test]
    fn the_standard_header_is_read_where_it_is_named() {
        let trusted = proxies(&["10.0.0.1"], true).unwrap();
        let of = |line: &str| trusted.client(peer("10.0.0.1"), &headers(&[("forwarded", line)])).unwrap();
        for line in [
            "for=192.0.2.7",
            "For=\"192.0.2.7:4711\";proto=https",
            "proto=https; for=192.0.2.7 ;by=10.0.0.1",
            "for=203.0.113.5, for=192.0.2.7",
            "for=\"x, for=203.0.113.5\", for=192.0.2.7",
            "for=203.0.113.5;x=\", for=192.0.2.7",
            "for=203.0.113.5;x=\"\\, for=\"192.0.2.7:80\"",
        ] {
            assert_eq!(of(line).to_string(), "192.0.2.7", "{line}");
        }
        assert_eq!(of("for=\"[2001:db8::7]:4711\"").to_string(), "2001:db8::7");
        for hidden in ["for=unknown", "for=_a", "by=192.0.2.7", "for=", "fo", "for=\"192.0.2.7", ";;;"] {
            assert_eq!(of(hidden).to_string(), "10.0.0.1", "{hidden}");
        }
        let other = trusted.client(peer("10.0.0.1"), &headers(&[(XFF, "203.0.113.5")]));
        assert_eq!(other.unwrap().to_string(), "10.0.0.1");
    }

    #[test]
    fn networks_have_ends() {
        let inside = |network: &str, address: &str| {
            Network::parse(network).unwrap().contains(address.parse().unwrap())
        };
        for (network, address) in [
            ("10.1.0.0/16", "10.1.255.255"),
            ("0.0.0.0/0", "255.255.255.255"),
            ("192.0.2.7", "192.0.2.7"),
            ("2001:db8::/33", "2001:db8:7fff::1"),
            ("::/0", "ffff::"),
            ("::ffff:10.0.0.0/104", "10.9.9.9"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
        ] {
            assert!(inside(network, address), "{address} in {network}");
        }
        for (network, address) in [
            ("10.1.0.0/16", "10.2.0.0"),
            ("192.0.2.7", "192.0.2.6"),
            ("2001:db8::/33", "2001:db8:8000::1"),
            ("0.0.0.0/0", "::1"),
        ] {
            assert!(!inside(network, address), "{address} in {network}");
        }
        let spaced = proxies(&["", " 10.0.0.1"], false).unwrap();
        assert_eq!(spaced, proxies(&["10.0.0.1"], false).unwrap());
        for wrong in [
            "proxy.example",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "10.0.0.0/x",
            "10.0.0/8",
            "::ffff:10.0.0.1/8",
        ] {
            assert_eq!(proxies(&[wrong], false).unwrap_err().kind(), pando::ErrorKind::Invalid, "{wrong}");
        }
    }
}
