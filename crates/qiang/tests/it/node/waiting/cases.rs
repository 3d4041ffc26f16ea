//! The cases that every engine passes.

use std::{sync::Arc, time::Duration};

use qiang_core::{
    book::{CampaignAction, Claim, Command, Refusal, Setup},
    campaign::AckLevel,
    event::PartitionId,
    id::{CampaignId, UserId},
    outcome::Outcome,
    ports::{Clock as _, EngineError, WaitingMonitor},
    queue_entry::{QueueDecision, QueueEntry, QueueLimits, QueueStatus},
    split::SplitRule,
};
use qiang_testkit::campaign::{Target, red_packet, sale, user};
use qiang_worker::waiting::{QueuePorts, QueueProcessor};

use crate::node::waiting::ground::Ground;

pub(crate) const LIMITS: QueueLimits = QueueLimits {
    entries_max: 10_000,
    partition_entries_max: 100_000,
    result_ttl_ms: 600_000,
};
/// Lease of a queue, as deciders use it.
const LEASE: Duration = Duration::from_secs(5);

/// A campaign with a waiting room, on a ground.
pub(crate) struct Line<G> {
    pub(crate) ground: G,
    pub(crate) target: Target,
    monitor: Arc<WaitingMonitor>,
}

impl<G: Ground> Line<G> {
    async fn start(setup: Setup) -> Self {
        Self::on(G::start().await, setup).await
    }

    pub(crate) async fn on(ground: G, setup: Setup) -> Self {
        let (target, ledger) = (Target::of(&setup), ground.ledger());
        ledger.add_waiting_room(target.id).await.unwrap();
        ledger.add_waiting_room(target.id).await.unwrap();
        assert_eq!(ledger.has_waiting_room(target.id).await, Ok(true));
        let other = qiang_testkit::campaign::id(99);
        assert_eq!(ledger.has_waiting_room(other).await, Ok(false));
        let funded = setup.campaign.funded_minor();
        if funded > 0 {
            let amount = qiang_core::money::Money::new(funded, setup.campaign.currency());
            let (id, owner) = (target.id.uuid(), setup.campaign.owner.clone());
            ledger.deposit(id, &owner, amount).await.unwrap();
        }
        ledger.create(&setup).await.unwrap();
        let open = Command::Open(Box::new(setup));
        ground.engine().submit(open).await.unwrap();
        Self {
            ground,
            target,
            monitor: Arc::default(),
        }
    }

    pub(crate) fn id(&self) -> CampaignId {
        self.target.id
    }

    pub(crate) async fn enter(&self, claim: Claim) -> Option<(u64, u64)> {
        self.enter_within(claim, LIMITS).await
    }

    async fn enter_within(&self, claim: Claim, limits: QueueLimits) -> Option<(u64, u64)> {
        let (room, now) = (self.ground.room(), self.ground.clock().now());
        match room.enter(&claim, now, limits).await.unwrap()? {
            QueueStatus::Waiting { number, ahead } => Some((number, ahead)),
            decided @ QueueStatus::Decided { .. } => panic!("{decided:?}"),
        }
    }

    async fn standing(&self, name: &str) -> Option<QueueStatus> {
        let room = self.ground.room();
        room.standing(self.id(), &user(name)).await.unwrap()
    }

    pub(crate) async fn place_of(&self, name: &str) -> QueueEntry {
        let head = self.ground.room().head(self.id(), 10_000).await.unwrap();
        let mut places = head.places.into_iter();
        places.find(|it| it.claim.user == user(name)).unwrap()
    }

    /// Result of a user's queue entry.
    pub(crate) async fn decision(&self, name: &str) -> QueueDecision {
        match self.standing(name).await {
            Some(QueueStatus::Decided { decision, .. }) => decision,
            other => panic!("{name}: {other:?}"),
        }
    }

    async fn outcome(&self, name: &str) -> Outcome {
        match self.decision(name).await {
            QueueDecision::Claimed(outcome, _) => outcome,
            QueueDecision::KeyReused => panic!("{name}: the key is used for another claim"),
        }
    }

    fn ports(&self) -> QueuePorts {
        QueuePorts {
            room: self.ground.room(),
            engine: self.ground.engine(),
            ledger: self.ground.ledger(),
            clock: self.ground.clock().clone(),
            monitor: Arc::clone(&self.monitor),
            limits: LIMITS,
        }
    }

    /// Decides all queue entries that can be decided. Returns their number.
    pub(crate) async fn decide(&self) -> u64 {
        let mut count = 0;
        for partition in self.partitions() {
            let decider = QueueProcessor::new(self.ports(), partition);
            count += decider.decide_all().await.unwrap();
        }
        count
    }

    fn partitions(&self) -> Vec<PartitionId> {
        self.ground.room().partitions()
    }

    /// Campaigns with queue entries that wait.
    async fn lines(&self) -> Vec<CampaignId> {
        let (room, mut lines) = (self.ground.room(), Vec::new());
        for partition in room.partitions() {
            lines.extend(room.lines(partition, LEASE).await.unwrap().campaigns);
        }
        lines
    }

    /// Kills the process and starts another one, which decides all `users` waiting entries. It does so as soon as the
    /// lease of the dead process has ended.
    async fn decide_after_restart(self, users: u64) -> Self {
        let led_at = std::time::Instant::now();
        self.lines().await;
        let line = self.restart().await;
        let mut decided = line.decide().await;
        if led_at.elapsed() < LEASE {
            assert_eq!(decided, if G::LEASED { 0 } else { users });
        }
        while decided < users {
            assert!(led_at.elapsed() < 4 * LEASE, "{decided} are decided");
            tokio::time::sleep(Duration::from_millis(50)).await;
            decided += line.decide().await;
        }
        line
    }

    async fn restart(self) -> Self {
        Self {
            ground: self.ground.restart().await,
            ..self
        }
    }

    async fn act(&self, action: CampaignAction) {
        let campaign = self.id();
        let command = Command::Act { campaign, action };
        self.ground.engine().submit(command).await.unwrap();
    }

    async fn granted(&self) -> u64 {
        let tally = self.ground.engine().tally(self.id()).await.unwrap();
        tally.unwrap().granted
    }
}

pub(crate) fn sold_out() -> QueueDecision {
    QueueDecision::Claimed(Outcome::SoldOut { remaining: 0 }, AckLevel::Memory)
}

pub(crate) async fn a_user_has_one_place_and_keeps_it<G: Ground>() {
    let line = Line::<G>::start(sale(5).limit(5).setup(1)).await;
    let to = line.target;
    assert_eq!(line.standing("a").await, None);
    assert!(line.lines().await.is_empty());
    let (a, none) = line.enter(to.one("a")).await.unwrap();
    assert_eq!(none, 0);
    let (b, one) = line.enter(to.keyed("b", 2, "k")).await.unwrap();
    assert_eq!((one, b > a), (1, true));
    let (c, two) = line.enter(to.one("c")).await.unwrap();
    assert_eq!((two, c > b), (2, true));
    assert_eq!(line.enter(to.units("b", 2)).await, Some((b, 1)));
    // Another key or another quantity means another order. The user cannot queue for it while the first entry waits.
    let (room, now) = (line.ground.room(), line.ground.clock().now());
    for (other, refusal) in [
        (to.keyed("b", 2, "other"), Refusal::WaitsWithAnother),
        (to.keyed("b", 1, "k"), Refusal::KeyReused),
    ] {
        let entered = room.enter(&other, now, LIMITS).await;
        assert_eq!(entered, Err(EngineError::Refused(refusal)), "{other:?}");
    }
    let waiting = |number, ahead| Some(QueueStatus::Waiting { number, ahead });
    assert_eq!(line.standing("c").await, waiting(c, 2));
    assert_eq!(line.lines().await, [line.id()]);
    let head = line.ground.room().head(line.id(), 2).await.unwrap();
    let users: Vec<UserId> = head.places.iter().map(|it| it.claim.user.clone()).collect();
    assert_eq!((head.waiting, users), (3, vec![user("a"), user("b")]));
    assert_eq!(head.places[1].claim, to.keyed("b", 2, "k"));
    assert_eq!(head.places[1].entered_at, line.ground.clock().now());
    // A user may wait in several queues.
    let other = Target {
        id: qiang_testkit::campaign::id(2),
        ..to
    };
    assert_eq!(line.enter(other.one("c")).await.unwrap().1, 0);
    assert_eq!(line.standing("c").await, waiting(c, 2));
}

pub(crate) async fn the_line_is_bounded<G: Ground>() {
    let line = Line::<G>::start(sale(5).setup(1)).await;
    let to = line.target;
    let limits = QueueLimits {
        entries_max: 2,
        partition_entries_max: 3,
        ..LIMITS
    };
    let (a, _) = line.enter_within(to.one("a"), limits).await.unwrap();
    assert!(line.enter_within(to.one("b"), limits).await.is_some());
    assert_eq!(line.enter_within(to.one("c"), limits).await, None);
    assert_eq!(line.standing("c").await, None);
    // A user in the queue is not refused.
    assert_eq!(line.enter_within(to.one("a"), limits).await, Some((a, 0)));
    // The second limit counts all queues of a partition together.
    let tight = QueueLimits {
        entries_max: 9,
        partition_entries_max: 2,
        ..LIMITS
    };
    assert_eq!(line.enter_within(to.one("c"), tight).await, None);
    assert_eq!(line.decide().await, 2);
    assert!(line.enter_within(to.one("c"), tight).await.is_some());
}

pub(crate) async fn what_became_of_a_place_is_kept_for_a_while<G: Ground>() {
    let line = Line::<G>::start(sale(5).setup(1)).await;
    line.enter(line.target.one("a")).await.unwrap();
    line.enter(line.target.one("b")).await.unwrap();
    let (room, now) = (line.ground.room(), line.ground.clock().now());
    let decided = [(line.place_of("a").await, sold_out())];
    room.record(line.id(), &decided, now, LIMITS).await.unwrap();
    assert_eq!(line.decision("a").await, sold_out());
    line.ground.forget("a", LIMITS.result_ttl_ms);
    assert_eq!(line.standing("a").await, None);
    line.lines().await;
    assert!(matches!(
        line.standing("b").await,
        Some(QueueStatus::Waiting { ahead: 0, .. })
    ));
}

pub(crate) async fn a_late_record_changes_no_other_place<G: Ground>() {
    let line = Line::<G>::start(sale(5).setup(1)).await;
    let (room, now) = (line.ground.room(), line.ground.clock().now());
    let (number, _) = line.enter(line.target.one("a")).await.unwrap();
    let first = [(line.place_of("a").await, sold_out())];
    room.record(line.id(), &first, now, LIMITS).await.unwrap();
    // Enters again in the same millisecond, when the queue is empty.
    let (second, _) = line.enter(line.target.one("a")).await.unwrap();
    assert!(second > number);
    room.record(line.id(), &first, now, LIMITS).await.unwrap();
    assert!(matches!(
        line.standing("a").await,
        Some(QueueStatus::Waiting { ahead: 0, .. })
    ));
    assert_eq!(line.lines().await, [line.id()]);
    assert_eq!(line.decide().await, 1);
    assert!(matches!(line.outcome("a").await, Outcome::Granted(_)));
    assert!(line.lines().await.is_empty());
}

pub(crate) async fn places_survive_a_restart<G: Ground>() {
    let line = Line::<G>::start(sale(5).setup(1)).await;
    for name in ["a", "b", "c"] {
        line.enter(line.target.one(name)).await.unwrap();
    }
    let decided = [(line.place_of("a").await, sold_out())];
    let (room, now) = (line.ground.room(), line.ground.clock().now());
    room.record(line.id(), &decided, now, LIMITS).await.unwrap();
    let mut before = Vec::new();
    for name in ["a", "b", "c", "d"] {
        before.push(line.standing(name).await);
    }
    drop(room);
    let line = line.restart().await;
    for (name, before) in ["a", "b", "c", "d"].iter().zip(before) {
        assert_eq!(line.standing(name).await, before, "{name}");
    }
    line.decide_after_restart(2).await;
}

pub(crate) async fn who_came_first_is_decided_first<G: Ground>() {
    const USERS: usize = 700;
    let line = Line::<G>::start(sale(500).limit(3).setup(1)).await;
    let mut numbers = Vec::new();
    for n in 0..USERS {
        let quantity = [1, 3, 2, 1, 1][n % 5];
        let claim = line.target.units(&format!("u{n}"), quantity);
        let (number, ahead) = line.enter(claim).await.unwrap();
        assert_eq!(ahead, n as u64);
        numbers.push(number);
    }
    assert!(numbers.is_sorted());
    let mut count = 0;
    while count < USERS as u64 {
        let decided = line.decide().await;
        assert!(decided > 0, "{count} are decided");
        count += decided;
    }
    let mut left = 500_u64;
    for n in 0..USERS {
        let quantity = [1, 3, 2, 1, 1][n % 5];
        match (
            left.checked_sub(quantity.into()),
            line.outcome(&format!("u{n}")).await,
        ) {
            (Some(rest), Outcome::Granted(grant)) => {
                assert_eq!(grant.quantity, quantity);
                left = rest;
            }
            (None, Outcome::SoldOut { remaining }) => assert_eq!(remaining, left, "u{n}"),
            (_, outcome) => panic!("u{n}: {outcome:?} with {left} left for {quantity}"),
        }
    }
    assert_eq!(line.granted().await, 500 - left);
    assert_eq!(line.monitor.waiting(), (0, None));
}

pub(crate) async fn a_claim_that_was_not_recorded_is_one_order<G: Ground>() {
    let line = Line::<G>::start(sale(10).limit(5).setup(1)).await;
    line.enter(line.target.units("a", 2)).await.unwrap();
    let claim = line.place_of("a").await.keyed_claim();
    let before = line.ground.engine().claim(claim).await.unwrap();
    let Outcome::Granted(grant) = before.outcome else {
        panic!("{before:?}");
    };
    let line = line.decide_after_restart(1).await;
    assert_eq!(line.outcome("a").await, Outcome::AlreadyGranted(grant));
    assert_eq!(line.granted().await, 2);
    // A repetition without a key is a new order.
    line.enter(line.target.units("a", 2)).await.unwrap();
    assert_eq!(line.decide().await, 1);
    assert_eq!(line.granted().await, 4);
}

pub(crate) async fn two_deciders_grant_nothing_twice<G: Ground>() {
    let line = Line::<G>::start(sale(200).limit(9).setup(1)).await;
    for n in 0..150 {
        let claim = line.target.one(&format!("u{n}"));
        line.enter(claim).await.unwrap();
    }
    while !line.lines().await.is_empty() {
        let (a, b) = tokio::join!(line.decide(), line.decide());
        assert!(a + b > 0);
    }
    let mut numbers = Vec::new();
    for n in 0..150 {
        let outcome = line.outcome(&format!("u{n}")).await;
        numbers.push(outcome.grant().unwrap().number);
    }
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!((numbers.len(), line.granted().await), (150, 150));
}

pub(crate) async fn a_pause_lets_wait_and_a_close_answers_all<G: Ground>() {
    let rule = SplitRule::DoubleAverage { min: 1 };
    let line = Line::<G>::start(red_packet(1_000, 5, rule).setup(1)).await;
    line.act(CampaignAction::Pause).await;
    for n in 0..20 {
        line.enter(line.target.one(&format!("u{n}"))).await.unwrap();
    }
    assert_eq!(line.decide().await, 0);
    // Entries that must not be decided are not reported as overdue.
    assert_eq!(line.monitor.waiting(), (20, None));
    line.act(CampaignAction::Resume).await;
    let mut count = 0;
    while count < 20 {
        let decided = line.decide().await;
        assert!(decided > 0);
        count += decided;
    }
    for n in 0..20 {
        let outcome = line.outcome(&format!("u{n}")).await;
        assert_eq!(outcome.grant().is_some(), n < 5, "u{n}: {outcome:?}");
    }
    line.ground.clock().advance(1);
    let second = Line::on(line.ground, sale(50).setup(2)).await;
    second.act(CampaignAction::Pause).await;
    for n in 0..20 {
        second
            .enter(second.target.one(&format!("u{n}")))
            .await
            .unwrap();
    }
    second.act(CampaignAction::Close).await;
    assert_eq!(second.decide().await, 20);
    for n in 0..20 {
        assert_eq!(second.outcome(&format!("u{n}")).await, Outcome::Ended);
    }
}

pub(crate) async fn who_waits_when_stock_ends_hears_so_at_once<G: Ground>() {
    const USERS: u64 = 3_000;
    let line = Arc::new(Line::<G>::start(sale(7).setup(1)).await);
    let entering = (0..USERS).map(|n| {
        let line = &line;
        async move { line.enter(line.target.one(&format!("u{n}"))).await.unwrap() }
    });
    let mut numbers: Vec<u64> = Vec::new();
    for (number, _) in futures(entering).await {
        numbers.push(number);
    }
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len() as u64, USERS);
    let began = std::time::Instant::now();
    let mut count = 0;
    while count < USERS {
        count += line.decide().await;
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "{count} are decided"
        );
    }
    assert_eq!(line.granted().await, 7);
    let decided = line.monitor.decisions();
    let decided: Vec<_> = decided.filter(|(_, count)| *count > 0).collect();
    assert_eq!(decided, [("sold_out", USERS - 7), ("granted", 7)]);
    // A user who was refused may enter again.
    let name = format!("u{}", first_refused(&line, USERS).await);
    line.enter(line.target.one(&name)).await.unwrap();
}

async fn first_refused<G: Ground>(line: &Line<G>, users: u64) -> u64 {
    for n in 0..users {
        if line.outcome(&format!("u{n}")).await.grant().is_none() {
            return n;
        }
    }
    panic!("no user was refused");
}

/// Awaits all futures concurrently.
async fn futures<T>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut waiting: Vec<_> = all.map(Box::pin).map(Some).collect();
    let mut done: Vec<Option<T>> = waiting.iter().map(|_| None).collect();
    std::future::poll_fn(move |context| {
        for (slot, result) in waiting.iter_mut().zip(&mut done) {
            if let Some(future) = slot
                && let std::task::Poll::Ready(value) = future.as_mut().poll(context)
            {
                (*slot, *result) = (None, Some(value));
            }
        }
        match done.iter().all(Option::is_some) {
            true => std::task::Poll::Ready(done.drain(..).flatten().collect()),
            false => std::task::Poll::Pending,
        }
    })
    .await
}

pub(crate) async fn units_that_come_back_go_to_who_waits<G: Ground>() {
    let line = Line::<G>::start(sale(1).setup(1)).await;
    line.enter(line.target.one("a")).await.unwrap();
    assert_eq!(line.decide().await, 1);
    line.enter(line.target.one("b")).await.unwrap();
    line.enter(line.target.one("c")).await.unwrap();
    let order = line.target.order(1);
    let cancel = Command::Cancel { order, part: None };
    line.ground.engine().submit(cancel).await.unwrap();
    assert_eq!(line.decide().await, 2);
    assert!(matches!(line.outcome("b").await, Outcome::Granted(_)));
    assert!(matches!(line.outcome("c").await, Outcome::SoldOut { .. }));
}

pub(crate) async fn a_key_that_was_used_is_told<G: Ground>() {
    let line = Line::<G>::start(sale(10).limit(5).setup(1)).await;
    line.enter(line.target.keyed("a", 2, "k")).await.unwrap();
    assert_eq!(line.decide().await, 1);
    line.enter(line.target.keyed("a", 2, "k")).await.unwrap();
    assert_eq!(line.decide().await, 1);
    assert!(matches!(
        line.outcome("a").await,
        Outcome::AlreadyGranted(_)
    ));
    line.enter(line.target.keyed("a", 1, "k")).await.unwrap();
    assert_eq!(line.decide().await, 1);
    assert_eq!(line.decision("a").await, QueueDecision::KeyReused);
    assert_eq!(line.granted().await, 2);
}
