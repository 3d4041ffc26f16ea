//! Reply to `INFO`, and the fields that nodes check.

/// The reply to `INFO`: lines of `field:value`.
pub(crate) struct ServerInfo(String);

impl ServerInfo {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }

    /// Value of a field; empty if there is no such field.
    pub(crate) fn field(&self, name: &str) -> &str {
        let mut lines = self.0.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap_or("").trim()
    }

    pub(crate) fn is_primary(&self) -> bool {
        self.field("role") == "master"
    }

    /// Eviction policy of the server; `None` if it never evicts keys or does not tell.
    pub(crate) fn eviction(&self) -> Option<&str> {
        let policy = self.field("maxmemory_policy");
        (!policy.is_empty() && policy != "noeviction").then_some(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_and_judged() {
        let info = |policy: &str| {
            let text = "# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:";
            ServerInfo::new(format!(
                "{text}{policy}\r\n# Replication\r\nrole:master\r\n"
            ))
        };
        assert_eq!(info("noeviction").eviction(), None);
        assert_eq!(info("allkeys-lru").eviction(), Some("allkeys-lru"));
        assert_eq!(info("noeviction").field("maxmemory"), "0");
        assert!(info("noeviction").is_primary());
        let silent = ServerInfo::new(String::new());
        assert_eq!((silent.eviction(), silent.is_primary()), (None, false));
    }
}
