//! The verifier in force. SIGHUP replaces all of it. A file of keys or of revoked tokens that changes replaces what was
//! read from it, without a signal.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;

use super::{Verifier, keys::Keys, revoked::Revoked};
use crate::{config::AuthConfig, watched_file::WatchedFile};

/// Another verifier after a reload; requests read it without a lock.
pub(crate) struct CurrentVerifier {
    verifier: ArcSwap<Verifier>,
    source: Mutex<Source>,
}

/// Where it came from.
struct Source {
    config: AuthConfig,
    jwks: WatchedFile,
    revoked: WatchedFile,
}

impl CurrentVerifier {
    /// The one that is configured.
    ///
    /// # Errors
    /// As [`Verifier::new`].
    pub(crate) fn new(config: &AuthConfig) -> anyhow::Result<Self> {
        let (source, verifier) = read(config)?;
        Ok(Self {
            verifier: ArcSwap::from_pointee(verifier),
            source: Mutex::new(source),
        })
    }

    /// The one that counts now.
    pub(crate) fn load(&self) -> Guard<Arc<Verifier>> {
        self.verifier.load()
    }

    /// Puts the one that is configured in its place.
    ///
    /// # Errors
    /// As [`Verifier::new`]; the one before stays.
    pub(crate) fn reload(&self, config: &AuthConfig) -> anyhow::Result<()> {
        let mut source = self.source.lock();
        let (fresh, verifier) = read(config)?;
        *source = fresh;
        self.verifier.store(Arc::new(verifier));
        Ok(())
    }

    /// Reads the files again that have changed. Returns whether one cannot be used as it is. To be called about once a
    /// second, where blocking is allowed.
    pub(crate) fn refresh(&self) -> bool {
        let mut source = self.source.lock();
        let Source {
            config,
            jwks,
            revoked,
        } = &mut *source;
        let read_keys = || Keys::new(config);
        let fresh_keys = jwks.if_changed("auth.jwks_file", &config.jwks_file, read_keys);
        let file = &config.revoked_file;
        let read_revoked = || Revoked::read(file);
        let fresh_revoked = revoked.if_changed("auth.revoked_file", file, read_revoked);
        if fresh_keys.is_some() || fresh_revoked.is_some() {
            let mut verifier = Verifier::clone(&self.verifier.load());
            verifier.keys = fresh_keys.map_or(verifier.keys, Arc::new);
            verifier.revoked = fresh_revoked.map_or(verifier.revoked, Arc::new);
            verifier.log();
            self.verifier.store(Arc::new(verifier));
        }
        jwks.failing || revoked.failing
    }
}

/// What is configured. The versions are taken first: what changes while it is read is read again.
fn read(config: &AuthConfig) -> anyhow::Result<(Source, Verifier)> {
    let source = Source {
        config: config.clone(),
        jwks: WatchedFile::of(&config.jwks_file),
        revoked: WatchedFile::of(&config.revoked_file),
    };
    let verifier = Verifier::new(config)?;
    verifier.log();
    Ok((source, verifier))
}
