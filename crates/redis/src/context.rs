//! What all connections of one node share.

use crate::{directory::Directory, keys::KeySpace, options::Options};

/// What all connections of one node share.
pub(crate) struct ConnectionContext {
    pub(crate) options: Options,
    pub(crate) directory: Directory,
    pub(crate) keys: KeySpace,
    /// Names this node among all that use the same Redis.
    pub(crate) node: String,
}

impl ConnectionContext {
    /// Milliseconds for scripts; empty where they ask Redis' own clock.
    pub(crate) fn script_time(&self) -> String {
        let clock = self.options.clock.as_ref();
        clock.map_or_else(String::new, |clock| clock.now().as_millis().to_string())
    }
}
