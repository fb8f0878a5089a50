//! Addresses of buckets.

use crate::folder::Folder;
use base::{Error, ErrorKind, Result};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};
use std::sync::Arc;
use std::time::Duration;

/// The store's client tries a request again for this long; then the shipper counts a failure, shows it, and waits.
const RETRY_TIME: Duration = Duration::from_secs(10);

/// What is done about a folder that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// It is created.
    Create,
    /// It is an error.
    Refuse,
}

/// Returns the store at `url`, and the prefix within it.
pub(crate) fn open(url: &str, absent: Absent) -> Result<(Arc<dyn ObjectStore>, String)> {
    let Some((scheme, rest)) = url.split_once("://") else { return folder(url, url, absent) };
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let prefix = prefix.trim_matches('/').to_owned();
    if scheme == "file" {
        return match rest.strip_prefix('/') {
            Some(path) => folder(url, &format!("/{path}"), absent),
            None => Err(Error::invalid(format!("{url}: write file:///FOLDER with an absolute path"))),
        };
    }
    if bucket.is_empty() {
        return Err(Error::invalid(format!("{url}: the name of the bucket is missing")));
    }
    // The process may have one already; then that one stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let base = format!("{scheme}://{bucket}");
    let store: object_store::Result<Arc<dyn ObjectStore>> = match scheme {
        "s3" => s3(&base),
        "gs" => {
            let builder = GoogleCloudStorageBuilder::from_env().with_url(base).with_retry(retry());
            builder.build().map(|store| Arc::new(store) as _)
        }
        "az" => {
            let builder = MicrosoftAzureBuilder::from_env().with_url(base).with_retry(retry());
            builder.build().map(|store| Arc::new(store) as _)
        }
        _ => {
            let known = "s3://, gs://, az://, file:/// or the path of a folder";
            return Err(Error::invalid(format!("{url}: {scheme}:// is not supported; use {known}")));
        }
    };
    let refused = |error| {
        let message = "a setting is missing or not valid; check the environment variables of the store";
        Error::invalid(format!("{url}: {message}")).caused_by(error)
    };
    Ok((store.map_err(refused)?, prefix))
}

fn s3(base: &str) -> object_store::Result<Arc<dyn ObjectStore>> {
    let builder = AmazonS3Builder::from_env().with_url(base).with_retry(retry());
    Ok(Arc::new(builder.build()?))
}

fn retry() -> RetryConfig {
    let (init_backoff, max_backoff) = (Duration::from_millis(100), Duration::from_secs(2));
    let backoff = BackoffConfig { init_backoff, max_backoff, base: 2.0 };
    RetryConfig { backoff, max_retries: usize::MAX, retry_timeout: RETRY_TIME }
}

/// Opens a local folder, which errors name as `url`.
fn folder(url: &str, path: &str, absent: Absent) -> Result<(Arc<dyn ObjectStore>, String)> {
    match absent {
        Absent::Create => std::fs::create_dir_all(path)
            .map_err(|cause| Error::io(format!("create the folder {url}"), cause))?,
        Absent::Refuse if !std::path::Path::new(path).exists() => {
            let message = "there is no such folder: correct its path, or mount its disk";
            return Err(Error::new(ErrorKind::Missing, format!("{url}: {message}")));
        }
        Absent::Refuse => {}
    }
    let opened = Folder::open(path);
    let store = opened
        .map_err(|error| Error::invalid(format!("{url}: the folder cannot be used")).caused_by(error))?;
    Ok((Arc::new(store), String::new()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::ObjectStoreExt;
    use object_store::path::Path;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    const FAILURES: usize = 7;

    /// A bucket that responds to `FAILURES` requests with 503, and then with an object.
    fn failing_bucket() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for number in 0..=FAILURES {
                let (mut stream, _) = listener.accept().unwrap();
                let head = BufReader::new(&stream).lines().map(|line| line.unwrap());
                assert!(head.take_while(|line| !line.is_empty()).count() > 0);
                let response = if number < FAILURES {
                    "HTTP/1.1 503 Slow Down\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
                } else {
                    "HTTP/1.1 200 OK\r\nlast-modified: Sat, 28 Nov 2026 10:00:00 GMT\r\netag: \"1\"\r\n\
                     connection: close\r\ncontent-length: 5\r\n\r\nhello"
                };
                stream.write_all(response.as_bytes()).unwrap();
            }
        });
        url
    }

    #[test]
    fn a_bucket_may_fail_for_some_seconds() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = AmazonS3Builder::new().with_endpoint(failing_bucket()).with_allow_http(true);
        let builder = builder.with_bucket_name("b").with_skip_signature(true).with_retry(retry());
        let store = builder.build().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let read = runtime.block_on(async { store.get(&Path::from("object")).await?.bytes().await });
        assert_eq!(&read.unwrap()[..], b"hello");
    }
}
