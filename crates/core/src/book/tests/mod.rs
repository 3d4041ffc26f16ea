//! Guarantees of a book, in scenarios and in random histories.

mod amounts;
mod cancellations;
mod histories;
mod hold_extensions;
mod orders;
mod phases;
mod recall;
mod returns;

use super::*;
use crate::{
    campaign::{
        AckLevel, Campaign, CampaignError, CampaignKind, Phase, RedPacket, Requirements, Rules,
        Sale, SaleSettingsChange,
    },
    id::{IdempotencyKey, PaymentRef, UserId},
    money::Money,
    order::OrderState,
    payment::ReceivedMoney,
    split::{Seed, Split, SplitRule},
    time::Window,
};

const START: i64 = 1_000_000;
const END: i64 = 2_000_000;
const HOLD: i64 = 60_000;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn id(n: u128) -> CampaignId {
    CampaignId::new(uuid::Uuid::from_u128(
        0x0193_2c07_8e5a_7000_9000_0000_0000_0000 | n,
    ))
    .unwrap()
}

fn campaign(id: CampaignId, rules: Rules) -> Setup {
    let campaign = Campaign {
        id,
        owner: UserId::new("owner").unwrap(),
        title: "test".to_owned(),
        window: Window::new(at(START), at(END)).unwrap(),
        ack: AckLevel::Fsync,
        requirements: Requirements::default(),
        payment_policy: crate::payment::PaymentPolicy::default(),
        created_at: at(0),
        rules,
    };
    Setup {
        shares: campaign.shares(),
        campaign,
    }
}

fn packet(n: u128, total: i64, count: u32, rule: SplitRule) -> Setup {
    let split = Split::new(total, count, rule).unwrap();
    let rules = RedPacket::new(split, "CNY".parse().unwrap(), Seed::from_bytes([7; 32]));
    campaign(id(n), Rules::RedPacket(rules))
}

fn sale(n: u128, stock: u32, limit: u32) -> Setup {
    let price = Money::new(250, "CNY".parse().unwrap());
    campaign(
        id(n),
        Rules::Sale(Sale::new(stock.into(), limit, price, HOLD).unwrap()),
    )
}

/// A book with its log and its clock, and a shadow that replays the log. Both must always be equal.
struct Fixture {
    book: Book,
    shadow: Book,
    log: Vec<Entry>,
    now: i64,
}

impl Fixture {
    fn with(setups: &[Setup]) -> Self {
        let (book, shadow) = (Book::new(), Book::new());
        let mut fixture = Self {
            book,
            shadow,
            log: Vec::new(),
            now: START,
        };
        for setup in setups {
            fixture.shadow.restore(setup.clone());
            fixture
                .apply(Command::Open(Box::new(setup.clone())))
                .unwrap();
        }
        fixture
    }

    fn apply(&mut self, command: Command) -> Result<Reply, Refusal> {
        let before = self.log.len();
        let reply = self.book.apply(at(self.now), &command, &mut self.log);
        self.check(before, &command);
        reply
    }

    fn claim_as(&mut self, claim: &Claim) -> Result<Outcome, Refusal> {
        let before = self.log.len();
        let outcome = self.book.claim(at(self.now), claim, &mut self.log);
        self.check(before, claim);
        outcome
    }

    /// Checks that counters add up, and that the shadow equals the book after it replays the log after `before`.
    fn check(&mut self, before: usize, request: &impl std::fmt::Debug) {
        for entry in &self.log[before..] {
            self.shadow.replay(entry);
        }
        let ids: Vec<_> = self.book.campaigns().collect();
        for id in ids {
            let tally = self.book.tally(at(self.now), id).unwrap();
            assert!(
                tally.conserves(),
                "{request:?} broke conservation: {tally:?}"
            );
            assert_eq!(
                self.shadow.tally(at(self.now), id),
                Some(tally),
                "replay differs after {request:?}"
            );
        }
        assert_eq!(self.book.head(), self.log.len() as u64);
        assert_eq!(
            self.book.next_due(),
            self.shadow.next_due(),
            "agendas differ after {request:?}"
        );
    }

    fn claim(&mut self, setup: &Setup, user: &str) -> Outcome {
        self.claim_with(setup, user, 1, None).unwrap()
    }

    fn claim_with(
        &mut self,
        setup: &Setup,
        user: &str,
        quantity: u32,
        key: Option<&str>,
    ) -> Result<Outcome, Refusal> {
        let claim = Claim {
            campaign: setup.campaign.id,
            kind: setup.campaign.kind(),
            user: UserId::new(user).unwrap(),
            quantity,
            key: key.map(|key| IdempotencyKey::new(key).unwrap()),
        };
        let peeked = self
            .book
            .try_gate_outcome(at(self.now), &claim, self.book.head());
        let outcome = self.claim_as(&claim)?;
        // The book confirms every answer of the gate. If the gate has none, the book grants the claim.
        assert_eq!(peeked.is_some(), !matches!(outcome, Outcome::Granted(_)));
        assert!(peeked.is_none_or(|peeked| peeked == outcome));
        Ok(outcome)
    }

    fn order(&self, setup: &Setup, number: u32) -> OrderId {
        OrderId {
            campaign: setup.campaign.id,
            number,
        }
    }

    fn pay(&mut self, setup: &Setup, number: u32, payment: &str) -> PaymentOutcome {
        self.pay_at(setup, number, payment, None)
    }

    /// Reports a payment now that was made at `paid_at`.
    fn pay_at(
        &mut self,
        setup: &Setup,
        number: u32,
        payment: &str,
        paid_at: Option<i64>,
    ) -> PaymentOutcome {
        let pay = Command::Pay {
            order: self.order(setup, number),
            payment: PaymentRef::new(payment).unwrap(),
            paid_at: paid_at.map(at),
            received: ReceivedMoney::Price,
            cancelled: 0,
        };
        match self.apply(pay).unwrap() {
            Reply::Payment(outcome, _) => outcome,
            reply => panic!("unexpected reply to a payment: {reply:?}"),
        }
    }

    fn act(&mut self, setup: &Setup, action: CampaignAction) -> Result<Reply, Refusal> {
        self.apply(Command::Act {
            campaign: setup.campaign.id,
            action,
        })
    }

    fn tick(&mut self) {
        assert_eq!(
            self.apply(Command::Tick { events_max: 1_000 }),
            Ok(Reply::Ticked { more: false })
        );
    }

    fn tally(&self, setup: &Setup) -> Tally {
        self.book.tally(at(self.now), setup.campaign.id).unwrap()
    }
}

#[test]
fn a_packet_is_emptied_to_the_last_share_and_the_last_minor_unit() {
    let rules = [
        SplitRule::Equal,
        SplitRule::DoubleAverage { min: 1 },
        SplitRule::Normal { min: 5, max: 50 },
        SplitRule::Lazy { min: 2 },
    ];
    for rule in rules {
        let setup = packet(1, 200, 10, rule);
        let mut fixture = Fixture::with(std::slice::from_ref(&setup));
        let mut sum = 0;
        for n in 1..=10 {
            let Outcome::Granted(grant) = fixture.claim(&setup, &format!("user{n}")) else {
                panic!("{rule:?}: {n}")
            };
            assert_eq!(grant.number, n);
            sum += grant.amount_minor;
        }
        assert_eq!(sum, 200, "{rule:?}");
        assert_eq!(
            fixture.claim(&setup, "late"),
            Outcome::SoldOut { remaining: 0 }
        );
        assert_eq!(
            (
                fixture.tally(&setup).granted,
                fixture.tally(&setup).claimed_minor
            ),
            (10, 200)
        );
    }
}

#[test]
fn lazy_shares_are_what_the_split_would_have_been() {
    let setup = packet(1, 1_000, 20, SplitRule::Lazy { min: 3 });
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    let Rules::RedPacket(packet) = &setup.campaign.rules else {
        unreachable!()
    };
    for (n, expected) in packet.split.shares(&packet.seed).into_iter().enumerate() {
        assert_eq!(
            fixture
                .claim(&setup, &format!("u{n}"))
                .grant()
                .unwrap()
                .amount_minor,
            expected
        );
    }
}

#[test]
fn a_user_has_one_share_however_often_and_whatever_is_asked() {
    let setup = packet(1, 100, 5, SplitRule::Equal);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    let Outcome::Granted(first) = fixture.claim_with(&setup, "a", 1, Some("k1")).unwrap() else {
        panic!()
    };
    for (quantity, key) in [(1, None), (1, Some("k1")), (1, Some("k2")), (2, Some("k1"))] {
        assert_eq!(
            fixture.claim_with(&setup, "a", quantity, key),
            Ok(Outcome::AlreadyGranted(first))
        );
    }
    assert_eq!(fixture.tally(&setup).granted, 1);
}

#[test]
fn a_sale_of_several_a_user_replays_by_key_and_stops_at_the_limit() {
    let setup = sale(1, 100, 3);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    let Outcome::Granted(first) = fixture.claim_with(&setup, "a", 2, Some("k1")).unwrap() else {
        panic!()
    };
    assert_eq!(
        (first.number, first.quantity, first.amount_minor),
        (1, 2, 500)
    );
    assert_eq!(
        fixture.claim_with(&setup, "a", 2, Some("k1")),
        Ok(Outcome::AlreadyGranted(first))
    );
    assert_eq!(
        fixture.claim_with(&setup, "a", 1, Some("k1")),
        Err(Refusal::KeyReused)
    );
    assert_eq!(
        fixture.claim_with(&setup, "a", 2, Some("k2")),
        Ok(Outcome::LimitReached { limit: 3, held: 2 })
    );
    let Outcome::Granted(second) = fixture.claim_with(&setup, "a", 1, Some("k3")).unwrap() else {
        panic!()
    };
    assert_eq!(second.number, 2);
    assert_eq!(
        fixture.claim_with(&setup, "a", 2, Some("k1")),
        Ok(Outcome::AlreadyGranted(first))
    );
    assert_eq!(
        fixture.claim(&setup, "a"),
        Outcome::LimitReached { limit: 3, held: 3 }
    );
}

#[test]
fn one_who_asks_for_too_much_does_not_sell_out_everybody() {
    let setup = sale(1, 3, 3);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    assert!(matches!(
        fixture.claim_with(&setup, "a", 2, None),
        Ok(Outcome::Granted(_))
    ));
    assert_eq!(
        fixture.claim_with(&setup, "b", 2, None),
        Ok(Outcome::SoldOut { remaining: 1 })
    );
    assert!(matches!(fixture.claim(&setup, "c"), Outcome::Granted(_)));
    assert_eq!(
        fixture.claim(&setup, "d"),
        Outcome::SoldOut { remaining: 0 }
    );
}

#[test]
fn a_campaign_of_the_other_kind_is_unknown() {
    let setup = sale(1, 3, 1);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    let claim = Claim {
        campaign: setup.campaign.id,
        kind: CampaignKind::RedPacket,
        user: UserId::new("a").unwrap(),
        quantity: 1,
        key: None,
    };
    assert_eq!(fixture.claim_as(&claim), Ok(Outcome::UnknownCampaign));
}

#[test]
fn the_gate_is_silent_about_what_is_not_committed() {
    let setup = packet(1, 100, 1, SplitRule::Equal);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    assert!(matches!(fixture.claim(&setup, "a"), Outcome::Granted(_)));
    let claim = |user: &str| Claim {
        campaign: setup.campaign.id,
        kind: CampaignKind::RedPacket,
        user: UserId::new(user).unwrap(),
        quantity: 1,
        key: None,
    };
    let head = fixture.book.head();
    for user in ["a", "b"] {
        assert_eq!(
            fixture
                .book
                .try_gate_outcome(at(START), &claim(user), head - 1),
            None
        );
        assert!(
            fixture
                .book
                .try_gate_outcome(at(START), &claim(user), head)
                .is_some()
        );
    }
}

#[test]
fn opening_twice_changes_nothing() {
    let setup = packet(1, 100, 5, SplitRule::Equal);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    fixture.claim(&setup, "a");
    let before = fixture.log.len();
    assert_eq!(
        fixture.apply(Command::Open(Box::new(setup.clone()))),
        Ok(Reply::Opened)
    );
    assert_eq!(fixture.log.len(), before);
    assert_eq!(fixture.tally(&setup).granted, 1);
}

/// The entry is decided with the change. A refused change has none.
#[test]
fn change_under_a_key_is_logged_with_its_id() {
    let (mut book, key) = (Book::default(), uuid::Uuid::from_u128(7));
    let setup = sale(1, 10, 1);
    let campaign = setup.campaign.id;
    let mut log = Vec::new();
    let open = Command::Open(Box::new(setup));
    book.apply(at(START), &open, &mut log).unwrap();
    log.clear();
    let act = |action| Command::Act { campaign, action }.keyed(key);
    for action in [CampaignAction::Pause, CampaignAction::Pause] {
        book.apply(at(START), &act(action), &mut log).unwrap();
    }
    let events: Vec<_> = log.iter().map(|entry| entry.event.to_string()).collect();
    let made = format!("change_made {key}");
    assert_eq!(events, ["paused", &made, &made]);
    log.clear();
    let close = act(CampaignAction::Close);
    book.apply(at(START), &close, &mut log).unwrap();
    log.clear();
    let refused = book.apply(at(START), &act(CampaignAction::Resume), &mut log);
    assert!(refused.is_err() && log.is_empty(), "{refused:?}");
}
