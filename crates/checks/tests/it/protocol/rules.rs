//! Rules of the protocol. Each can be left out to test that the checker finds the fault that it prevents.

/// Selection of the protocol's rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// Calls carry the term and are refused in another one. Otherwise only the length of the log is compared.
    pub(crate) terms: bool,
    /// A new term opens when all nodes have reported their observations.
    pub(crate) gathering: bool,
    /// A head that decides about a loss is read in the node's own term.
    pub(crate) fenced_reads: bool,
    /// The reply to a connection's last call is stored together with the decision.
    pub(crate) kept_replies: bool,
    /// A repair waits until all nodes are in the current term and have reported their answers.
    pub(crate) repair_waits: bool,
    /// A repair ends only on the server that it has written to.
    pub(crate) repair_fenced: bool,
    /// A repair restores the nodes' answers.
    pub(crate) repair_from_answers: bool,
    /// A repair withholds a unit for each entry that no node can name.
    pub(crate) withhold: bool,
}

impl Rules {
    /// All rules.
    pub(crate) const SOUND: Self = Self {
        terms: true,
        gathering: true,
        fenced_reads: true,
        kept_replies: true,
        repair_waits: true,
        repair_fenced: true,
        repair_from_answers: true,
        withhold: true,
    };
}
