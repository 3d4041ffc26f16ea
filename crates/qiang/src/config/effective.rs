//! Effective values of all keys, to find what has changed.

use std::{collections::BTreeMap, fmt};

use config::{Value, ValueKind};

/// Each key, such as `server.listen`, with its value as text. Values may be secrets, so they are never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct EffectiveValues(BTreeMap<String, String>);

impl EffectiveValues {
    pub(super) fn from_sections(sections: impl IntoIterator<Item = (String, Value)>) -> Self {
        let mut values = Self::default();
        for (name, value) in sections {
            values.add(name, value);
        }
        values
    }

    fn add(&mut self, key: String, value: Value) {
        match value.kind {
            ValueKind::Table(table) => {
                for (name, value) in table {
                    self.add(format!("{key}.{name}"), value);
                }
            }
            kind => drop(self.0.insert(key, kind.to_string())),
        }
    }

    /// Keys whose values differ, in order.
    pub(crate) fn changed_keys<'a>(
        &'a self,
        before: &'a Self,
    ) -> impl Iterator<Item = &'a str> + use<'a> {
        let keys = self.0.keys();
        let changed = keys.filter(|key| self.0.get(*key) != before.0.get(*key));
        changed.map(String::as_str)
    }
}

impl fmt::Debug for EffectiveValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::NodeConfig;

    #[test]
    fn a_changed_value_of_any_key_is_found_and_no_secret_is_shown() {
        let load = |overrides: &[(&str, &str)]| {
            let overrides = overrides
                .iter()
                .map(|(key, value)| (*key, (*value).to_owned()));
            let overrides: Vec<_> = overrides.collect();
            NodeConfig::defaults_with(&overrides).unwrap()
        };
        let before = load(&[]);
        let same = load(&[("server.listen", &before.server.listen.to_string())]);
        assert_eq!(same.effective.changed_keys(&before.effective).count(), 0);
        let secret = "a-secret-that-nobody-should-ever-see";
        let after = load(&[
            ("server.listen", "127.0.0.1:9"),
            ("auth.hs256_secret", secret),
            ("redis.partitions", "7"),
            ("limits.shares_max", "9"),
        ]);
        let changed: Vec<_> = after.effective.changed_keys(&before.effective).collect();
        let expected = [
            "auth.hs256_secret",
            "limits.shares_max",
            "redis.partitions",
            "server.listen",
        ];
        assert_eq!(changed, expected);
        assert!(!format!("{:?}", after.effective).contains(secret));
    }
}
