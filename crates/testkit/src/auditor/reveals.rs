//! Checks of published seeds of red packets: each seed must fit its earlier commitment and the granted shares.

use qiang_core::{
    campaign::{RedPacket, Rules},
    event::{Entry, Event, Seq},
    id::CampaignId,
    split::{Commitment, Seed, SplitRule, commit, lazy_amount},
};

use super::{Account, ExpectedLedger};

/// Published seed of a red packet.
#[derive(Debug, Clone)]
pub struct Reveal {
    /// The packet. It is not spread.
    pub campaign: CampaignId,
    /// Commitment published at its creation.
    pub commitment: Commitment,
    /// The published seed.
    pub seed: Seed,
    /// The last settled entry at the first publication.
    pub upto: Seq,
}

/// Every contradiction between a seed and its commitment or the grants.
pub(super) fn check(
    expected: &ExpectedLedger,
    logs: &[Vec<Entry>],
    reveals: &[Reveal],
) -> Vec<String> {
    let mut breaches = Vec::new();
    for reveal in reveals {
        let id = reveal.campaign;
        let is_late = |entry: &&Entry| {
            let granted = matches!(entry.event, Event::Granted { .. });
            granted && entry.campaign == id && entry.seq > reveal.upto
        };
        if let Some(late) = logs.iter().flatten().find(is_late) {
            let seq = late.seq;
            breaches.push(format!(
                "entry {seq} grants a share of {id}, whose seed was shown"
            ));
        }
        let account = expected.accounts.get(&id);
        let Some((account, packet)) = account.and_then(|it| Some((it, packet_of(it)?))) else {
            breaches.push(format!(
                "a seed of {id} was published, which is no red packet"
            ));
            continue;
        };
        let commitment = commit(id, packet.currency, &reveal.seed, &packet.split);
        if commitment != reveal.commitment {
            breaches.push(format!("the seed of {id} is not the one committed to"));
        } else if let Some(number) = other_amount(account, packet, &reveal.seed) {
            breaches.push(format!(
                "share {number} of {id} does not follow from its seed"
            ));
        }
    }
    breaches
}

fn packet_of(account: &Account) -> Option<&RedPacket> {
    match &account.setup.campaign.rules {
        Rules::RedPacket(packet) => Some(packet),
        Rules::Sale(_) => None,
    }
}

/// The first share with an amount that differs from the seed's.
fn other_amount(account: &Account, packet: &RedPacket, seed: &Seed) -> Option<u32> {
    let (split, mut left) = (packet.split, packet.split.total());
    let SplitRule::Lazy { min } = split.rule() else {
        let shares = split.shares(seed);
        let differs = |number: u32, minor| shares.get(number as usize - 1) != Some(&minor);
        let mut rows = account.rows.iter();
        let other = rows.find(|(number, row)| differs(**number, row.amount_minor));
        return other.map(|(number, _)| *number);
    };
    for (number, row) in &account.rows {
        let count = split.count() - (number - 1);
        if lazy_amount(seed, u64::from(*number), left, count, min) != row.amount_minor {
            return Some(*number);
        }
        left -= row.amount_minor;
    }
    None
}
