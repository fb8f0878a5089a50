//! Content codings: which of them a client accepts, and how bodies are encoded and decoded (RFC 9110, 8.4 and 12.5.3).

use crate::wire::problem::{Answer, Problem};
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use flate2::Compression;
use flate2::write::{GzEncoder, MultiGzDecoder};
use std::io::{self, Write};
use zstd::stream::raw::{self, CParameter, DParameter, InBuffer, Operation as _, OutBuffer};

/// A content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// Zstandard (RFC 8878).
    Zstd,
    /// The format of gzip (RFC 1952).
    Gzip,
}

/// The compression level of zstd. On NDJSON it makes less of a body than gzip's, at a third of the time.
const ZSTD_LEVEL: i32 = 1;
/// The window of an encoder of zstd, as a power of two: 256 KiB. It bounds the encoder's memory.
const ZSTD_WINDOW_LOG2: u32 = 18;
/// The largest window that a decoder of zstd accepts: 8 MiB, which every decoder should (RFC 8878, 3.1.1.1.2).
const ZSTD_MOST_WINDOW_LOG2: u32 = 23;
/// The number of bytes after which a decoder hands on what it has.
const DECODED_BYTES: usize = 32 << 10;
/// The number of bytes that are given to a decoder of gzip at a time. They become at most a thousand times as many.
const GZIP_STEP_BYTES: usize = 128;

impl Coding {
    const ALL: [Coding; 2] = [Coding::Zstd, Coding::Gzip];

    /// Returns the name of the coding in headers.
    pub fn name(self) -> &'static str {
        match self {
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
        }
    }

    /// Returns the coding as the value of a header.
    pub fn value(self) -> HeaderValue {
        HeaderValue::from_static(self.name())
    }

    fn is_named(self, name: &str) -> bool {
        name.eq_ignore_ascii_case(self.name())
            || (self == Coding::Gzip && name.eq_ignore_ascii_case("x-gzip"))
    }

    /// Returns the coding that a client prefers for a response; `None`: the body as it is. Between two that it likes as
    /// much, zstd is chosen.
    pub fn accepted(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
        let offers: Vec<(&str, u16)> = values.flat_map(|value| value.split(',')).filter_map(offer).collect();
        let weight = |coding: Coding| {
            let named = offers.iter().find(|(name, _)| coding.is_named(name));
            let any = || offers.iter().find(|(name, _)| *name == "*");
            named.or_else(any).map_or(0, |(_, weight)| *weight)
        };
        let identity = offers.iter().find(|(name, _)| name.eq_ignore_ascii_case("identity"));
        let least = identity.map_or(1, |(_, weight)| *weight).max(1);
        let mut best = None;
        for coding in Coding::ALL {
            if weight(coding) >= least && best.is_none_or(|best| weight(coding) > weight(best)) {
                best = Some(coding);
            }
        }
        best
    }

    /// Returns the coding of a request's body; `None` if it is as it is.
    ///
    /// # Errors
    /// 415 if the body has another coding, or several.
    pub fn of_body(headers: &HeaderMap) -> Answer<Option<Self>> {
        let mut values = headers.get_all(CONTENT_ENCODING).iter();
        let (Some(value), more) = (values.next(), values.next()) else { return Ok(None) };
        let name = value.to_str().unwrap_or_default().trim();
        if more.is_none() && name.eq_ignore_ascii_case("identity") {
            return Ok(None);
        }
        match Coding::ALL.into_iter().find(|coding| more.is_none() && coding.is_named(name)) {
            Some(coding) => Ok(Some(coding)),
            None => Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported",
                "the `content-encoding` of an import must be gzip or zstd, and only one of them",
            )),
        }
    }
}

/// Returns a coding that a client offers, with its weight in thousandths; `None` if it cannot be read.
fn offer(text: &str) -> Option<(&str, u16)> {
    let mut parts = text.split(';');
    let name = parts.next()?.trim();
    let mut weight = 1000;
    for part in parts {
        if let Some(digits) = part.trim().strip_prefix("q=").or_else(|| part.trim().strip_prefix("Q=")) {
            let number: f32 = digits.parse().ok().filter(|number| (0.0..=1.0).contains(number))?;
            weight = (number * 1000.0).round() as u16;
        }
    }
    (!name.is_empty()).then_some((name, weight))
}

/// Encodes a body piece by piece.
pub enum Encoder {
    Zstd(Box<zstd::stream::write::Encoder<'static, Vec<u8>>>),
    Gzip(Box<GzEncoder<Vec<u8>>>),
}

impl Encoder {
    /// Creates an encoder.
    pub fn new(coding: Coding) -> io::Result<Self> {
        Ok(match coding {
            Coding::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
                encoder.set_parameter(CParameter::WindowLog(ZSTD_WINDOW_LOG2))?;
                Encoder::Zstd(Box::new(encoder))
            }
            Coding::Gzip => Encoder::Gzip(Box::new(GzEncoder::new(Vec::new(), Compression::fast()))),
        })
    }

    /// Encodes `piece`, and returns what is complete of it.
    pub fn encode(&mut self, piece: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Encoder::Zstd(encoder) => encoder.write_all(piece)?,
            Encoder::Gzip(encoder) => encoder.write_all(piece)?,
        }
        Ok(self.take())
    }

    /// Returns all that was encoded so far, so that the client can decode everything up to here.
    pub fn flush(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Encoder::Zstd(encoder) => encoder.flush()?,
            Encoder::Gzip(encoder) => encoder.flush()?,
        }
        Ok(self.take())
    }

    /// Returns the rest.
    pub fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Encoder::Zstd(encoder) => encoder.finish(),
            Encoder::Gzip(encoder) => encoder.finish(),
        }
    }

    fn take(&mut self) -> Vec<u8> {
        match self {
            Encoder::Zstd(encoder) => std::mem::take(encoder.get_mut()),
            Encoder::Gzip(encoder) => std::mem::take(encoder.get_mut()),
        }
    }
}

/// Decodes a body piece by piece, however much it becomes.
pub enum Decoder {
    Zstd {
        decoder: Box<raw::Decoder<'static>>,
        /// Whether the bytes so far end between two frames.
        is_complete: bool,
    },
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
}

impl Decoder {
    /// Creates a decoder.
    pub fn new(coding: Coding) -> io::Result<Self> {
        Ok(match coding {
            Coding::Zstd => {
                let mut decoder = raw::Decoder::new()?;
                decoder.set_parameter(DParameter::WindowLogMax(ZSTD_MOST_WINDOW_LOG2))?;
                Decoder::Zstd { decoder: Box::new(decoder), is_complete: true }
            }
            Coding::Gzip => Decoder::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))),
        })
    }

    /// Decodes from the beginning of `encoded` until about [`DECODED_BYTES`] have come of it. Returns them, and how
    /// many bytes of `encoded` were used. Nothing was used and nothing has come only if `encoded` is empty.
    pub fn decode(&mut self, encoded: &[u8]) -> io::Result<(Vec<u8>, usize)> {
        match self {
            Decoder::Zstd { decoder, is_complete } => {
                let mut out = vec![0; DECODED_BYTES];
                let (mut used, mut written) = (0, 0);
                while written < out.len() {
                    let mut input = InBuffer::around(&encoded[used..]);
                    let mut output = OutBuffer::around(&mut out[written..]);
                    let left = decoder.run(&mut input, &mut output)?;
                    let (read, wrote) = (input.pos(), output.pos());
                    (used, written) = (used + read, written + wrote);
                    if read > 0 || wrote > 0 {
                        *is_complete = left == 0;
                    }
                    if (read == 0 && wrote == 0) || (used == encoded.len() && written < out.len()) {
                        break;
                    }
                }
                out.truncate(written);
                Ok((out, used))
            }
            Decoder::Gzip(decoder) => {
                let mut used = 0;
                while used < encoded.len() && decoder.get_ref().len() < DECODED_BYTES {
                    let end = encoded.len().min(used + GZIP_STEP_BYTES);
                    let step = decoder.write(&encoded[used..end])?;
                    used += step;
                }
                Ok((std::mem::take(decoder.get_mut()), used))
            }
        }
    }

    /// Returns the last bytes.
    ///
    /// # Errors
    /// `UnexpectedEof` if the body was cut.
    pub fn finish(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Decoder::Zstd { is_complete: true, .. } => Ok(Vec::new()),
            Decoder::Zstd { .. } => Err(io::ErrorKind::UnexpectedEof.into()),
            Decoder::Gzip(decoder) => {
                decoder.try_finish()?;
                Ok(std::mem::take(decoder.get_mut()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: axum::http::HeaderName, values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn the_client_weighs_what_it_accepts() {
        let accepted = |values: &[&str]| Coding::accepted(&of(ACCEPT_ENCODING, values));
        for (values, coding) in [
            (&[][..], None),
            (&["gzip"], Some(Coding::Gzip)),
            (&["gzip, deflate, br, zstd"], Some(Coding::Zstd)),
            (&["deflate", "X-GZIP"], Some(Coding::Gzip)),
            (&["zstd;q=0.5, gzip;q=0.8"], Some(Coding::Gzip)),
            (&["zstd;q=0, *;q=0.1"], Some(Coding::Gzip)),
            (&["*"], Some(Coding::Zstd)),
            (&["gzip;q=0"], None),
            (&["gzip;q=0.2, identity;q=0.5"], None),
            (&["identity"], None),
            (&["br"], None),
            (&["gzip;q=2, ;q=1, , gzip;q=x"], None),
        ] {
            assert_eq!(accepted(values), coding, "{values:?}");
        }
    }

    #[test]
    fn a_body_has_one_known_coding() {
        let coding =
            |values: &[&str]| Coding::of_body(&of(CONTENT_ENCODING, values)).map_err(|p| p.status.as_u16());
        assert_eq!(coding(&[]), Ok(None));
        assert_eq!(coding(&["identity"]), Ok(None));
        assert_eq!((coding(&["gzip"]), coding(&["Zstd"])), (Ok(Some(Coding::Gzip)), Ok(Some(Coding::Zstd))));
        for other in [&["br"][..], &["gzip, zstd"], &["gzip", "gzip"], &[""]] {
            assert_eq!(coding(other), Err(415), "{other:?}");
        }
    }

    /// Decodes pieces of that length. Returns what came of them, and the longest piece of it.
    fn decoded(coding: Coding, encoded: &[u8], piece: usize) -> io::Result<(Vec<u8>, usize)> {
        let mut decoder = Decoder::new(coding)?;
        let (mut all, mut longest) = (Vec::new(), 0);
        for mut piece in encoded.chunks(piece) {
            loop {
                let (out, used) = decoder.decode(piece)?;
                longest = longest.max(out.len());
                all.extend_from_slice(&out);
                piece = &piece[used..];
                if piece.is_empty() && out.is_empty() {
                    break;
                }
                assert!(used > 0 || !out.is_empty(), "it goes on");
            }
        }
        all.extend(decoder.finish()?);
        Ok((all, longest))
    }

    #[test]
    fn what_is_encoded_in_pieces_is_decoded_in_pieces() {
        let text: Vec<u8> =
            (0..40_000u32).flat_map(|n| format!("{{\"key\":\"k{n}\"}}\n").into_bytes()).collect();
        for coding in Coding::ALL {
            let mut encoder = Encoder::new(coding).unwrap();
            let mut encoded = Vec::new();
            let (first, rest) = text.split_at(1000);
            encoded.extend(encoder.encode(first).unwrap());
            encoded.extend(encoder.flush().unwrap());
            // All that was flushed can be decoded.
            if coding == Coding::Zstd {
                let mut decoder = Decoder::new(coding).unwrap();
                assert_eq!(decoder.decode(&encoded).unwrap().0, first);
            } else {
                let mut decoder = flate2::write::GzDecoder::new(Vec::new());
                decoder.write_all(&encoded).unwrap();
                decoder.flush().unwrap();
                assert_eq!(decoder.get_ref().as_slice(), first);
            }
            for piece in rest.chunks(7_000) {
                encoded.extend(encoder.encode(piece).unwrap());
            }
            encoded.extend(encoder.finish().unwrap());
            assert!(encoded.len() < text.len() / 4, "{coding:?}: {} bytes", encoded.len());
            // One body after another is a body as well.
            let twice = [&encoded[..], &encoded].concat();
            for piece in [1, 100, 1 << 20] {
                assert!(decoded(coding, &encoded, piece).unwrap().0 == text, "{coding:?} {piece}");
                assert!(decoded(coding, &twice, piece).unwrap().0.len() == 2 * text.len(), "{coding:?}");
            }
            for cut in [encoded.len() - 1, encoded.len() / 2, 5] {
                assert!(decoded(coding, &encoded[..cut], 100).is_err(), "{coding:?}: cut at {cut}");
            }
            let mut other = encoded.clone();
            other[0] ^= 1;
            assert!(decoded(coding, &other, 100).is_err(), "{coding:?}");
            assert_eq!(decoded(coding, b"", 1).map(|(all, _)| all).unwrap_or_default(), b"");
        }
    }

    #[test]
    fn a_bomb_is_decoded_a_little_at_a_time() {
        for coding in Coding::ALL {
            let mut encoder = Encoder::new(coding).unwrap();
            let mut bomb = Vec::new();
            for _ in 0..64 {
                bomb.extend(encoder.encode(&vec![0; 1 << 20]).unwrap());
            }
            bomb.extend(encoder.finish().unwrap());
            assert!(bomb.len() < 1 << 20, "{coding:?}");
            let (all, longest) = decoded(coding, &bomb, bomb.len()).unwrap();
            assert_eq!(all.len(), 64 << 20);
            assert!(longest <= DECODED_BYTES + 1032 * GZIP_STEP_BYTES + (64 << 10), "{coding:?}: {longest}");
        }
        // A window that would take 128 MiB.
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        encoder.set_parameter(CParameter::WindowLog(27)).unwrap();
        encoder.write_all(&vec![7; 1 << 20]).unwrap();
        assert!(decoded(Coding::Zstd, &encoder.finish().unwrap(), 100).is_err());
    }
}
