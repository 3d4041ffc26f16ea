//! Connections to endpoints: opened only to allowed addresses, kept for a while, used by one request at a time.

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    path::Path,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, StatusCode,
    body::Incoming,
    client::conn::http1::{self, SendRequest},
    header::{CONTENT_TYPE, HOST, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::aws_lc_rs,
        pki_types::{CertificateDer, ServerName, pem::PemObject as _},
    },
};

use crate::webhook_delivery::{
    address::is_public,
    message::SignedRequest,
    target::{EndpointTarget, not_public},
};

/// Maximum bytes read of an answer. The connection of a longer answer is not kept.
const ANSWER_BYTES_MAX: usize = 16_384;
/// Maximum bytes of an answer that are returned.
const ANSWER_HEAD_BYTES_MAX: usize = 1_024;
/// Maximum idle time of a kept connection. A host name may later resolve to another address.
const IDLE_MAX: Duration = Duration::from_secs(20);
/// Maximum kept connections per endpoint.
const KEPT_MAX: usize = 16;

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Found = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;
/// Resolves a host name and a port to addresses.
type Resolve = Box<dyn Fn(String, u16) -> Found + Send + Sync>;

/// Answer of an endpoint.
pub(crate) struct PostAnswer {
    pub(crate) status: StatusCode,
    /// First bytes of its body.
    pub(crate) head: Vec<u8>,
}

struct IdleConnection {
    sender: SendRequest<Full<Bytes>>,
    since: Instant,
}

/// Key of a target: whether it uses TLS, whether its addresses may be private, and the authority.
type TargetKey = (bool, bool, String);

/// Connections, keyed by their target.
pub(crate) struct ConnectionPool {
    resolve: Resolve,
    tls: TlsConnector,
    kept: Mutex<HashMap<TargetKey, Vec<IdleConnection>>>,
}

impl ConnectionPool {
    pub(crate) fn new(ca_file: Option<&Path>) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        if let Some(file) = ca_file {
            let read = || format!("read {}", file.display());
            for one in CertificateDer::pem_file_iter(file).with_context(read)? {
                roots.add(one.with_context(read)?).with_context(read)?;
            }
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            resolve: Box::new(resolve),
            tls: TlsConnector::from(Arc::new(config)),
            kept: Mutex::default(),
        })
    }

    /// Posts a message and returns the answer. If a kept connection fails, the message is posted again on
    /// another one, because the endpoint usually closed the first. Receivers recognize duplicates by the message's id.
    pub(crate) async fn post(
        &self,
        target: &EndpointTarget,
        message: &SignedRequest,
    ) -> Result<PostAnswer, Failure> {
        if let Some(sender) = self.take(target)
            && let Ok(answer) = self.exchange(sender, target, message).await
        {
            return Ok(answer);
        }
        let sender = self.connect(target).await?;
        self.exchange(sender, target, message).await
    }

    fn take(&self, target: &EndpointTarget) -> Option<SendRequest<Full<Bytes>>> {
        let mut kept = self.kept.lock();
        let of_target = kept.get_mut(&target_key(target))?;
        while let Some(IdleConnection { sender, since }) = of_target.pop() {
            if since.elapsed() < IDLE_MAX && !sender.is_closed() {
                return Some(sender);
            }
        }
        None
    }

    fn keep(&self, target: &EndpointTarget, sender: SendRequest<Full<Bytes>>) {
        let mut kept = self.kept.lock();
        kept.retain(|_, of_one| {
            of_one.retain(|one| one.since.elapsed() < IDLE_MAX && !one.sender.is_closed());
            !of_one.is_empty()
        });
        let key = target_key(target);
        let of_target = kept.entry(key).or_default();
        if of_target.len() < KEPT_MAX {
            let since = Instant::now();
            of_target.push(IdleConnection { sender, since });
        }
    }

    async fn connect(&self, target: &EndpointTarget) -> Result<SendRequest<Full<Bytes>>, Failure> {
        let stream = self.dial(target).await?;
        stream.set_nodelay(true)?;
        if !target.tls {
            return handshake(stream).await;
        }
        let name = ServerName::try_from(target.host.clone())?;
        handshake(self.tls.connect(name, stream).await?).await
    }

    /// Connects to the first allowed address that answers. It resolves the name once, so the checked address is the one
    /// that is connected.
    async fn dial(&self, target: &EndpointTarget) -> Result<TcpStream, Failure> {
        let found = (self.resolve)(target.host.clone(), target.port).await?;
        let may_be = |address: &SocketAddr| target.allow_private || is_public(address.ip());
        let mut failure: Failure = not_public(&target.host).into();
        for address in found.into_iter().filter(may_be) {
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = error.into(),
            }
        }
        Err(failure)
    }

    async fn exchange(
        &self,
        mut sender: SendRequest<Full<Bytes>>,
        target: &EndpointTarget,
        message: &SignedRequest,
    ) -> Result<PostAnswer, Failure> {
        let request = Request::post(&target.path)
            .header(HOST, &target.authority)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("qiang/", env!("CARGO_PKG_VERSION")))
            .header("webhook-id", &message.id)
            .header("webhook-timestamp", message.timestamp)
            .header("webhook-signature", &message.signatures)
            .body(Full::new(message.body.clone()))?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        // Only the status matters. The rest is read for the log, and so that the connection can be reused.
        let (head, is_whole) = read_answer(response.into_body()).await;
        if is_whole && sender.ready().await.is_ok() {
            self.keep(target, sender);
        }
        Ok(PostAnswer { status, head })
    }
}

/// Reads an answer up to a limit. Returns its first bytes, and whether it was read to its end.
async fn read_answer(mut body: Incoming) -> (Vec<u8>, bool) {
    let (mut head, mut bytes) = (Vec::new(), 0);
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            return (head, false);
        };
        let Some(data) = frame.data_ref() else {
            continue;
        };
        let room = ANSWER_HEAD_BYTES_MAX - head.len();
        head.extend(data.iter().take(room));
        bytes += data.len();
        if bytes > ANSWER_BYTES_MAX {
            return (head, false);
        }
    }
    (head, true)
}

fn target_key(target: &EndpointTarget) -> TargetKey {
    (target.tls, target.allow_private, target.authority.clone())
}

/// Resolves by the system.
fn resolve(host: String, port: u16) -> Found {
    Box::pin(async move { Ok(lookup_host((host, port)).await?.collect()) })
}

async fn handshake(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<SendRequest<Full<Bytes>>, Failure> {
    let (sender, wire) = http1::handshake(TokioIo::new(stream)).await?;
    // The task ends with the connection. The sender on the connection sees its errors.
    tokio::spawn(async move { drop(wire.await) });
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::{net::TcpListener, time::timeout};

    use super::*;

    /// The name resolves to a public address first and to a private one afterwards.
    #[tokio::test]
    async fn what_is_looked_at_is_what_is_connected() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let private = listener.local_addr().unwrap();
        // An address of an unallocated block.
        let public = SocketAddr::new("2000::1".parse().unwrap(), private.port());
        let asked = Arc::<AtomicUsize>::default();
        let mut connections = ConnectionPool::new(None).unwrap();
        let times = Arc::clone(&asked);
        connections.resolve = Box::new(move |_, _| {
            let meant = match times.fetch_add(1, Ordering::Relaxed) {
                0 => vec![private, public],
                _ => vec![private],
            };
            Box::pin(std::future::ready(Ok(meant)))
        });
        let url = format!("https://rebound.example:{}/", private.port());
        let target = EndpointTarget::parse(&url, false).unwrap();
        let limit = Duration::from_millis(300);
        let first = timeout(limit, connections.dial(&target)).await;
        assert!(!matches!(first, Ok(Ok(_))), "{first:?}");
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        let second = timeout(limit, connections.dial(&target)).await.unwrap();
        let why = second.unwrap_err().to_string();
        assert_eq!(why, not_public("rebound.example"));
        let accepted = timeout(Duration::from_millis(100), listener.accept()).await;
        assert!(accepted.is_err(), "a private address was connected");
    }
}
