//! A call of a script in a partition.

use qiang_core::{campaign::AckLevel, event::Seq, id::CampaignId};
use redis::Cmd;

use crate::connection::{options::RedisOptions, reply::ScriptReply, script::Script};

/// Adds a script's own arguments to a command.
pub(crate) type Arguments<'a> = &'a (dyn Fn(&mut Cmd) -> &mut Cmd + Send + Sync);

/// A script call: the script and its own arguments. [`CallConnection`](crate::connection::CallConnection) adds the
/// common ones.
pub(crate) struct ScriptCall<'a> {
    /// The script.
    pub script: &'static Script,
    /// The campaign whose keys the script gets.
    pub campaign: CampaignId,
    /// Further keys of the partition, after the keys that the script names.
    pub more_keys: &'a [String],
    /// The script's own arguments.
    pub arguments: Arguments<'a>,
    /// Acknowledgement level that the decision must reach; `None` for a call that only reads.
    pub asks: Option<AckLevel>,
}

impl ScriptCall<'_> {
    /// Whether the call waits for replicas.
    pub(crate) fn waits(&self, options: &RedisOptions) -> bool {
        self.asks.is_some_and(|asked| options.waits(asked))
    }

    /// Last log entry on which the caller relies once it gets this reply; `None` if it relies on none. A decision below
    /// the requested level is answered with an error and may still be lost, so the caller must not rely on it.
    pub(crate) fn relied_on(&self, reply: &ScriptReply, options: &RedisOptions) -> Option<Seq> {
        let asked = self.asks?;
        let sufficient = !options.waits(asked) || reply.level(asked).is_ok();
        reply.head.filter(|_| sufficient)
    }
}
