//! Options that name the red packet of a commitment, and the parts of its seed.

use qiang_core::{
    id::CampaignId,
    money::Currency,
    split::{Commitment, Entropy, Parts, Promise, Secret, Seed, Split, commit, promise},
};

/// The red packet that a commitment is for.
#[derive(Debug, clap::Args)]
pub(super) struct BindingArgs {
    /// The red packet's id, which its commitment binds
    #[arg(long)]
    id: CampaignId,
    /// The total's currency, such as CNY, which the commitment binds
    #[arg(long)]
    currency: Currency,
}

impl BindingArgs {
    /// The commitment to a split under a seed.
    pub(super) fn commit(&self, seed: &Seed, split: &Split) -> Commitment {
        commit(self.id, self.currency, seed, split)
    }
}

/// The red packet of a commitment. Given if the commitment is printed.
#[derive(Debug, clap::Args)]
pub(super) struct PacketArgs {
    /// The red packet's id; if given, the commitment is printed
    #[arg(long, requires = "currency")]
    id: Option<CampaignId>,
    /// The total's currency, such as CNY
    #[arg(long, requires = "id")]
    currency: Option<Currency>,
}

impl PacketArgs {
    /// The commitment to a split under a seed; `None` if no packet is given.
    pub(super) fn commit(&self, seed: &Seed, split: &Split) -> Option<Commitment> {
        Some(commit(self.id?, self.currency?, seed, split))
    }
}

/// Parts of a seed, from the service and from the sender.
#[derive(Debug, clap::Args)]
pub(super) struct PartsArgs {
    /// The hash of the secret that the service published before it knew the entropy, 64 hexadecimal digits
    #[arg(long, value_name = "HEX", requires_all = ["secret", "entropy"])]
    promise: Option<Promise>,
    /// The service's part of the seed, 64 hexadecimal digits
    #[arg(long, value_name = "HEX", requires = "promise")]
    secret: Option<Secret>,
    /// The sender's part of the seed, 64 hexadecimal digits
    #[arg(long, value_name = "HEX", requires = "promise")]
    entropy: Option<Entropy>,
}

/// Fault of the parts of a seed; `None` if they are right.
pub(super) type Fault = Option<&'static str>;

impl PartsArgs {
    /// Checks that the secret has the promised hash, and that the parts make the seed. `None` if no parts are given.
    pub(super) fn check(&self, binding: &BindingArgs, seed: &Seed) -> Option<Fault> {
        let (promised, id) = (self.promise?, binding.id);
        let (secret, entropy) = (self.secret.clone()?, self.entropy?);
        if promise(id, &secret) != promised {
            return Some(Some("the promise is not the hash of this secret"));
        }
        let made = Parts { secret, entropy }.seed();
        Some((made != *seed).then_some("secret and entropy do not make the seed"))
    }
}
