//! Accounts in use. They are read again when the accounts file, or a file that it names, has changed.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::{
    PaymentProvider,
    accounts::{self, AccountName, FILE_KEY, PaymentAccount, PaymentAccounts, WatchedFiles},
};
use crate::config::PaymentsConfig;

/// Accounts that a change of their files replaces; requests read them without a lock.
pub(crate) struct CurrentAccounts {
    accounts: ArcSwap<PaymentAccounts>,
    source: Mutex<AccountsSource>,
}

/// Files of the accounts.
struct AccountsSource {
    /// The accounts file; `None` if none is configured.
    file: Option<PathBuf>,
    watched: WatchedFiles,
    failing: bool,
}

/// Checks the accounts file and the files that it names.
///
/// # Errors
/// The first fault, which names the account and the key.
pub fn check_accounts(config: &PaymentsConfig) -> anyhow::Result<()> {
    match file_of(config) {
        Some(file) => accounts::read(&file, &mut Vec::new()).map(drop),
        None => Ok(()),
    }
}

fn file_of(config: &PaymentsConfig) -> Option<PathBuf> {
    let file = &config.accounts_file;
    (!file.as_os_str().is_empty()).then(|| file.clone())
}

impl CurrentAccounts {
    /// Accounts of the configuration.
    ///
    /// # Errors
    /// As [`check_accounts`].
    pub(crate) fn new(config: &PaymentsConfig) -> anyhow::Result<Self> {
        let file = file_of(config);
        let (watched, accounts) = match &file {
            Some(file) => read(file),
            None => (Vec::new(), Ok(PaymentAccounts::default())),
        };
        Ok(Self {
            accounts: ArcSwap::from_pointee(accounts?),
            source: Mutex::new(AccountsSource {
                file,
                watched,
                failing: false,
            }),
        })
    }

    pub(crate) fn find(
        &self,
        provider: PaymentProvider,
        name: &AccountName,
    ) -> Option<Arc<PaymentAccount>> {
        self.accounts.load().find(provider, name)
    }

    /// Reads the accounts again if a file has changed. Returns whether they cannot be used. Call it about once a
    /// second, where blocking is allowed.
    pub(crate) fn refresh(&self) -> bool {
        let mut source = self.source.lock();
        let AccountsSource {
            file,
            watched,
            failing,
        } = &mut *source;
        let Some(file) = file else {
            return false;
        };
        // Each one is compared, so that several changes cause one read.
        let changed = watched
            .iter_mut()
            .filter_map(|(file, watched)| watched.has_changed(file).then_some(()))
            .count();
        if changed == 0 {
            return *failing;
        }
        let (files, read) = read(file);
        *watched = files;
        *failing = read.is_err();
        match read {
            Ok(accounts) => {
                let count = accounts.count();
                tracing::warn!(key = FILE_KEY, count, "a file has changed and was reloaded");
                self.accounts.store(Arc::new(accounts));
            }
            Err(error) => tracing::error!(
                key = FILE_KEY,
                reason = format!("{error:#}"),
                "a file has changed and cannot be used: what was read before still counts"
            ),
        }
        *failing
    }
}

/// The accounts, and the versions of all files that they depend on.
fn read(file: &Path) -> (WatchedFiles, anyhow::Result<PaymentAccounts>) {
    let mut watched = WatchedFiles::new();
    let read = accounts::read(file, &mut watched);
    (watched, read)
}
