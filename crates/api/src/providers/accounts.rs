//! Accounts at payment services: a file in TOML that names them, their sellers and the files of their keys.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use anyhow::Context as _;
use aws_lc_rs::{
    aead::{AES_256_GCM, LessSafeKey, UnboundKey},
    hmac,
};
use qiang_core::id::UserId;
use serde::Deserialize;

use super::{
    PaymentProvider, ProviderAdapter,
    alipay::AlipayAdapter,
    rsa_verifier::{RsaVerifier, serial_of},
    stripe::StripeAdapter,
    wechat_pay::WechatAdapter,
};
use crate::{config::UsageError, http::watched_file::WatchedFile};

/// Configuration key of the file, for messages.
pub(super) const FILE_KEY: &str = "payments.accounts_file";
/// Maximum number of accounts: each second the version of each of their files is read.
const ACCOUNTS_MAX: usize = 1_000;
/// Maximum number of keys of the platform per account.
const PLATFORM_KEYS_MAX: usize = 16;
const NAME_CHARS_MAX: usize = 40;
/// Prefix of the secret of an endpoint at Stripe.
const STRIPE_PREFIX: &str = "whsec_";
/// Shorter secrets can be guessed.
const STRIPE_CHARS_MIN: usize = 24;
const APIV3_KEY_BYTES: usize = 32;

/// Name of an account in the paths of its notifications.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct AccountName(String);

impl FromStr for AccountName {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let is_plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let fits = (1..=NAME_CHARS_MAX).contains(&text.len()) && text.bytes().all(is_plain);
        fits.then(|| Self(text.to_owned())).ok_or_else(|| {
            format!(
                "the name of an account is 1 to {NAME_CHARS_MAX} small letters, digits and dashes"
            )
        })
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An account at a payment service.
pub(crate) struct PaymentAccount {
    pub(crate) provider: PaymentProvider,
    pub(crate) name: AccountName,
    /// Actor of its reports in the operation log: `signed:` with service and account.
    pub(crate) actor: UserId,
    /// Sellers whose orders its payments may pay; `None` for all.
    pub(crate) sellers: Option<Arc<[UserId]>>,
    pub(crate) adapter: Box<dyn ProviderAdapter>,
}

/// All configured accounts.
#[derive(Default)]
pub(super) struct PaymentAccounts(HashMap<(PaymentProvider, AccountName), Arc<PaymentAccount>>);

impl PaymentAccounts {
    pub(super) fn find(
        &self,
        provider: PaymentProvider,
        name: &AccountName,
    ) -> Option<Arc<PaymentAccount>> {
        self.0.get(&(provider, name.clone())).map(Arc::clone)
    }

    /// Number of accounts.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AccountsFile {
    #[serde(default)]
    stripe: Vec<StripeEntry>,
    #[serde(default)]
    wechat: Vec<WechatEntry>,
    #[serde(default)]
    alipay: Vec<AlipayEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StripeEntry {
    account: String,
    #[serde(default)]
    sellers: Vec<String>,
    #[serde(default)]
    all_sellers: bool,
    secret_file: PathBuf,
    rotation_secret_file: Option<PathBuf>,
    stripe_account: Option<String>,
    #[serde(default)]
    test_mode: bool,
    #[serde(default)]
    ignore_other_payments: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WechatEntry {
    account: String,
    #[serde(default)]
    sellers: Vec<String>,
    #[serde(default)]
    all_sellers: bool,
    mchid: String,
    sub_mchid: Option<String>,
    apiv3_key_file: PathBuf,
    rotation_apiv3_key_file: Option<PathBuf>,
    #[serde(default)]
    certificate_files: Vec<PathBuf>,
    #[serde(default)]
    public_keys: Vec<PlatformKeyEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlatformKeyEntry {
    id: String,
    file: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AlipayEntry {
    account: String,
    #[serde(default)]
    sellers: Vec<String>,
    #[serde(default)]
    all_sellers: bool,
    app_id: String,
    seller_id: Option<String>,
    public_key_file: PathBuf,
    rotation_public_key_file: Option<PathBuf>,
}

/// Reads the accounts, and the files that they name. Adds the version of each file to `watched` before it is read, so
/// that a later change is noticed.
///
/// # Errors
/// The first fault, which names the account and the key.
pub(super) fn read(file: &Path, watched: &mut WatchedFiles) -> anyhow::Result<PaymentAccounts> {
    watched.push((file.to_owned(), WatchedFile::from_file(file)));
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("{FILE_KEY}: read {}", file.display()))?;
    let entries: AccountsFile = toml::from_str(&text)
        .map_err(|error| UsageError::new(format!("{FILE_KEY} {}: {error}", file.display())))?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let mut reader = AccountsReader {
        folder,
        watched,
        accounts: PaymentAccounts::default(),
    };
    for entry in entries.stripe {
        let adapter = Box::new(reader.stripe(&entry)?);
        let head = (entry.account, entry.sellers, entry.all_sellers);
        reader.insert(PaymentProvider::Stripe, head, adapter)?;
    }
    for entry in entries.wechat {
        let adapter = Box::new(reader.wechat(&entry)?);
        let head = (entry.account, entry.sellers, entry.all_sellers);
        reader.insert(PaymentProvider::WechatPay, head, adapter)?;
    }
    for entry in entries.alipay {
        let adapter = Box::new(reader.alipay(&entry)?);
        let head = (entry.account, entry.sellers, entry.all_sellers);
        reader.insert(PaymentProvider::Alipay, head, adapter)?;
    }
    Ok(reader.accounts)
}

/// Files with their versions.
pub(super) type WatchedFiles = Vec<(PathBuf, WatchedFile)>;

/// A key's file, and that of the key that replaces it, each with its name in the accounts file.
fn with_rotation<'a>(
    first: (&'static str, &'a Path),
    rotation: (&'static str, Option<&'a PathBuf>),
) -> impl Iterator<Item = (&'static str, &'a Path)> {
    let rotation = rotation.1.map(|file| (rotation.0, file.as_path()));
    [Some(first), rotation].into_iter().flatten()
}

struct AccountsReader<'a> {
    /// Folder of the accounts file: relative paths begin there.
    folder: &'a Path,
    watched: &'a mut WatchedFiles,
    accounts: PaymentAccounts,
}

impl AccountsReader<'_> {
    fn stripe(&mut self, entry: &StripeEntry) -> anyhow::Result<StripeAdapter> {
        let at = AccountPlace(PaymentProvider::Stripe, &entry.account);
        let files = with_rotation(
            ("secret_file", &entry.secret_file),
            ("rotation_secret_file", entry.rotation_secret_file.as_ref()),
        );
        let mut keys = Vec::new();
        for (key, file) in files {
            let secret = self.read(&at, key, file)?;
            let secret = secret.trim();
            if !secret.starts_with(STRIPE_PREFIX) || secret.len() < STRIPE_CHARS_MIN {
                let what = format!(
                    "is no signing secret of a webhook endpoint: it begins with {STRIPE_PREFIX}"
                );
                return Err(at.fault(key, &what).into());
            }
            keys.push(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()));
        }
        Ok(StripeAdapter {
            keys,
            connected: entry.stripe_account.clone(),
            test_mode: entry.test_mode,
            ignores_others: entry.ignore_other_payments,
        })
    }

    fn wechat(&mut self, entry: &WechatEntry) -> anyhow::Result<WechatAdapter> {
        let at = AccountPlace(PaymentProvider::WechatPay, &entry.account);
        let rotation = entry.rotation_apiv3_key_file.as_ref();
        let files = with_rotation(
            ("apiv3_key_file", &entry.apiv3_key_file),
            ("rotation_apiv3_key_file", rotation),
        );
        let mut ciphers = Vec::new();
        for (key, file) in files {
            let text = self.read(&at, key, file)?;
            let bytes = Some(text.trim().as_bytes()).filter(|it| it.len() == APIV3_KEY_BYTES);
            let cipher = bytes.and_then(|bytes| UnboundKey::new(&AES_256_GCM, bytes).ok());
            let what = format!("is no APIv3 key: it has {APIV3_KEY_BYTES} characters");
            let cipher = cipher.ok_or_else(|| at.fault(key, &what))?;
            ciphers.push(LessSafeKey::new(cipher));
        }
        Ok(WechatAdapter {
            mchid: entry.mchid.clone(),
            sub_mchid: entry.sub_mchid.clone(),
            takes_all: entry.all_sellers,
            verifiers: self.platform_keys(&at, entry)?,
            ciphers,
        })
    }

    /// Keys of the platform by serial number or id.
    fn platform_keys(
        &mut self,
        at: &AccountPlace<'_>,
        entry: &WechatEntry,
    ) -> anyhow::Result<BTreeMap<String, RsaVerifier>> {
        let count = entry.certificate_files.len() + entry.public_keys.len();
        if count == 0 {
            let what = "are missing: set certificate_files, public_keys or both";
            return Err(at.fault("the keys of the platform", what).into());
        }
        if count > PLATFORM_KEYS_MAX {
            let what = format!("are more than {PLATFORM_KEYS_MAX}: remove keys that have ended");
            return Err(at.fault("the keys of the platform", &what).into());
        }
        let mut verifiers = BTreeMap::new();
        for file in &entry.certificate_files {
            let text = self.read(at, "certificate_files", file)?;
            let named = || at.file("certificate_files", file);
            let (serial, verifier) = RsaVerifier::from_certificate(&text).with_context(named)?;
            verifiers.insert(serial, verifier);
        }
        for PlatformKeyEntry { id, file } in &entry.public_keys {
            let text = self.read(at, "public_keys", file)?;
            let named = || at.file("public_keys", file);
            let verifier = RsaVerifier::from_text(&text).with_context(named)?;
            verifiers.insert(serial_of(id.trim()), verifier);
        }
        Ok(verifiers)
    }

    fn alipay(&mut self, entry: &AlipayEntry) -> anyhow::Result<AlipayAdapter> {
        let at = AccountPlace(PaymentProvider::Alipay, &entry.account);
        if entry.seller_id.is_none() && !entry.all_sellers {
            let what = "is missing: only an account with all_sellers may leave it out";
            return Err(at.fault("seller_id", what).into());
        }
        let rotation = entry.rotation_public_key_file.as_ref();
        let files = with_rotation(
            ("public_key_file", &entry.public_key_file),
            ("rotation_public_key_file", rotation),
        );
        let mut verifiers = Vec::new();
        for (key, file) in files {
            let text = self.read(&at, key, file)?;
            let verifier = RsaVerifier::from_text(&text);
            verifiers.push(verifier.with_context(|| at.file(key, file))?);
        }
        Ok(AlipayAdapter {
            app_id: entry.app_id.clone(),
            seller_id: entry.seller_id.clone(),
            verifiers,
        })
    }

    fn read(&mut self, at: &AccountPlace<'_>, key: &str, file: &Path) -> anyhow::Result<String> {
        let file = self.folder.join(file);
        let version = WatchedFile::from_file(&file);
        self.watched.push((file.clone(), version));
        let read = std::fs::read_to_string(&file);
        read.with_context(|| format!("{}: read", at.file(key, &file)))
    }

    fn insert(
        &mut self,
        provider: PaymentProvider,
        (account, sellers, all_sellers): (String, Vec<String>, bool),
        adapter: Box<dyn ProviderAdapter>,
    ) -> anyhow::Result<()> {
        let at = AccountPlace(provider, &account);
        let name: AccountName = account
            .parse()
            .map_err(|error: String| at.fault("account", &format!("is not valid: {error}")))?;
        let sellers = match (all_sellers, sellers.is_empty()) {
            (true, true) => None,
            (false, false) => {
                let sellers: Result<Vec<UserId>, _> =
                    sellers.iter().map(|seller| seller.parse()).collect();
                let sellers = sellers
                    .map_err(|error| at.fault("sellers", &format!("has a wrong user: {error}")))?;
                Some(sellers.into())
            }
            _ => {
                let what = "must be set, or all_sellers = true, and not both";
                return Err(at.fault("sellers", what).into());
            }
        };
        if self.accounts.count() == ACCOUNTS_MAX {
            let text = format!("{FILE_KEY} has more than {ACCOUNTS_MAX} accounts");
            return Err(UsageError::new(text).into());
        }
        let account = Arc::new(PaymentAccount {
            provider,
            actor: UserId::new(&format!("signed:{}:{name}", provider.name()))?,
            name: name.clone(),
            sellers,
            adapter,
        });
        let twice = at.fault(
            "account",
            "is the name of another account of the service too",
        );
        match self.accounts.0.insert((provider, name), account) {
            None => Ok(()),
            Some(_) => Err(twice.into()),
        }
    }
}

/// Place of an account in the file, for messages.
struct AccountPlace<'a>(PaymentProvider, &'a str);

impl AccountPlace<'_> {
    fn file(&self, key: &str, file: &Path) -> String {
        let Self(provider, account) = self;
        let (provider, file) = (provider.name(), file.display());
        format!("{FILE_KEY}, [[{provider}]] {account:?}: {key} {file}")
    }

    fn fault(&self, key: &str, what: &str) -> UsageError {
        let Self(provider, account) = self;
        let provider = provider.name();
        UsageError::new(format!(
            "{FILE_KEY}, [[{provider}]] {account:?}: {key} {what}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn check(text: &str, expected: Result<usize, &str>) {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        put("stripe", "whsec_0123456789abcdef0123456789abcdef\n");
        put("short", "whsec_0\n");
        put("apiv3", "a7cde1ZJB1kG2e7VfTs3jQzaWizur8Gb\n");
        put("accounts.toml", text);
        let file = folder.path().join("accounts.toml");
        let found = read(&file, &mut Vec::new());
        let found = found.map(|accounts| accounts.count());
        let found = found.map_err(|error| format!("{error:#}"));
        match (&found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(*found, expected, "{text}"),
            (Err(found), Err(expected)) => {
                assert!(found.contains(expected), "{text}\n{found}");
                assert!(!found.contains("0123456789abcdef"), "{found}");
            }
            _ => panic!("{text}\n{found:?}"),
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let stripe = "[[stripe]]\naccount = 'main'\n";
        check("", Ok(0));
        check(
            &format!("{stripe}sellers = ['ann']\nsecret_file = 'stripe'\n"),
            Ok(1),
        );
        check(
            &format!("{stripe}all_sellers = true\nsecret_file = 'stripe'\n"),
            Ok(1),
        );
        let of_stripe = "payments.accounts_file, [[stripe]] \"main\": ";
        for (rest, expected) in [
            ("secret_file = 'stripe'", "sellers must be set"),
            (
                "sellers = ['ann']\nall_sellers = true\nsecret_file = 'stripe'",
                "sellers must be set",
            ),
            (
                "sellers = ['a b']\nsecret_file = 'stripe'",
                "sellers has a wrong user",
            ),
            ("sellers = ['ann']\nsecret_file = 'nothing'", "secret_file "),
            (
                "sellers = ['ann']\nsecret_file = 'short'",
                "secret_file is no signing secret",
            ),
            (
                "sellers = ['ann']\nsecret_file = 'stripe'\nrotation_secret_file = 'apiv3'",
                "rotation_secret_file is no signing secret",
            ),
        ] {
            check(
                &format!("{stripe}{rest}"),
                Err(&format!("{of_stripe}{expected}")),
            );
        }
        check(stripe, Err("missing field `secret_file`"));
        let misspelt = "sellers = ['ann']\nsecret_file = 'stripe'\nsecretfile = 'x'";
        check(
            &format!("{stripe}{misspelt}"),
            Err("unknown field `secretfile`"),
        );
        let wrong = "[[stripe]]\naccount = 'Main'\nall_sellers = true\nsecret_file = 'stripe'\n";
        check(wrong, Err("[[stripe]] \"Main\": account is not valid"));
        let one = format!("{stripe}all_sellers = true\nsecret_file = 'stripe'\n");
        check(
            &format!("{one}{one}"),
            Err("account is the name of another account"),
        );
        let wechat = "[[wechat]]\naccount = 'main'\nall_sellers = true\nmchid = '1'\n";
        let missing = "the keys of the platform are missing";
        check(&format!("{wechat}apiv3_key_file = 'apiv3'"), Err(missing));
        let no_key = "apiv3_key_file is no APIv3 key";
        check(&format!("{wechat}apiv3_key_file = 'stripe'"), Err(no_key));
        let no_pem = "apiv3_key_file = 'apiv3'\ncertificate_files = ['stripe']";
        check(
            &format!("{wechat}{no_pem}"),
            Err("it has no `CERTIFICATE` in PEM"),
        );
        let alipay = "[[alipay]]\naccount = 'main'\nall_sellers = true\napp_id = '2'\n";
        let no_key = "it is neither PEM nor a public key in base64";
        check(&format!("{alipay}public_key_file = 'stripe'"), Err(no_key));
    }
}
