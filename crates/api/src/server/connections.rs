//! Accept loop and connections.

use std::{
    convert::Infallible,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::Request,
    http::HeaderValue,
    response::{IntoResponse as _, Response},
};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use qiang_wire::problem::ProblemKind;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, watch},
};
use tokio_util::io::InspectReader;
use tower::Service as _;

use super::{
    PublicListener,
    connection_limits::{
        AdmittedConnection, ConnectionLimits, ConnectionPermit, RefusedConnection,
    },
    guard::{Guard, SWEEP_EVERY, Stage, StageMark},
    heads,
    open::{CountedStream, OpenStream, Streams},
    panics::caught,
    parser::ProblemRewriter,
    preface,
    tls::is_http2,
};
use crate::{
    config::ServerConfig,
    http::{
        auth_failure::AuthFailure,
        compression::{self, Coding},
        problem::ApiProblem,
        request_id::{REPLAYED, REQUEST_ID, RequestId},
        request_log::{Cause, FailedClaim, FailedRequest, FailureLog},
        response_headers::{HeaderContext, ResponseHeaders},
        traffic::Traffic,
    },
    observe::metrics::Metrics,
};

/// Pause if the system has no free sockets.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Time for connections to write the last answers of the closing engine.
const LAST_ANSWERS_MAX: Duration = Duration::from_millis(500);
/// Time that a connection has for its first request after the service stops.
const FIRST_REQUEST_MAX: Duration = Duration::from_millis(100);
/// Time limit of a refused connection.
const REFUSED_FOR: Duration = Duration::from_secs(1);
/// Answer to a connection that is closed before its request is read.
const UNHEARD: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
    content-length: 0\r\n\r\n";
/// Maximum size of a head in bytes; it bounds the memory of a connection.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// Concurrent requests on an HTTP/2 connection.
const STREAMS_MAX: u32 = 100;

/// Accepts connections until `stop`, then waits up to `server.drain_timeout_ms` for them to end. Returns the
/// connections that have not ended.
pub(super) async fn serve(
    config: ServerConfig,
    metrics: Arc<Metrics>,
    public: PublicListener,
    router: Router,
    listener: TcpListener,
    mut stop: watch::Receiver<bool>,
) -> UnreadBytes {
    let connection_limits = ConnectionLimits::new(&config, &metrics, public.limits.clone());
    let connection_limits = Arc::new(connection_limits);
    let guard = Arc::new(Guard::new(&config));
    let timeout = Duration::from_millis(config.drain_timeout_ms);
    let sweeper = tokio::spawn(sweep(Arc::clone(&guard)));
    let (drain, draining) = watch::channel(false);
    let service = Arc::new(ServedConnections {
        request_timeout: config.request_timeout() + ACCEPT_PAUSE,
        metrics,
        public,
        failures: FailureLog::default(),
        unauthenticated: FailureLog::default(),
        headers: ResponseHeaders::new(config.hsts_max_age_s),
        router,
        guard,
        stop: draining,
        opened: AtomicU64::new(0),
    });
    loop {
        let accepted = tokio::select! {
            biased;
            () = stopped(&mut stop) => break,
            accepted = accept(&listener) => accepted,
        };
        match accepted {
            Ok((stream, peer)) => match connection_limits.admit(peer) {
                AdmittedConnection::Served(permit) => {
                    Arc::clone(&service).spawn(stream, peer, permit)
                }
                AdmittedConnection::Refused(why, permit) => {
                    Arc::clone(&service).refuse(stream, peer, why, permit);
                }
            },
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    // Closed first, so that a client whose connection ends finds no listener.
    drop(listener);
    drain.send_replace(true);
    let leftover = UnreadBytes {
        connection_limits,
        guard: Arc::clone(&service.guard),
        sweeper,
    };
    if leftover.ended(timeout).await {
        tracing::info!("all requests in flight are answered");
    } else {
        tracing::warn!("some requests in flight were not answered before the stop");
    }
    leftover
}

/// Connections that did not end while draining.
pub(super) struct UnreadBytes {
    connection_limits: Arc<ConnectionLimits>,
    guard: Arc<Guard>,
    sweeper: tokio::task::JoinHandle<()>,
}

impl UnreadBytes {
    async fn ended(&self, wait_max: Duration) -> bool {
        let ended = tokio::time::timeout(wait_max, self.connection_limits.all_ended());
        ended.await.is_ok()
    }

    /// Waits shortly for connections to write their last answers, then closes the rest.
    pub(super) async fn finish(self) {
        if !self.ended(LAST_ANSWERS_MAX).await {
            self.guard.abort_all();
        }
        self.sweeper.abort();
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A dropped sender also means stop.
    drop(stop.wait_for(|stop| *stop).await);
}

async fn sweep(guard: Arc<Guard>) {
    let mut ticks = tokio::time::interval(SWEEP_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        guard.sweep();
    }
}

async fn accept(listener: &TcpListener) -> std::io::Result<(TcpStream, IpAddr)> {
    let (stream, peer) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, peer.ip()))
}

/// Origin of a request.
#[derive(Clone, Copy)]
struct RequestOrigin {
    peer: IpAddr,
    /// Reason if its connection is refused.
    refused: Option<RefusedConnection>,
    /// Whether it reached this node over TLS.
    over_tls: bool,
    /// Number of its connection, unique in the process.
    connection: u64,
}

struct ServedConnections {
    request_timeout: Duration,
    metrics: Arc<Metrics>,
    public: PublicListener,
    failures: FailureLog,
    unauthenticated: FailureLog,
    headers: ResponseHeaders,
    router: Router,
    guard: Arc<Guard>,
    stop: watch::Receiver<bool>,
    /// Number of connections so far.
    opened: AtomicU64,
}

impl ServedConnections {
    fn spawn(self: Arc<Self>, stream: TcpStream, peer: IpAddr, permit: ConnectionPermit) {
        let progress = self.guard.progress();
        let (connections, of_task) = (Arc::clone(&self), Arc::clone(&progress));
        let task = tokio::spawn(async move {
            let counted = CountedStream::new(&connections.metrics.connections);
            let origin = connections.origin(peer, None);
            connections.one(stream, origin, of_task).await;
            drop(counted);
            drop(permit);
        });
        self.guard.opened(progress, task.abort_handle());
    }

    /// Answers one request of a refused connection with the reason, within a short time. Requests of operators'
    /// machines are still served: a node at its limit of connections is alive.
    fn refuse(
        self: Arc<Self>,
        stream: TcpStream,
        peer: IpAddr,
        why: RefusedConnection,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        let Some(permit) = permit else {
            // Refusals above this limit must cost nothing.
            if self.public.tls.is_none() {
                drop(stream.try_write(UNHEARD));
            }
            return;
        };
        let progress = self.guard.progress();
        tokio::spawn(async move {
            let origin = self.origin(peer, Some(why));
            let served = self.one(stream, origin, progress);
            tokio::time::timeout(REFUSED_FOR, served).await.ok();
            drop(permit);
        });
    }

    fn origin(&self, peer: IpAddr, refused: Option<RefusedConnection>) -> RequestOrigin {
        RequestOrigin {
            peer,
            refused,
            over_tls: self.public.tls.is_some(),
            connection: self.opened.fetch_add(1, Ordering::Relaxed),
        }
    }

    async fn one(
        self: &Arc<Self>,
        stream: TcpStream,
        origin: RequestOrigin,
        progress: Arc<StageMark>,
    ) {
        let RequestOrigin {
            connection, peer, ..
        } = origin;
        tracing::debug!(connection, %peer, "connection accepted");
        self.serve_one(stream, origin, progress).await;
        tracing::debug!(connection, "connection closed");
    }

    async fn serve_one(
        self: &Arc<Self>,
        stream: TcpStream,
        origin: RequestOrigin,
        progress: Arc<StageMark>,
    ) {
        let Some(tls) = &self.public.tls else {
            let mut stop = self.stop.clone();
            let is_http2 = tokio::select! {
                biased;
                is_http2 = preface::is_http2(&stream, &progress) => is_http2,
                () = stopped(&mut stop) => false,
            };
            return match is_http2 {
                true => self.http2(stream, origin, progress).await,
                false => self.http1(stream, origin, progress).await,
            };
        };
        // The time limit of a head also applies to the handshake.
        progress.enter(Stage::Head, Instant::now());
        let mut handshake = std::pin::pin!(tls.accept(stream));
        let mut stop = self.stop.clone();
        let accepted = tokio::select! {
            biased;
            accepted = handshake.as_mut() => accepted,
            () = stopped(&mut stop) => {
                match tokio::time::timeout(FIRST_REQUEST_MAX, handshake).await {
                    Ok(accepted) => accepted,
                    Err(_) => return,
                }
            }
        };
        progress.enter(Stage::Idle, Instant::now());
        match accepted {
            Ok(stream) if is_http2(&stream) => self.http2(stream, origin, progress).await,
            Ok(stream) => self.http1(stream, origin, progress).await,
            Err(error) => tracing::debug!(%error, "TLS handshake failed"),
        }
    }

    async fn http2<S>(self: &Arc<Self>, stream: S, origin: RequestOrigin, progress: Arc<StageMark>)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let streams = Streams::new(progress);
        let connections = Arc::clone(self);
        let service = service_fn(move |request| {
            let (connections, open) = (Arc::clone(&connections), OpenStream::new(&streams));
            async move {
                let own = connections.guard.progress();
                let answered = connections.answer(request, origin, &own).await;
                drop(open);
                answered
            }
        });
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(HEAD_BYTES_MAX as u32);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let mut stop = self.stop.clone();
        let ended = tokio::select! {
            biased;
            ended = connection.as_mut() => ended,
            () = stopped(&mut stop) => {
                // Requests sent after this are refused in a way that clients repeat elsewhere.
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "connection failed");
        }
    }

    async fn http1<S>(&self, stream: S, origin: RequestOrigin, progress: Arc<StageMark>)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let service = service_fn(|request| self.answer(request, origin, &progress));
        let has_asked = AtomicBool::new(false);
        let io = TokioIo::new(InspectReader::new(
            ProblemRewriter::new(stream),
            |bytes: &[u8]| {
                if !bytes.is_empty() {
                    has_asked.store(true, Ordering::Relaxed);
                    progress.received();
                }
            },
        ));
        let mut builder = http1::Builder::new();
        // The guard closes slow and idle connections, which needs no timer per request.
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(None)
            .max_buf_size(HEAD_BYTES_MAX)
            .keep_alive(origin.refused.is_none())
            .half_close(false);
        let mut connection = std::pin::pin!(builder.serve_connection(io, service));
        let mut stop = self.stop.clone();
        let ended = tokio::select! {
            biased;
            ended = connection.as_mut() => ended,
            () = stopped(&mut stop) => {
                // The stop closes a connection without a request, whose client may be about to send one.
                let silent = !has_asked.load(Ordering::Relaxed);
                let wait = if silent { FIRST_REQUEST_MAX } else { Duration::ZERO };
                match tokio::time::timeout(wait, connection.as_mut()).await {
                    Ok(ended) => ended,
                    Err(_) => {
                        connection.as_mut().graceful_shutdown();
                        connection.await
                    }
                }
            }
        };
        if let Err(error) = ended {
            // Failed connections are normal; this message helps to debug one.
            tracing::debug!(%error, "connection failed");
        }
    }

    async fn answer(
        &self,
        request: hyper::Request<Incoming>,
        origin: RequestOrigin,
        progress: &StageMark,
    ) -> Result<Response, Infallible> {
        let started = Instant::now();
        progress.enter(Stage::Busy, started);
        let metrics = &self.metrics;
        let method = request.method().clone();
        let route = metrics.route(&method, request.uri().path());
        let mut id = RequestId::from_headers(request.headers());
        let tracer = self.public.tracer.as_ref();
        let span = tracer.and_then(|tracer| {
            let route = (route, origin.over_tls);
            tracer.begin(&mut id, &request, route, started)
        });
        let asked = HeaderContext::from_headers(request.headers(), origin.over_tls);
        let coding = Coding::from_request(request.method(), request.headers());
        let request = Request::from(request.map(axum::body::Body::new));
        let answered = self.route(request, origin, metrics.is_claim(route));
        let (answered, id) = id.scope(answered).await;
        let mut response = answered?;
        if compression::is_marked(&response) {
            // Boxed because it is rare, and the future of each claim includes its size.
            response = Box::pin(compression::compress(response, coding)).await;
        }
        let now = Instant::now();
        progress.enter(Stage::Idle, now);
        metrics.answered(route, response.status(), now - started);
        if let Some(span) = span {
            span.answered(response.status());
        }
        // Without this level it costs one comparison per request.
        tracing::debug!(
            request_id = id.as_str(),
            operation = %format_args!("{method} {}", metrics.template(route)),
            status = response.status().as_u16(),
            duration_us = (now - started).as_micros() as u64,
            connection = origin.connection,
            "request answered"
        );
        if response.status().is_server_error() {
            self.failures.log(&FailedRequest {
                id: &id,
                method,
                route: metrics.template(route),
                status: response.status(),
                cause: response.extensions().get::<Cause>(),
                claim: response.extensions().get::<FailedClaim>(),
            });
        }
        let replays = response.status().is_success() && id.replays();
        let headers = response.headers_mut();
        if replays {
            headers.insert(REPLAYED, HeaderValue::from_static("true"));
        }
        if let (Some(limits), Some(limit)) = (&self.public.limits, id.closest_limit()) {
            limits.show(limit, headers);
        }
        headers.insert(REQUEST_ID, id.into_header());
        self.headers.add(asked, headers);
        Ok(response)
    }

    /// A claim waits for the engine's decision; any other request has a time limit.
    async fn route(
        &self,
        mut request: Request,
        origin: RequestOrigin,
        is_claim: bool,
    ) -> Result<Response, Infallible> {
        let client = match self.check_origin(&request, origin) {
            Ok(client) => client,
            Err(problem) => return Ok(problem.into_response()),
        };
        if let (Some(limits), Some(client)) = (&self.public.limits, client) {
            let limited = limits.limited_origin(client, origin.peer, origin.connection);
            request.extensions_mut().insert(limited);
        }
        let mut router = self.router.clone();
        let is_read = request.method().is_safe();
        let answer = caught(async move { router.call(request).await });
        if is_claim {
            return Ok(self.note_unauthenticated(answer.await?, client));
        }
        match tokio::time::timeout(self.request_timeout, answer).await {
            Ok(answered) => Ok(self.note_unauthenticated(answered?, client)),
            Err(_) => {
                let kind = match is_read {
                    true => ProblemKind::Overloaded,
                    false => ProblemKind::Uncertain,
                };
                Ok(ApiProblem::new(kind, "the request took too long")
                    .caused_by("no answer within server.request_timeout_ms")
                    .into_response())
            }
        }
    }
}

impl ServedConnections {
    /// Checks the limits first, and then the parts of the head that parsers read differently. Returns the client's
    /// address, if it is limited.
    fn check_origin(
        &self,
        request: &Request,
        origin: RequestOrigin,
    ) -> Result<Option<IpAddr>, ApiProblem> {
        let path = request.uri().path();
        let traffic = Traffic::from_request(request.method(), path);
        if let (Some(why), Some(_)) = (origin.refused, traffic) {
            return Err(why.problem());
        }
        let client = match &self.public.limits {
            Some(limits) => {
                limits.check_address((traffic, path), origin.peer, request.headers())?
            }
            None => None,
        };
        heads::check(request, traffic.is_some())?;
        Ok(client)
    }

    /// Counts and logs an unauthenticated answer. Replaces it by a problem if the address fails too often.
    fn note_unauthenticated(&self, response: Response, client: Option<IpAddr>) -> Response {
        // A page is also answered if the session in its cookie is not valid.
        let of_page = || RequestId::auth_failure().filter(|why| *why != AuthFailure::Missing);
        let of_answer = response.extensions().get::<AuthFailure>().copied();
        let Some(why) = of_answer.or_else(of_page) else {
            return response;
        };
        self.metrics.unauthenticated(why);
        let cause = response.extensions().get::<Cause>();
        self.unauthenticated.log_unauthenticated(why, cause, client);
        let limits = self.public.limits.as_ref().zip(client);
        match limits.map(|(limits, client)| limits.check_unauthenticated(client)) {
            Some(Err(problem)) => problem.into_response(),
            _ => response,
        }
    }
}
