//! Connections: kept alive and shared, with TLS for `https`. Each carries one exchange at a time.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{HeaderMap, Request, Response, StatusCode, body::Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};

use crate::error::Error;

/// Idle time after which the client closes a connection. Services close theirs after 75 s.
const IDLE_MAX: Duration = Duration::from_secs(60);
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Maximum size of an answer in bytes. The largest is a page of a thousand shares.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Connections to a service.
#[derive(Debug)]
pub(crate) struct Wire(legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

/// Raw answer.
#[derive(Debug)]
pub(crate) struct RawAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Attempt without an answer.
pub(crate) struct AttemptFailure {
    pub(crate) error: Error,
    /// Whether the service may have received the request.
    pub(crate) sent: bool,
}

impl Wire {
    /// Connections to a service. With TLS, its certificate must be signed by an authority that this system trusts. If
    /// the system lists none, Mozilla's authorities apply.
    pub(crate) fn new(is_secure: bool) -> Result<Self, Error> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(CONNECT_MAX));
        // Set explicitly, because a program with two providers has no default.
        let provider = || rustls::crypto::aws_lc_rs::default_provider();
        // Reading the system's authorities takes a while, and plain HTTP needs none.
        let native = is_secure.then(|| {
            HttpsConnectorBuilder::new()
                .with_provider_and_native_roots(provider())
                .ok()
        });
        let builder = match native.flatten() {
            Some(native) => native,
            None => {
                let mozilla = HttpsConnectorBuilder::new();
                mozilla
                    .with_provider_and_webpki_roots(provider())
                    .map_err(Error::usage)?
            }
        };
        let connector = builder.https_or_http().enable_http1().wrap_connector(http);
        let mut client = legacy::Client::builder(TokioExecutor::new());
        client
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX);
        Ok(Self(client.build(connector)))
    }

    /// Sends a request and reads the head of its answer.
    pub(crate) async fn open(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, AttemptFailure> {
        self.0
            .request(request)
            .await
            .map_err(|error| AttemptFailure {
                sent: !error.is_connect(),
                error: Error::Connection {
                    what: match error.is_connect() {
                        true => "cannot connect to the service",
                        false => "the connection was lost",
                    },
                    source: Some(error.into()),
                },
            })
    }

    /// Sends a request and reads its whole answer.
    pub(crate) async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<RawAnswer, AttemptFailure> {
        let (head, body) = self.open(request).await?.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|source| AttemptFailure {
            sent: true,
            error: Error::Connection {
                what: "the connection was lost within an answer",
                source: Some(source),
            },
        })?;
        Ok(RawAnswer {
            status: head.status,
            headers: head.headers,
            body: body.to_bytes(),
        })
    }
}
