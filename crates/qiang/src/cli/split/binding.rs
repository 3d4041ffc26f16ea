//! Options that name the red packet of a commitment, and the parts of its seed.

use qiang_core::{
    id::CampaignId,
    money::Currency,
    split::{
        ClientSeed, Commitment, Seed, SeedParts, ServerSeed, ServerSeedHash, Split, commit,
        server_seed_hash,
    },
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
    /// Hash of the server seed, published before the service knew the client seed, 64 hexadecimal digits
    #[arg(long, value_name = "HEX", requires_all = ["server_seed", "client_seed"])]
    server_seed_hash: Option<ServerSeedHash>,
    /// Server seed: the service's part of the seed, 64 hexadecimal digits
    #[arg(long, value_name = "HEX", requires = "server_seed_hash")]
    server_seed: Option<ServerSeed>,
    /// Client seed: the sender's part of the seed, 64 hexadecimal digits
    #[arg(long, value_name = "HEX", requires = "server_seed_hash")]
    client_seed: Option<ClientSeed>,
}

/// Fault of the parts of a seed; `None` if they are right.
pub(super) type Fault = Option<&'static str>;

impl PartsArgs {
    /// Checks that the server seed has this hash, and that the parts make the seed. `None` if no parts are given.
    pub(super) fn check(&self, binding: &BindingArgs, seed: &Seed) -> Option<Fault> {
        let (hash, id) = (self.server_seed_hash?, binding.id);
        let (server_seed, client_seed) = (self.server_seed.clone()?, self.client_seed?);
        if server_seed_hash(id, &server_seed) != hash {
            return Some(Some("the hash is not that of this server seed"));
        }
        let made = SeedParts {
            server_seed,
            client_seed,
        }
        .seed();
        Some((made != *seed).then_some("server seed and client seed do not make the seed"))
    }
}
