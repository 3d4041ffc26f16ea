//! TLS on the node's own listener, with a certificate that is reloaded after a change.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self,
        crypto::CryptoProvider,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
        server::{ClientHello, ResolvesServerCert},
        sign::CertifiedKey,
    },
    server::TlsStream,
};

use crate::{config::ServerConfig, http::watched_file::WatchedFile};

/// Protocols by preference: HTTP/2, HTTP/1.1.
const PROTOCOLS: [&[u8]; 2] = [HTTP2, b"http/1.1"];
const HTTP2: &[u8] = b"h2";

/// Accepts connections over TLS.
pub(super) struct Tls {
    acceptor: TlsAcceptor,
    certificate: Arc<Certificate>,
}

impl Tls {
    /// Acceptor of the configured certificate; `None` if the node does not use TLS.
    ///
    /// # Errors
    /// If certificate and key cannot be used.
    pub(super) fn new(config: &ServerConfig) -> anyhow::Result<Option<Self>> {
        let Some((certificate, key)) = config.tls_files()? else {
            return Ok(None);
        };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let certificate = Arc::new(Certificate::new(certificate, key, Arc::clone(&provider))?);
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(certificate.clone());
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(Some(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            certificate,
        }))
    }

    /// Runs the handshake.
    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.acceptor.accept(stream).await
    }

    /// Reloads the files if one has changed. Returns whether they cannot be used. Blocks for a moment.
    pub(super) fn refresh(&self) -> bool {
        self.certificate.refresh()
    }

    /// End of the certificate in use, in seconds since 1970.
    pub(super) fn expires_at_s(&self) -> Option<i64> {
        expires_at_s(&self.certificate.current.load().cert)
    }
}

/// End of the first certificate of a chain that ends, in seconds since 1970. `None` if none says so.
fn expires_at_s(chain: &[CertificateDer<'_>]) -> Option<i64> {
    let ends = chain.iter().filter_map(|certificate| {
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
        Some(parsed.validity().not_after.timestamp())
    });
    ends.min()
}

/// Whether the connection negotiated HTTP/2.
pub(super) fn is_http2(stream: &TlsStream<TcpStream>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(HTTP2)
}

/// The certificate in use.
#[derive(Debug)]
struct Certificate {
    provider: Arc<CryptoProvider>,
    current: ArcSwap<CertifiedKey>,
    files: Mutex<[(&'static str, PathBuf, WatchedFile); 2]>,
}

impl Certificate {
    fn new(certificate: &Path, key: &Path, provider: Arc<CryptoProvider>) -> anyhow::Result<Self> {
        // File versions are read first, so a change during the read causes another read.
        let files = [
            ("server.tls_certificate_file", certificate),
            ("server.tls_key_file", key),
        ];
        let files = files.map(|(key, file)| (key, file.to_owned(), WatchedFile::from_file(file)));
        let read = read(certificate, key, &provider)?;
        Ok(Self {
            provider,
            current: ArcSwap::from_pointee(read),
            files: Mutex::new(files),
        })
    }

    fn refresh(&self) -> bool {
        let mut files = self.files.lock();
        let [(_, certificate, _), (_, key, _)] = &*files;
        let (certificate, key) = (certificate.clone(), key.clone());
        let mut fresh = None;
        for (name, file, watched) in files.iter_mut() {
            let again = || read(&certificate, &key, &self.provider);
            fresh = watched.if_changed(name, file, again).or(fresh);
        }
        if let Some(fresh) = fresh {
            self.current.store(Arc::new(fresh));
            // The file that changed last completed a valid pair.
            for (.., watched) in files.iter_mut() {
                watched.failing = false;
            }
        }
        files.iter().any(|(.., watched)| watched.failing)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

fn read(certificate: &Path, key: &Path, provider: &CryptoProvider) -> anyhow::Result<CertifiedKey> {
    let of_certificate = || format!("server.tls_certificate_file {}", certificate.display());
    let of_key = || format!("server.tls_key_file {}", key.display());
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(certificate)
        .with_context(of_certificate)?
        .collect();
    let chain = chain.with_context(of_certificate)?;
    if chain.is_empty() {
        anyhow::bail!("{} has no certificate in PEM", of_certificate());
    }
    let private = PrivateKeyDer::from_pem_file(key).with_context(of_key)?;
    CertifiedKey::from_der(chain, private, provider)
        .with_context(|| format!("{} and {}", of_certificate(), of_key()))
}
