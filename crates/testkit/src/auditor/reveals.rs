//! Checks the seeds of packets that were shown against what was published before, and against what was granted.

use qiang_core::{
    campaign::{RedPacket, Rules},
    event::{Entry, Event, Seq},
    id::CampaignId,
    split::{Commitment, Seed, SplitRule, commit, lazy_amount},
};

use super::{Account, ExpectedLedger};

/// A packet's seed that everybody may see.
#[derive(Debug, Clone)]
pub struct Reveal {
    /// The packet, which is not spread.
    pub campaign: CampaignId,
    /// What was published when it was created.
    pub commitment: Commitment,
    /// The seed that was shown.
    pub seed: Seed,
    /// The last entry that was settled when it was shown first.
    pub upto: Seq,
}

/// Everything that a seed does not bear out.
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
            breaches.push(format!("entry {seq} grants of {id}, whose seed was shown"));
        }
        let account = expected.accounts.get(&id);
        let Some((account, packet)) = account.and_then(|it| Some((it, packet_of(it)?))) else {
            breaches.push(format!("a seed of {id} was shown, which is no packet"));
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

/// The first share that was granted with another amount than the seed gives it.
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
