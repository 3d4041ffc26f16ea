//! Supply of a campaign, as far as decisions need it. The ledger has titles and published data. A book may have a
//! million campaigns, so it only keeps data that decisions need.

use crate::{
    admission::AdmissionRatio,
    book::Setup,
    campaign::{CampaignKind, Rules, Sale},
    split::{Seed, SplitRule, lazy_amount},
};

/// Supply of a campaign.
#[derive(Debug)]
pub(super) enum CampaignOffer {
    /// A red packet whose shares were drawn when it was created.
    Packet {
        total_minor: i64,
        count: u32,
        amounts: Amounts,
    },
    /// A red packet whose shares are drawn as they are claimed.
    LazyPacket(Box<LazyPacket>),
    /// A flash sale.
    Sale(Sale),
}

#[derive(Debug)]
pub(super) struct LazyPacket {
    total_minor: i64,
    count: u32,
    min_minor: i64,
    seed: Seed,
}

impl CampaignOffer {
    pub(super) fn from_setup(setup: &Setup) -> Self {
        let packet = match &setup.campaign.rules {
            Rules::Sale(sale) => return Self::Sale(*sale),
            Rules::RedPacket(packet) => packet,
        };
        let (total_minor, count) = (packet.split.total(), packet.split.count());
        match packet.split.rule() {
            SplitRule::Lazy { min } => Self::LazyPacket(Box::new(LazyPacket {
                total_minor,
                count,
                min_minor: min,
                seed: packet.seed.clone(),
            })),
            SplitRule::Normal { .. } | SplitRule::DoubleAverage { .. } | SplitRule::Equal => {
                Self::Packet {
                    total_minor,
                    count,
                    amounts: Amounts::new(&setup.shares),
                }
            }
        }
    }

    pub(super) fn kind(&self) -> CampaignKind {
        match self {
            Self::Packet { .. } | Self::LazyPacket(_) => CampaignKind::RedPacket,
            Self::Sale(_) => CampaignKind::Sale,
        }
    }

    pub(super) fn sale(&self) -> Option<&Sale> {
        match self {
            Self::Sale(sale) => Some(sale),
            Self::Packet { .. } | Self::LazyPacket(_) => None,
        }
    }

    pub(super) fn sale_mut(&mut self) -> Option<&mut Sale> {
        match self {
            Self::Sale(sale) => Some(sale),
            Self::Packet { .. } | Self::LazyPacket(_) => None,
        }
    }

    /// Total shares or units.
    pub(super) fn supply(&self) -> u64 {
        match self {
            Self::Packet { count, .. } => (*count).into(),
            Self::LazyPacket(packet) => packet.count.into(),
            Self::Sale(sale) => sale.stock(),
        }
    }

    /// Money in escrow: the total of a red packet; 0 for a sale.
    pub(super) fn funded_minor(&self) -> i64 {
        match self {
            Self::Packet { total_minor, .. } => *total_minor,
            Self::LazyPacket(packet) => packet.total_minor,
            Self::Sale(_) => 0,
        }
    }

    pub(super) fn per_user_limit(&self) -> u32 {
        self.sale().map_or(1, Sale::per_user_limit)
    }

    pub(super) fn admission(&self) -> Option<AdmissionRatio> {
        self.sale().and_then(Sale::admission)
    }

    /// Sets the amounts of shares from number `first` on, if they were drawn before any claim.
    pub(super) fn set_amounts(&mut self, first: u32, shares: &[i64]) {
        if let Self::Packet { amounts, .. } = self {
            *amounts = Amounts::Some(first, shares.into());
        }
    }

    /// Amount of a share that was drawn before any claim.
    pub(super) fn drawn(&self, number: u32) -> Option<i64> {
        match self {
            Self::Packet { amounts, .. } => amounts.get(number),
            Self::LazyPacket(_) | Self::Sale(_) => None,
        }
    }
}

impl LazyPacket {
    /// Amount of share `number`, if `left_minor` remains for `left` shares.
    pub(super) fn amount(&self, number: u32, left_minor: i64, left: u32) -> i64 {
        lazy_amount(
            &self.seed,
            u64::from(number),
            left_minor,
            left,
            self.min_minor,
        )
    }
}

/// Amounts of shares in the order of their numbers, from 1: four bytes each if all fit.
#[derive(Debug)]
pub(super) enum Amounts {
    Short(Box<[u32]>),
    Long(Box<[i64]>),
    /// Amounts of some shares of an excerpt: the first one's number, and the amounts from it on.
    Some(u32, Box<[i64]>),
}

impl Amounts {
    fn new(shares: &[i64]) -> Self {
        match shares.iter().all(|share| u32::try_from(*share).is_ok()) {
            true => Self::Short(shares.iter().map(|share| *share as u32).collect()),
            false => Self::Long(shares.into()),
        }
    }

    /// Amount of an existing share.
    pub(super) fn for_number(&self, number: u32) -> i64 {
        let place = number as usize - 1;
        match self {
            Self::Short(amounts) => amounts[place].into(),
            Self::Long(amounts) => amounts[place],
            Self::Some(first, amounts) => amounts[(number - first) as usize],
        }
    }

    fn get(&self, number: u32) -> Option<i64> {
        let place = (number as usize).checked_sub(1)?;
        match self {
            Self::Short(amounts) => amounts.get(place).copied().map(i64::from),
            Self::Long(amounts) => amounts.get(place).copied(),
            Self::Some(first, amounts) => {
                let place = number.checked_sub(*first)?;
                amounts.get(place as usize).copied()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_what_they_were() {
        let most = i64::from(u32::MAX);
        for shares in [&[1, most, 3][..], &[1, most + 1, 3], &[i64::MAX]] {
            let amounts = Amounts::new(shares);
            let is_short = matches!(amounts, Amounts::Short(_));
            assert_eq!(is_short, shares.iter().all(|share| *share <= most));
            for (number, share) in (1..).zip(shares) {
                let read = (amounts.get(number), amounts.for_number(number));
                assert_eq!(read, (Some(*share), *share));
            }
            let beside = [0, shares.len() as u32 + 1];
            assert_eq!(beside.map(|number| amounts.get(number)), [None; 2]);
        }
    }
}
