//! Commit and reveal: the proof that a split was fixed before the first claim.
//!
//! A [`Commitment`] is the SHA-256 of these bytes, in this order; integers are big-endian:
//!
//! | bytes | content |
//! |---|---|
//! | domain | `qiang/split/commitment` and a zero byte |
//! | 1 | [`SPLIT_VERSION`] |
//! | 1 | the rule: 1 `normal`, 2 `double_average`, 3 `equal`, 4 `lazy` |
//! | 8 | total, in minor units |
//! | 4 | count |
//! | 8 | min, or 0 where the rule has none |
//! | 8 | max, or 0 where the rule has none |
//! | 16 | the packet's id |
//! | 3 | the currency's code |
//! | 32 | the seed |
//!
//! Every field has a fixed length, so no two splits have the same bytes. The 256 random bits of the seed hide it, so
//! the parameters may be public. The id binds the packet. Without it, a service that opens two packets with the same
//! parameters could show either commitment for either packet.
//!
//! # Choice of the seed
//! The service chooses the seed, unless the sender contributes to it. A [`ServerSeedHash`] is the SHA-256 of
//! `qiang/split/promise` and a zero byte, the packet's id and a [`ServerSeed`] of the service. A sender that has the
//! hash sends its own [`ClientSeed`]. The seed is then the SHA-256 of `qiang/split/seed` and a zero byte, the server
//! seed and the client seed. The service is bound to the server seed before it learns the client seed, and the sender
//! does not know the server seed. So neither chooses the seed.

use std::fmt;

use sha2::{Digest, Sha256};

use super::seed::hex_bytes;
use super::{SPLIT_VERSION, Seed, Split, SplitRule};
use crate::{id::CampaignId, money::Currency};

/// Separates these hashes from all others that Qiang may ever publish.
const DOMAIN: &[u8] = b"qiang/split/commitment\0";
const SERVER_SEED_DOMAIN: &[u8] = b"qiang/split/promise\0";
const SEED_DOMAIN: &[u8] = b"qiang/split/seed\0";

/// Hash that is published before a red packet opens. It binds the seed, the parameters and the versions, and does not
/// reveal the seed. `Display` writes 64 lowercase hexadecimal digits, and `FromStr` reads them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Commitment([u8; 32]);

hex_bytes!(Commitment);

impl fmt::Debug for Commitment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Commitment({self})")
    }
}

/// Hash that binds a service to its [`ServerSeed`] for a packet that is not sent yet. `Display` writes 64 lowercase
/// hexadecimal digits, and `FromStr` reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSeedHash([u8; 32]);

hex_bytes!(ServerSeedHash);

/// 32 random bytes that the sender of a packet has chosen. Public.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientSeed([u8; 32]);

hex_bytes!(ClientSeed);

/// The service's part of a seed. Secret until the packet is over: `Debug` hides it, and `Display` shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerSeed([u8; 32]);

hex_bytes!(ServerSeed);

impl fmt::Debug for ServerSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerSeed(redacted)")
    }
}

/// Contributions of a service and a sender to a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedParts {
    /// Contribution of the service, bound by its hash.
    pub server_seed: ServerSeed,
    /// Contribution of the sender.
    pub client_seed: ClientSeed,
}

impl SeedParts {
    /// Seed that follows from both contributions.
    pub fn seed(&self) -> Seed {
        let parts = [SEED_DOMAIN, &self.server_seed.0, &self.client_seed.0];
        Seed::from_bytes(hash(&parts))
    }
}

/// Origin of a packet's seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeedOrigin {
    /// Chosen by the service alone.
    Service,
    /// Contributions of service and sender.
    Both(SeedParts),
}

impl SeedOrigin {
    /// Contributions of service and sender, if both have contributed.
    pub fn parts(&self) -> Option<&SeedParts> {
        match self {
            Self::Service => None,
            Self::Both(parts) => Some(parts),
        }
    }
}

/// Hash of a server seed for the packet `id`.
pub fn server_seed_hash(id: CampaignId, server_seed: &ServerSeed) -> ServerSeedHash {
    ServerSeedHash(hash(&[
        SERVER_SEED_DOMAIN,
        id.uuid().as_bytes(),
        &server_seed.0,
    ]))
}

/// Commits to `split` under `seed` for the packet `id`. If a revealed seed gives the published commitment,
/// [`Split::shares`] gives the committed shares.
pub fn commit(id: CampaignId, currency: Currency, seed: &Seed, split: &Split) -> Commitment {
    Commitment(hash(&[
        DOMAIN,
        &parameters(split),
        id.uuid().as_bytes(),
        currency.code().as_bytes(),
        seed.as_bytes(),
    ]))
}

/// Version of the splitting rules, and the parameters of a split.
fn parameters(split: &Split) -> [u8; 30] {
    let (code, min, max): (u8, i64, i64) = match split.rule() {
        SplitRule::Normal { min, max } => (1, min, max),
        SplitRule::DoubleAverage { min } => (2, min, 0),
        SplitRule::Equal => (3, 0, 0),
        SplitRule::Lazy { min } => (4, min, 0),
    };
    let mut bytes = [0; 30];
    bytes[0] = SPLIT_VERSION;
    bytes[1] = code;
    bytes[2..10].copy_from_slice(&split.total().to_be_bytes());
    bytes[10..14].copy_from_slice(&split.count().to_be_bytes());
    bytes[14..22].copy_from_slice(&min.to_be_bytes());
    bytes[22..].copy_from_slice(&max.to_be_bytes());
    bytes
}

fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}
