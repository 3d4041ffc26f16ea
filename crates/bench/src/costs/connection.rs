//! HTTP/1.1 connection, in the clear or over TLS, that sends prepared requests.
//!
//! It is the same code with and without TLS, so that costs differ by TLS alone.

use std::{net::SocketAddr, path::Path, sync::Arc};

use anyhow::{Context as _, ensure};
use hyper::header::HeaderValue;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::aws_lc_rs,
        pki_types::{CertificateDer, ServerName},
    },
};

/// Name in the certificate.
const NAME: &str = "localhost";
/// Largest answer, in bytes.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Address of a node, and how to connect to it.
#[derive(Clone)]
pub(super) struct Endpoint {
    addr: SocketAddr,
    tls: Option<TlsConnector>,
}

/// An answer: status and body.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

pub(super) struct Connection {
    stream: Box<dyn Duplex>,
    buffer: Vec<u8>,
}

/// Writes a new self-signed certificate and its key into a folder. Returns the keys of the configuration, and the
/// certificate.
pub(super) fn certify(
    folder: &Path,
) -> anyhow::Result<(Vec<(&'static str, String)>, CertificateDer<'static>)> {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem())?;
    std::fs::write(&key, made.signing_key.serialize_pem())?;
    let keys = vec![
        (
            "server.tls_certificate_file",
            certificate.display().to_string(),
        ),
        ("server.tls_key_file", key.display().to_string()),
    ];
    Ok((keys, made.cert.der().clone()))
}

impl Endpoint {
    pub(super) fn plain(addr: SocketAddr) -> Self {
        Self { addr, tls: None }
    }

    /// Endpoint with TLS that trusts a certificate. Sessions are not resumed, so each connection has a full handshake.
    pub(super) fn over_tls(
        addr: SocketAddr,
        trusted: &CertificateDer<'static>,
    ) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone())?;
        let mut config =
            ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()?
                .with_root_certificates(roots)
                .with_no_client_auth();
        config.resumption = tokio_rustls::rustls::client::Resumption::disabled();
        Ok(Self {
            addr,
            tls: Some(TlsConnector::from(Arc::new(config))),
        })
    }

    pub(super) async fn connect(&self) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(self.addr).await?;
        stream.set_nodelay(true)?;
        let stream: Box<dyn Duplex> = match &self.tls {
            None => Box::new(stream),
            Some(tls) => Box::new(tls.connect(ServerName::try_from(NAME)?, stream).await?),
        };
        Ok(Connection {
            stream,
            buffer: Vec::new(),
        })
    }
}

/// Bytes of a `POST`.
pub(super) fn post(path: &str, token: &HeaderValue, body: &str) -> anyhow::Result<Vec<u8>> {
    let token = token.to_str()?;
    let kind = match body {
        "" => "",
        _ => "Content-Type: application/json\r\n",
    };
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {NAME}\r\nAuthorization: {token}\r\n{kind}Content-Length: {length}\r\n\r\n{body}"
    );
    Ok(head.into_bytes())
}

impl Connection {
    /// Sends a request, and reads its answer.
    pub(super) async fn send(&mut self, request: &[u8]) -> anyhow::Result<Answer> {
        self.stream.write_all(request).await?;
        self.stream.flush().await?;
        loop {
            if let Some((answer, length)) = parse(&self.buffer)? {
                self.buffer.drain(..length);
                return Ok(answer);
            }
            ensure!(
                self.buffer.len() < ANSWER_BYTES_MAX,
                "an answer is too long"
            );
            let read = self.stream.read_buf(&mut self.buffer).await?;
            ensure!(read > 0, "the service closed the connection");
        }
    }
}

/// Whole answer at the start of some bytes, with its length in bytes; `None` if it is incomplete.
fn parse(bytes: &[u8]) -> anyhow::Result<Option<(Answer, usize)>> {
    const END: &[u8] = b"\r\n\r\n";
    let Some(head) = bytes.windows(END.len()).position(|window| window == END) else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&bytes[..head])?;
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let status = status.context("an answer without a status")?.parse()?;
    let length = lines.filter_map(|line| line.split_once(':'));
    let length = length
        .filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map(|(_, value)| value.trim().parse::<usize>())
        .next()
        .context("an answer without a length")??;
    let body = head + END.len();
    let end = body + length;
    Ok((bytes.len() >= end).then(|| {
        let body = bytes[body..end].to_vec();
        (Answer { status, body }, end)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_cut_from_the_stream() {
        let bytes = b"HTTP/1.1 201 Created\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 409";
        for end in 0..bytes.len() {
            let parsed = parse(&bytes[..end]).unwrap();
            assert_eq!(parsed.is_some(), end >= 46, "{end}");
        }
        let (answer, length) = parse(bytes).unwrap().unwrap();
        assert_eq!(
            (answer.status, answer.body, length),
            (201, b"abc".to_vec(), 46)
        );
        assert!(parse(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
