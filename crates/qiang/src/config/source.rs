//! Sources of configuration values, for `qiang config show` and for error messages.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use config::ConfigError;
use qiang_api::UsageError;
use serde::Serialize;

use super::DEFAULTS;

/// Replacement of a secret in output.
const HIDDEN: &str = "(hidden)";
/// Keys whose values may hold a secret, in addition to names with a secret ending. A test compares them with the types.
const SECRET_URLS: [&str; 2] = ["ledger.url", "settlement.rabbitmq_url"];

/// A key with its effective value and the source of the value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Section and key, such as `server.listen`.
    pub key: String,
    /// The value. Secrets are hidden, and so are users and passwords in URLs.
    pub value: String,
    /// Source of the value.
    #[serde(serialize_with = "as_text")]
    pub source: ConfigSource,
}

/// Source of a configuration value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigSource {
    /// The built-in defaults.
    Default,
    /// A file, and the line in it, counted from 1.
    File(PathBuf, usize),
    /// An environment variable.
    Environment(String),
    /// The command line.
    Flag,
}

impl fmt::Display for ConfigSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Environment(variable) => f.write_str(variable),
            Self::Flag => f.write_str("flag"),
        }
    }
}

fn as_text<S: serde::Serializer>(source: &ConfigSource, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(source)
}

/// A key of a TOML text, with its line and its value as text.
struct ConfigEntry {
    key: String,
    line: usize,
    value: String,
}

/// All configured values, by source.
pub(super) struct Sources {
    file: Option<(PathBuf, Vec<ConfigEntry>)>,
    environment: Vec<(String, String)>,
    flags: Vec<(String, String)>,
}

impl Sources {
    /// Collects the sources. `environment` is the whole environment of the process.
    ///
    /// # Errors
    /// If the file is not valid TOML, or a variable is misspelt. The message is one line with the place or the
    /// variable.
    pub(super) fn new(
        file: Option<(&Path, &str)>,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: &[(&str, String)],
    ) -> Result<Self, UsageError> {
        let leaves = |(path, text): (&Path, &str)| {
            let wrong =
                |(line, what)| UsageError::new(format!("{}:{line}: {what}", path.display()));
            Ok((path.to_owned(), leaves(text).map_err(wrong)?))
        };
        let environment: Vec<_> = environment.into_iter().collect();
        if let Some((name, meant)) = environment.iter().find_map(|(name, _)| misspelt(name)) {
            return Err(UsageError::new(format!(
                "{name} sets nothing: two underscores separate section and key, as in {meant}"
            )));
        }
        let ours = |(name, _): &(String, String)| name.to_ascii_lowercase().starts_with("qiang__");
        Ok(Self {
            file: file.map(leaves).transpose()?,
            environment: environment.into_iter().filter(ours).collect(),
            flags: flags
                .iter()
                .map(|(key, value)| ((*key).to_owned(), value.clone()))
                .collect(),
        })
    }

    /// Source of a key's value, and the value; `None` if only the defaults set it. Flags win over variables, and
    /// variables win over the file.
    fn for_key(&self, key: &str) -> Option<(ConfigSource, &str)> {
        let variable = format!("qiang__{}", key.replace('.', "__"));
        if let Some((_, value)) = self.flags.iter().find(|(flag, _)| flag == key) {
            return Some((ConfigSource::Flag, value));
        }
        let mut variables = self.environment.iter();
        if let Some((name, value)) =
            variables.find(|(name, _)| name.eq_ignore_ascii_case(&variable))
        {
            return Some((ConfigSource::Environment(name.clone()), value));
        }
        let (path, leaves) = self.file.as_ref()?;
        let leaf = leaves.iter().find(|leaf| leaf.key == key)?;
        Some((ConfigSource::File(path.clone(), leaf.line), &leaf.value))
    }

    /// All keys, in the order of the defaults.
    pub(super) fn settings(&self) -> Vec<Setting> {
        // A test checks that the defaults can be parsed.
        let defaults = leaves(DEFAULTS).unwrap_or_default();
        let setting = |ConfigEntry { key, value, .. }: ConfigEntry| {
            let (source, value) = match self.for_key(&key) {
                Some((source, value)) => (source, value.to_owned()),
                None => (ConfigSource::Default, value),
            };
            Setting {
                value: shown(&key, value),
                key,
                source,
            }
        };
        defaults.into_iter().map(setting).collect()
    }

    /// Puts the place of the faulty key in front of an error text.
    pub(super) fn located(&self, what: &str, key: Option<&str>) -> String {
        let unknown = what
            .split_once("unknown field `")
            .and_then(|(_, rest)| rest.split_once('`'));
        let unknown = unknown.map(|(name, _)| match key {
            Some(section) => format!("{section}.{name}"),
            None => name.to_owned(),
        });
        let words = what.split(|c: char| !(c.is_ascii_alphanumeric() || "._".contains(c)));
        let candidates = unknown.iter().map(String::as_str).chain(key).chain(words);
        let mut sources = candidates.filter_map(|key| match self.for_key(key) {
            Some((source, _)) => Some(source),
            // The name may be that of an unknown section.
            None => self.below(key),
        });
        let by_name = || self.ending(unknown.as_deref()?.rsplit('.').next()?);
        match by_name().or_else(|| sources.next()) {
            Some(source) => format!("{source}: {what}"),
            None => what.to_owned(),
        }
    }

    /// Returns the text of an error. If a word is not one of the key's choices, the text names both and adds the
    /// comment on the key from the defaults.
    pub(super) fn with_choices(what: &str, key: Option<&str>) -> String {
        let none = what.split_once("does not have variant constructor ");
        let named = || what.split_once("for key `")?.1.split('`').next();
        let key = key.or_else(named);
        let (Some((_, rest)), Some(key)) = (none, key) else {
            return what.to_owned();
        };
        let word = rest.split(' ').next().unwrap_or(rest);
        let about = remark(key).unwrap_or_default();
        format!("{key} cannot be `{word}`: {about}")
    }

    /// Source of a key with this name in any section.
    fn ending(&self, name: &str) -> Option<ConfigSource> {
        let (in_file, in_environment) = (format!(".{name}"), format!("__{name}"));
        let named = |(variable, _): &&(String, String)| {
            let variable = variable.to_ascii_lowercase();
            variable.ends_with(&in_environment)
        };
        if let Some((variable, _)) = self.environment.iter().find(named) {
            return Some(ConfigSource::Environment(variable.clone()));
        }
        let (path, leaves) = self.file.as_ref()?;
        let leaf = leaves.iter().find(|leaf| leaf.key.ends_with(&in_file))?;
        Some(ConfigSource::File(path.clone(), leaf.line))
    }

    /// Source of the first key of a section.
    fn below(&self, section: &str) -> Option<ConfigSource> {
        let (in_file, in_environment) = (format!("{section}."), format!("qiang__{section}__"));
        let named =
            |(name, _): &&(String, String)| name.to_ascii_lowercase().starts_with(&in_environment);
        if section.is_empty() || section.contains('.') {
            return None;
        }
        if let Some((name, _)) = self.environment.iter().find(named) {
            return Some(ConfigSource::Environment(name.clone()));
        }
        let (path, leaves) = self.file.as_ref()?;
        let leaf = leaves.iter().find(|leaf| leaf.key.starts_with(&in_file))?;
        Some(ConfigSource::File(path.clone(), leaf.line))
    }
}

/// Finds a variable that has one underscore where two are needed. Returns its name and the correct spelling.
fn misspelt(name: &str) -> Option<(&str, String)> {
    let lower = name.to_ascii_lowercase();
    if !lower.starts_with("qiang_") || lower.starts_with("qiang__") {
        return None;
    }
    // A test checks that the defaults can be parsed.
    let mut keys = leaves(DEFAULTS).unwrap_or_default().into_iter();
    let key = keys.find(|leaf| format!("qiang_{}", leaf.key.replace('.', "_")) == lower)?;
    let meant = format!("QIANG__{}", key.key.replace('.', "__").to_uppercase());
    Some((name, meant))
}

/// The key that an error names, if any.
pub(super) fn key_of(error: &ConfigError) -> Option<&str> {
    match error {
        ConfigError::Type { key, .. } => key.as_deref(),
        ConfigError::At { key, error, .. } => key.as_deref().or_else(|| key_of(error)),
        ConfigError::NotFound(key) => Some(key),
        _ => None,
    }
}

/// The comment above a key in the defaults, as one line. Keys of one group share the comment above the first.
fn remark(key: &str) -> Option<String> {
    let leaf = leaves(DEFAULTS)
        .ok()?
        .into_iter()
        .find(|leaf| leaf.key == key)?;
    let above: Vec<&str> = DEFAULTS.lines().take(leaf.line - 1).collect();
    let lines = above
        .rsplit(|line| !line.starts_with('#'))
        .find(|lines| !lines.is_empty())?;
    let lines: Vec<_> = lines
        .iter()
        .map(|line| line.trim_start_matches(['#', ' ']))
        .collect();
    Some(lines.join(" "))
}

/// A value without its secrets.
fn shown(key: &str, value: String) -> String {
    let last = key.rsplit('.').next().unwrap_or(key);
    let is_secret =
        last.ends_with("secret") || last.ends_with("password") || SECRET_URLS.contains(&key);
    if is_secret && !value.is_empty() {
        return HIDDEN.to_owned();
    }
    let without_user = |url: &str| match url.split_once("://") {
        Some((scheme, rest)) if rest.contains('@') => {
            let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
            format!("{scheme}://{HIDDEN}@{host}")
        }
        _ => url.to_owned(),
    };
    value
        .split(',')
        .map(without_user)
        .collect::<Vec<_>>()
        .join(",")
}

/// The keys of a TOML text. For an invalid text: the line of the fault, and the reason.
fn leaves(text: &str) -> Result<Vec<ConfigEntry>, (usize, String)> {
    let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    let table = toml::de::DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        (line(at), error.message().replace('\n', ", "))
    })?;
    let mut found = Vec::new();
    gather(text, "", table.get_ref(), &mut found);
    found.sort_by_key(|(at, ..)| *at);
    let leaf = |(at, key, value)| ConfigEntry {
        key,
        value,
        line: line(at),
    };
    Ok(found.into_iter().map(leaf).collect())
}

/// Adds the offset, the name and the value of each key in a table.
fn gather(
    text: &str,
    section: &str,
    table: &toml::de::DeTable<'_>,
    found: &mut Vec<(usize, String, String)>,
) {
    for (name, value) in table {
        let key = match section {
            "" => name.get_ref().to_string(),
            section => format!("{section}.{}", name.get_ref()),
        };
        match value.get_ref() {
            toml::de::DeValue::Table(table) => gather(text, &key, table, found),
            toml::de::DeValue::String(value) => {
                found.push((name.span().start, key, value.to_string()))
            }
            _ => found.push((name.span().start, key, text[value.span()].to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(text: &str, environment: &[(&str, &str)], flags: &[(&str, String)]) -> Sources {
        let environment = environment
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        let file = Some((Path::new("q.toml"), text));
        Sources::new(file, environment, flags).unwrap()
    }

    #[test]
    fn a_variable_with_one_underscore_is_named() {
        let check = |name: &str, expected: Option<&str>| {
            let environment = [(name.to_owned(), "x".to_owned())];
            let read = Sources::new(None, environment, &[]);
            let error = read.err().map(|error| error.to_string());
            let expected = expected.map(|meant| {
                format!(
                    "{name} sets nothing: two underscores separate section and key, as in {meant}"
                )
            });
            assert_eq!(error, expected);
        };
        check("QIANG_SERVER_LISTEN", Some("QIANG__SERVER__LISTEN"));
        check("qiang_auth_hs256_secret", Some("QIANG__AUTH__HS256_SECRET"));
        for other in [
            "QIANG__SERVER__LISTEN",
            "QIANG_URL",
            "QIANG_DEMO_LEDGER",
            "QIANG_TOKEN",
        ] {
            check(other, None);
        }
    }

    #[test]
    fn each_value_names_its_source() {
        let text = "[server]\nlisten = '127.0.0.1:1'\n\n[log]\nlevel = 'warn'\nformat = 'json'\n";
        let environment = [
            ("QIANG__LOG__LEVEL", "debug"),
            ("qiang__redis__prefix", "q"),
            ("QIANG_URL", "x"),
        ];
        let flags = [("engine.data", "x.db".to_owned())];
        let settings = sources(text, &environment, &flags).settings();
        let check = |key: &str, value: &str, source: &str| {
            let found = settings.iter().find(|setting| setting.key == key).unwrap();
            assert_eq!(
                (found.value.as_str(), found.source.to_string().as_str()),
                (value, source)
            );
        };
        check("server.listen", "127.0.0.1:1", "q.toml:2");
        check("log.format", "json", "q.toml:6");
        check("log.level", "debug", "QIANG__LOG__LEVEL");
        check("redis.prefix", "q", "qiang__redis__prefix");
        check("engine.data", "x.db", "flag");
        check("engine.kind", "embedded", "default");
        check("server.noop_route", "false", "default");
        assert!(settings.len() > 80, "{}", settings.len());
    }

    #[test]
    fn no_secret_is_shown() {
        const MARK: &str = "hunter2hunter2";
        let all = sources("", &[], &[]).settings();
        let secrets = all.iter().filter(|setting| {
            let key = &setting.key;
            key.contains("secret") && !key.ends_with("_file")
                || key.contains("password")
                || key.contains("url")
        });
        let keys: Vec<_> = secrets.map(|setting| setting.key.clone()).collect();
        for must in [
            "auth.hs256_secret",
            "redis.password",
            "ledger.url",
            "order_check.secret",
            "redis.urls",
        ] {
            assert!(keys.iter().any(|key| key == must), "{must}: {keys:?}");
        }
        for key in keys {
            for value in [
                format!("redis://ann:{MARK}@h:1,redis://{MARK}@h"),
                MARK.to_owned(),
            ] {
                if value == MARK && key.contains("url") && !SECRET_URLS.contains(&key.as_str()) {
                    continue;
                }
                let settings = sources("", &[], &[(&key, value)]).settings();
                let shown = format!("{settings:?}");
                assert!(!shown.contains(MARK), "{key} is shown");
            }
        }
        assert_eq!(
            shown("redis.urls", "redis://u:p@h:1,redis://g".to_owned()),
            "redis://(hidden)@h:1,redis://g"
        );
        assert_eq!(shown("auth.hs256_secret", String::new()), "");
    }
}
