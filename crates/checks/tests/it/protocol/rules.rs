//! What the protocol demands. Each rule can be left out, to see that the checker finds what it prevents.

/// The rules of the protocol.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// Calls carry the term and are refused in another one; else only the length of the log is compared.
    pub(crate) terms: bool,
    /// A new term opens once all nodes have said what they had observed.
    pub(crate) gathering: bool,
    /// A head that decides about a loss is read in the node's own term.
    pub(crate) fenced_reads: bool,
    /// The reply to a connection's last call is kept beside the decision.
    pub(crate) kept_replies: bool,
    /// A repair waits until all nodes are in the present term, and have said what they have answered.
    pub(crate) repair_waits: bool,
    /// A repair ends on the server that it has written to, or not at all.
    pub(crate) repair_fenced: bool,
    /// A repair restores what nodes have answered.
    pub(crate) repair_from_answers: bool,
    /// A repair withholds a unit for each entry that nobody can name.
    pub(crate) withhold: bool,
}

impl Rules {
    /// All of them.
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
