//! Verifier in use. SIGHUP replaces it. A changed file of keys or of revoked tokens, and a changed set of keys at a
//! URL, replace their part without a signal.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{
    Verifier, fetched_keys::FetchedKeys, jwks_url::JwksUrl, keys::VerificationKeys,
    revoked_tokens::RevokedTokens,
};
use crate::{config::AuthConfig, http::watched_file::WatchedFile};

/// Verifier that a reload can replace; requests read it without a lock.
pub(crate) struct CurrentVerifier {
    verifier: ArcSwap<Verifier>,
    source: Mutex<VerifierSource>,
    /// Notified when the set at the URL may have a key that is unknown here.
    refetch: Arc<Notify>,
}

/// Sources of the verifier.
struct VerifierSource {
    config: AuthConfig,
    jwks: WatchedFile,
    revoked: WatchedFile,
    /// Last set of keys from the URL.
    fetched: Option<FetchedKeys>,
}

impl CurrentVerifier {
    /// Verifier of this configuration.
    ///
    /// # Errors
    /// As [`Verifier::new`].
    pub(crate) fn new(config: &AuthConfig) -> anyhow::Result<Self> {
        let refetch = Arc::default();
        let (source, verifier) = read(config, &refetch, None)?;
        Ok(Self {
            verifier: ArcSwap::from_pointee(verifier),
            source: Mutex::new(source),
            refetch,
        })
    }

    /// The verifier in use.
    pub(crate) fn load(&self) -> Guard<Arc<Verifier>> {
        self.verifier.load()
    }

    /// Replaces the verifier by one of this configuration.
    ///
    /// # Errors
    /// As [`Verifier::new`]; the old verifier stays in use.
    pub(crate) fn reload(&self, config: &AuthConfig) -> anyhow::Result<()> {
        let mut source = self.source.lock();
        let same = source.config.jwks_url == config.jwks_url;
        let fetched = source.fetched.clone().filter(|_| same);
        let (fresh, verifier) = read(config, &self.refetch, fetched)?;
        *source = fresh;
        self.verifier.store(Arc::new(verifier));
        self.refetch.notify_one();
        Ok(())
    }

    /// Reloads the files that have changed. Returns whether one of the sources is failing. Call it about once a
    /// second, where blocking is allowed.
    pub(crate) fn refresh(&self) -> bool {
        let mut source = self.source.lock();
        let VerifierSource {
            config,
            jwks,
            revoked,
            fetched,
        } = &mut *source;
        let read_keys = || VerificationKeys::new(config);
        let fresh_keys = jwks.if_changed("auth.jwks_file", &config.jwks_file, read_keys);
        let file = &config.revoked_file;
        let read_revoked = || RevokedTokens::read(file);
        let fresh_revoked = revoked.if_changed("auth.revoked_file", file, read_revoked);
        if fresh_keys.is_some() || fresh_revoked.is_some() {
            let mut verifier = Verifier::clone(&self.verifier.load());
            verifier.keys = fresh_keys.map_or(verifier.keys, Arc::new);
            verifier.revoked = fresh_revoked.map_or(verifier.revoked, Arc::new);
            verifier.log();
            self.verifier.store(Arc::new(verifier));
        }
        let overdue = fetched.as_ref().is_some_and(|it| it.is_overdue(config));
        jwks.failing || revoked.failing || overdue
    }

    /// Fetches the set of keys repeatedly, if one is configured at a URL. Never returns.
    pub(crate) async fn follow(self: Arc<Self>) {
        let mut place = None;
        loop {
            let next = {
                let source = self.source.lock();
                let next = |it: &FetchedKeys| it.next(&source.config);
                source.fetched.as_ref().map(next)
            };
            let Some((soonest, due)) = next else {
                self.refetch.notified().await;
                continue;
            };
            tokio::select! {
                () = tokio::time::sleep_until(due) => {}
                () = self.refetch.notified() => tokio::time::sleep_until(soonest).await,
            }
            let url = self.source.lock().config.jwks_url.clone();
            if url.is_empty() {
                continue;
            }
            if place.as_ref().is_none_or(|(of, _)| *of != url) {
                // The first one was created at the start, so the URL is valid.
                let Ok(made) = JwksUrl::new(&url) else {
                    continue;
                };
                place = Some((url.clone(), made));
            }
            if let Some((_, place)) = &place {
                let fetched = place.fetch().await;
                let this = Arc::clone(&self);
                // This may write a file. The panic hook reports a panic.
                let take = move || this.take(&url, fetched);
                drop(tokio::task::spawn_blocking(take).await);
            }
        }
    }

    /// Starts to use a fetched set, if it is valid.
    fn take(&self, url: &str, answer: anyhow::Result<Bytes>) {
        let mut source = self.source.lock();
        let VerifierSource {
            config, fetched, ..
        } = &mut *source;
        // The configured URL may have changed during the fetch.
        let Some(fetched) = fetched.as_mut().filter(|_| config.jwks_url == url) else {
            return;
        };
        let read = answer.and_then(|set| match set == fetched.set {
            true => Ok(None),
            false => Ok(Some((
                VerificationKeys::from_fetched(&set, config, &self.refetch)?,
                set,
            ))),
        });
        match read {
            Ok(None) => fetched.succeeded(config, None),
            Ok(Some((keys, set))) => {
                fetched.succeeded(config, Some(set));
                let mut verifier = Verifier::clone(&self.verifier.load());
                verifier.keys = Arc::new(keys);
                verifier.log();
                self.verifier.store(Arc::new(verifier));
            }
            Err(error) => fetched.failed(config, &error),
        }
    }
}

/// Reads the configured sources. File versions are read first, so a change during the read causes another read. A set
/// at a URL is fetched, unless `fetched` is given.
fn read(
    config: &AuthConfig,
    refetch: &Arc<Notify>,
    fetched: Option<FetchedKeys>,
) -> anyhow::Result<(VerifierSource, Verifier)> {
    let (jwks, revoked) = (
        WatchedFile::from_file(&config.jwks_file),
        WatchedFile::from_file(&config.revoked_file),
    );
    let mut keys = VerificationKeys::new(config)?;
    let of_fetched = |set: &[u8]| VerificationKeys::from_fetched(set, config, refetch);
    let fetched = match (config.jwks_url.is_empty(), fetched) {
        (true, _) => None,
        (false, Some(fetched)) => Some(fetched),
        (false, None) => Some(FetchedKeys::first(config, |set| of_fetched(set).map(drop))?),
    };
    if let Some(fetched) = &fetched {
        keys = of_fetched(&fetched.set)?;
    }
    let source = VerifierSource {
        config: config.clone(),
        jwks,
        revoked,
        fetched,
    };
    let verifier = Verifier::new(config, keys)?;
    verifier.log();
    Ok((source, verifier))
}
