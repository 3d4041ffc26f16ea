//! Queue of answers that wait for the ledger: grants with the acknowledgement level `ledger`. Each waits until its own
//! entry is settled, at most for a bounded time.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    time::{Duration, Instant},
};

use qiang_core::{
    book::Book,
    campaign::AckLevel,
    event::Seq,
    fair_share::{FairShares, OwnerDigest},
    id::CampaignId,
    outcome::{Grant, Outcome},
    ports::{Claimed, EngineError, ReplySender},
};

use super::Writer;
use crate::grant_positions::{AckAndOwner, Place, place_of};

/// Maximum unsettled grants of campaigns with the level `ledger`: about 20 MiB. One owner has at most half of them,
/// and one campaign a quarter. After a rebuild there may be more.
const PLACES_MAX: usize = 262_144;

/// Position of the awaited entry and a serial number, which keeps answers for the same entry apart.
type Key = (Seq, u64);

pub(super) struct LedgerAckQueue {
    /// Unsettled grants that the ledger must confirm. A grant that is missing here is settled.
    places: HashMap<(CampaignId, u32), Seq>,
    /// The same grants in log order: position, campaign and number.
    in_order: VecDeque<(Seq, CampaignId, u32)>,
    waiting: BTreeMap<Key, (ReplySender<Claimed>, Outcome)>,
    /// Deadlines of the waiting answers, in order of arrival.
    until: VecDeque<(Instant, Key)>,
    /// Number of answers that have ever waited.
    pub(super) total: u64,
    /// Campaigns of this batch's claims whose answers may have to wait.
    expected: Vec<CampaignId>,
    /// Waiting and expected answers by campaign.
    waits: FairShares<CampaignId>,
    /// Unsettled and expected grants by campaign.
    unsettled: FairShares<CampaignId>,
    wait_max: Duration,
}

impl LedgerAckQueue {
    pub(super) fn new(waiting_max: usize, wait_max: Duration, places: Vec<Place>) -> Self {
        let mut parked = Self {
            places: HashMap::new(),
            in_order: VecDeque::new(),
            waiting: BTreeMap::new(),
            until: VecDeque::new(),
            total: 0,
            expected: Vec::new(),
            waits: FairShares::new(waiting_max),
            unsettled: FairShares::new(PLACES_MAX),
            wait_max,
        };
        parked.replace(places);
        parked
    }

    /// Replaces the known grants: `places` are all unsettled grants that the ledger must confirm.
    pub(super) fn replace(&mut self, places: Vec<Place>) {
        self.begin();
        self.places.clear();
        self.in_order.clear();
        self.unsettled.clear();
        self.add(places);
    }

    fn add(&mut self, places: impl IntoIterator<Item = Place>) {
        for place in places {
            let Place {
                seq,
                campaign,
                owner,
                number,
            } = place;
            self.places.insert((campaign, number), seq);
            self.unsettled.take(campaign, Some(owner), 1);
            self.in_order.push_back((seq, campaign, number));
        }
    }

    fn place(&self, grant: &Grant) -> Option<Seq> {
        self.places.get(&(grant.campaign, grant.number)).copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Starts a batch and releases the reserved room of the last one.
    pub(super) fn begin(&mut self) {
        for campaign in self.expected.drain(..) {
            self.waits.leave(&campaign, 1);
            self.unsettled.leave(&campaign, 1);
        }
    }

    /// Reserves room for the answer to a claim, if the shares of its campaign and its owner have some.
    pub(super) fn expect(&mut self, campaign: CampaignId, owner: OwnerDigest) -> bool {
        if !self.waits.enter(campaign, Some(owner), 1) {
            return false;
        }
        if !self.unsettled.enter(campaign, Some(owner), 1) {
            self.waits.leave(&campaign, 1);
            return false;
        }
        self.expected.push(campaign);
        true
    }

    /// Whether an outcome needs no room, because it is fully settled.
    pub(super) fn is_settled(&self, outcome: &Outcome) -> bool {
        outcome
            .grant()
            .is_none_or(|grant| self.place(grant).is_none())
    }

    /// Queues an answer of a campaign of this owner. Returns it if the grant's entry is settled.
    pub(super) fn park(
        &mut self,
        answer: ReplySender<Claimed>,
        outcome: Outcome,
        owner: OwnerDigest,
    ) -> Option<ReplySender<Claimed>> {
        let grant = outcome.grant();
        let Some((seq, campaign)) = grant.and_then(|it| Some((self.place(it)?, it.campaign)))
        else {
            return Some(answer);
        };
        self.waits.take(campaign, Some(owner), 1);
        let key = (seq, self.total);
        self.total += 1;
        self.until.push_back((Instant::now() + self.wait_max, key));
        self.waiting.insert(key, (answer, outcome));
        None
    }

    /// Removes the settled grants and returns the answers that waited for them.
    fn settled(&mut self, upto: Seq) -> Vec<(ReplySender<Claimed>, Outcome)> {
        while let Some((_, campaign, number)) = self.in_order.pop_front_if(|place| place.0 <= upto)
        {
            self.places.remove(&(campaign, number));
            self.unsettled.leave(&campaign, 1);
        }
        let mut settled = Vec::new();
        while let Some(first) = self.waiting.first_entry()
            && first.key().0 <= upto
        {
            let (answer, outcome) = first.remove();
            leave(&mut self.waits, &outcome);
            settled.push((answer, outcome));
        }
        let waiting = &self.waiting;
        while self
            .until
            .pop_front_if(|(_, key)| !waiting.contains_key(key))
            .is_some()
        {}
        settled
    }

    /// Answers the grants whose deadline is over.
    pub(super) fn expire(&mut self) {
        if self.until.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some((_, key)) = self.until.pop_front_if(|(until, _)| *until <= now) {
            if let Some((answer, outcome)) = self.waiting.remove(&key) {
                leave(&mut self.waits, &outcome);
                let reason = "the ledger has not confirmed it in time";
                answer.send(Err(EngineError::uncertain(reason)));
            }
        }
    }

    /// Answers all waiting grants as uncertain: it is unknown whether they are kept.
    pub(super) fn fail(&mut self, reason: &str) {
        self.until.clear();
        self.begin();
        self.waits.clear();
        for (_, (answer, _)) in std::mem::take(&mut self.waiting) {
            answer.send(Err(EngineError::uncertain(reason)));
        }
    }
}

/// Releases the room of an answer.
fn leave(waits: &mut FairShares<CampaignId>, outcome: &Outcome) {
    if let Some(grant) = outcome.grant() {
        waits.leave(&grant.campaign, 1);
    }
}

impl Writer {
    /// Adds the entries of the current commit that are grants to be confirmed by the ledger.
    pub(super) fn note_places(&mut self) {
        if self.parked.expected.is_empty() {
            return;
        }
        let book = self.shared.book.read();
        for entry in &self.entries {
            let known = || ack_of(&book, entry.campaign, &mut self.last_ack);
            self.parked.add(place_of(entry, known));
        }
    }

    /// Answers the grants that are settled.
    pub(super) fn answer_settled(&mut self) {
        for (answer, outcome) in self.parked.settled(self.settled) {
            answer.send(self.in_ledger(outcome));
        }
    }
}

/// The last campaign that was looked up, with its acknowledgement level and owner.
pub(super) type LastAck = Option<(CampaignId, (AckLevel, OwnerDigest))>;

/// Acknowledgement level of a campaign, and its owner. Remembers the last campaign, because most claims of a batch are
/// for the same one.
pub(super) fn ack_of(book: &Book, id: CampaignId, last: &mut LastAck) -> AckAndOwner {
    if let Some((_, known)) = last.filter(|(last, _)| *last == id) {
        return Some(known);
    }
    let known = book.ack_and_owner(id)?;
    *last = Some((id, known));
    Some(known)
}

#[cfg(test)]
mod tests {
    use qiang_core::{id::UserId, ports::PendingReply, time::Timestamp};

    use super::*;

    const AT: Timestamp = Timestamp::from_millis(0);

    fn id() -> CampaignId {
        "0190b6b1-0000-7000-8000-000000000000".parse().unwrap()
    }

    fn grant(number: u32) -> Outcome {
        Outcome::Granted(Grant {
            campaign: id(),
            number,
            quantity: 1,
            amount_minor: 1,
            granted_at: AT,
            order: None,
        })
    }

    fn owner(name: &str) -> OwnerDigest {
        OwnerDigest::of(&UserId::new(name).unwrap())
    }

    /// Unsettled: grant 1 in entry 11, grant 2 in entry 12, both of a campaign of the owner `a`.
    fn parked(waiting_max: usize, wait_max: Duration) -> LedgerAckQueue {
        let place = |(seq, number)| Place {
            seq,
            campaign: id(),
            owner: owner("a"),
            number,
        };
        let places = [(11, 1), (12, 2)].map(place).into();
        LedgerAckQueue::new(waiting_max, wait_max, places)
    }

    fn park(parked: &mut LedgerAckQueue, number: u32) -> (bool, PendingReply<Claimed>) {
        let (answer, ticket) = PendingReply::new();
        let parked = parked.park(answer, grant(number), owner("a"));
        (parked.is_none(), ticket)
    }

    #[test]
    fn each_waits_for_its_own_entry() {
        let mut parked = parked(9, Duration::from_secs(3_600));
        let waits = [2, 1, 2, 3].map(|number| park(&mut parked, number));
        assert_eq!(waits.map(|(waits, _)| waits), [true, true, true, false]);
        let settled = |parked: &mut LedgerAckQueue, upto| {
            let settled = parked.settled(upto).into_iter();
            let numbers = settled.map(|(_, outcome)| outcome.grant().map(|grant| grant.number));
            numbers.flatten().collect::<Vec<_>>()
        };
        assert_eq!(settled(&mut parked, 10), []);
        assert_eq!(settled(&mut parked, 11), [1]);
        assert!(!parked.is_empty() && parked.is_settled(&grant(1)));
        assert_eq!(settled(&mut parked, 20), [2, 2]);
        assert!(parked.is_empty() && parked.until.is_empty() && parked.places.is_empty());
    }

    /// Number of answers of an owner's campaign that fit into a batch.
    fn expected(parked: &mut LedgerAckQueue, campaign: CampaignId, name: &str) -> usize {
        std::iter::repeat_with(|| parked.expect(campaign, owner(name)))
            .take_while(|fits| *fits)
            .count()
    }

    #[test]
    fn rooms_and_waits_are_bounded() {
        let mut parked = parked(8, Duration::ZERO);
        parked.begin();
        assert_eq!(expected(&mut parked, id(), "a"), 2);
        let (waits, _) = park(&mut parked, 1);
        assert!(waits);
        parked.begin();
        assert_eq!(expected(&mut parked, id(), "a"), 1);
        parked.expire();
        assert!(parked.is_empty() && !parked.is_settled(&grant(1)));
        parked.begin();
        assert_eq!(expected(&mut parked, id(), "a"), 2);
    }

    /// Answers of one campaign leave room for those of another one of the same owner, and answers of one owner for
    /// those of another, however many wait, before and after settlement.
    #[test]
    fn campaigns_and_owners_have_shares_of_the_room() {
        let of = |n: u32| format!("0190b6b1-0000-7000-8000-00000000000{n}");
        let [second, third, other] = [1, 2, 3].map(|n| of(n).parse().unwrap());
        let mut parked = parked(32, Duration::from_secs(3_600));
        for number in [1, 2, 1, 2, 1, 2, 1, 2] {
            assert!(park(&mut parked, number).0);
        }
        let fill = |parked: &mut LedgerAckQueue| {
            [(id(), "a"), (second, "a"), (third, "a"), (other, "b")]
                .map(|(campaign, name)| expected(parked, campaign, name))
        };
        parked.begin();
        assert_eq!(fill(&mut parked), [0, 4, 2, 5]);
        parked.begin();
        assert_eq!(parked.settled(12).len(), 8);
        assert_eq!(fill(&mut parked), [8, 4, 2, 5]);
        parked.fail("no");
        assert_eq!(expected(&mut parked, other, "b"), 8);
    }
}
