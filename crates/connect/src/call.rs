//! A call of a script in a partition.

use qiang_core::{campaign::AckLevel, event::Seq, id::CampaignId};
use redis::Cmd;

use crate::{options::Options, reply::ScriptReply, script::Script};

/// Adds a script's own arguments to a command.
pub type Arguments<'a> = &'a (dyn Fn(&mut Cmd) -> &mut Cmd + Send + Sync);

/// One call: a script, and the arguments that it has beside the common ones.
pub struct Call<'a> {
    /// What is called.
    pub script: &'static Script,
    /// Whose keys it is given.
    pub campaign: CampaignId,
    /// Further keys of the partition, after the keys that the script names.
    pub more_keys: &'a [String],
    /// Its own arguments.
    pub arguments: Arguments<'a>,
    /// The level that the decision is to reach; none for what only reads.
    pub asks: Option<AckLevel>,
}

impl Call<'_> {
    /// Whether it waits for replicas.
    pub(crate) fn waits(&self, options: &Options) -> bool {
        self.asks.is_some_and(|asked| options.waits(asked))
    }

    /// The entry up to which the caller relies on the log, when this reply is passed on. What does not reach the level
    /// that was asked for is answered with an error, and may still be lost.
    pub(crate) fn relied_on(&self, reply: &ScriptReply, options: &Options) -> Option<Seq> {
        let asked = self.asks?;
        let sufficient = !options.waits(asked) || reply.level(asked).is_ok();
        reply.head.filter(|_| sufficient)
    }
}
