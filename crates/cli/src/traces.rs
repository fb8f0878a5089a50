//! `serve --otlp`: exports requests to a collector of OpenTelemetry.
//!
//! A request is a span, and the queue and the commit of a single write are spans within it. OpenTelemetry's library
//! samples them, keeps them in a bounded queue, and sends them in batches from a thread of its own; the `OTEL_*`
//! variables of its specification configure it. When the queue is full, spans are dropped, and the log says so.

use crate::failure::{Failure, Outcome};
use crate::remote;
use crate::settings::without_password;
use async_trait::async_trait;
use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId,
    TraceState, Tracer as _, TracerProvider,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span};
use server::spans::{Parent, RequestSpan, Spans};
use std::time::{Duration, SystemTime};
use ureq::Agent;

/// The name of the service, unless `OTEL_SERVICE_NAME` sets it.
const SERVICE: &str = "pando";
/// The path at which collectors take traces (OTLP over HTTP), unless the address has one.
const PATH: &str = "/v1/traces";
/// How long a request to the collector may take.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// How long the end of the server waits for the last batch.
const LAST_BATCH: Duration = Duration::from_secs(5);
/// The longest response of a collector that is read.
const MAX_RESPONSE_BYTES: u64 = 1 << 20;

/// Exports spans to a collector.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

/// Sends batches to a collector.
#[derive(Debug)]
struct Collector(Agent);

#[async_trait]
impl HttpClient for Collector {
    /// Blocks the thread, which is that of the batches.
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (head, body) = self.0.run(request.map(|body| body.to_vec()))?.into_parts();
        let body = body.into_with_config().limit(MAX_RESPONSE_BYTES).read_to_vec()?;
        Ok(Response::from_parts(head, body.into()))
    }
}

impl Traces {
    /// Starts the thread that sends spans to the collector at `url`.
    ///
    /// # Errors
    /// If the address, the certificate of `PANDO_CA_CERT` or one of the `OTEL_*` variables is invalid.
    pub fn start(url: &str) -> Outcome<Self> {
        let wrong = |problem: String| Failure::Usage(format!("--otlp {}: {problem}", without_password(url)));
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        if !matches!(scheme, "http" | "https") {
            return Err(wrong("give an address that begins with http:// or https://".to_owned()));
        }
        let endpoint = match rest.trim_end_matches('/') {
            host if host.contains('/') => url.to_owned(),
            host => format!("{scheme}://{host}{PATH}"),
        };
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_global(Some(REQUEST_TIME));
        let config = if scheme == "https" { remote::encrypted(config)? } else { config };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_endpoint(endpoint)
            .with_http_client(Collector(config.build().new_agent()))
            .build()
            .map_err(|error| wrong(error.to_string()))?;
        let mut resource = Resource::builder();
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name(SERVICE);
        }
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = resource.with_attribute(version).build();
        let provider =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
        Ok(Traces { tracer: provider.tracer(SERVICE), provider })
    }

    /// Sends what is in the queue, and ends the thread.
    pub fn finish(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(LAST_BATCH) {
            tracing::warn!(%error, "the last traces were not exported");
        }
    }

    fn begin(&self, name: String, kind: SpanKind, begun: SystemTime, parent: &Context) -> Span {
        let builder = SpanBuilder::from_name(name).with_kind(kind).with_start_time(begun);
        self.tracer.build_with_context(builder, parent)
    }

    /// Exports the queue and the commit of a write, which ended at `end`, as parts of `request`.
    fn take_phases(&self, request: &Span, span: &RequestSpan<'_>, end: SystemTime) {
        let Some(phases) = span.phases else { return };
        let within = Context::new().with_remote_span_context(request.span_context().clone());
        let before = |end: SystemTime, time| end.checked_sub(time).unwrap_or(end);
        let committing = before(end, phases.committed);
        let queued = before(committing, phases.queued);
        self.begin("queue".to_owned(), SpanKind::Internal, queued, &within).end_with_timestamp(committing);
        let mut commit = self.begin("commit".to_owned(), SpanKind::Internal, committing, &within);
        commit.set_attribute(KeyValue::new("pando.writes_together", phases.together as i64));
        commit.end_with_timestamp(end);
    }
}

impl Spans for Traces {
    fn take(&self, request: &RequestSpan<'_>) {
        let parent = request.parent.map_or_else(Context::new, context_of);
        // The names are those of OpenTelemetry's conventions for HTTP.
        let (name, method) = match (request.method, request.route) {
            ("", _) => ("HTTP".to_owned(), "_OTHER"),
            (method, route) => (format!("{method} {route}"), method),
        };
        let mut span = self.begin(name, SpanKind::Server, request.begun, &parent);
        if !span.is_recording() {
            return;
        }
        span.set_attribute(KeyValue::new("http.request.method", method.to_owned()));
        span.set_attribute(KeyValue::new("http.response.status_code", i64::from(request.status)));
        if !request.route.is_empty() {
            span.set_attribute(KeyValue::new("http.route", request.route.to_owned()));
        }
        if let Some(id) = request.request_id {
            span.set_attribute(KeyValue::new("pando.request_id", id.to_owned()));
        }
        if request.status >= 500 {
            span.set_attribute(KeyValue::new("error.type", request.status.to_string()));
            span.set_status(Status::error(""));
        }
        let end = request.begun + request.took;
        self.take_phases(&span, request, end);
        span.end_with_timestamp(end);
    }
}

/// Returns the context of a client's span.
fn context_of(parent: Parent) -> Context {
    let flags = if parent.is_sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
    let (trace, span) = (TraceId::from(parent.trace), SpanId::from(parent.span));
    let named = SpanContext::new(trace, span, flags, true, TraceState::NONE);
    Context::new().with_remote_span_context(named)
}
