//! Answers about campaigns that were evicted: they come from the ledger, and no campaign is reloaded for them. Only
//! payments, cancellations and returns reload a campaign, within a budget in bytes.

use super::*;

/// A closed, settled and evicted campaign, with the answers to its claims and its counters before.
struct Evicted {
    scene: Scene,
    target: Target,
    answers: Vec<Answered>,
    orders: Vec<OrderView>,
    tally: Tally,
}

async fn evicted(builder: Builder, is_sale: bool) -> Evicted {
    let mut scene = Scene::new(here()).await;
    let target = scene.open(builder).await;
    let answers = scene.lead(target, is_sale).await;
    let numbers = if is_sale {
        numbers(&answers)
    } else {
        Vec::new()
    };
    let orders = scene.orders(target, &numbers).await;
    let tally = scene.tally(target).await;
    scene.settle().await;
    assert!(scene.retire(0).await > 0);
    let evicted = Evicted {
        scene,
        target,
        answers,
        orders,
        tally,
    };
    evicted.stays_away("the eviction");
    evicted
}

impl Evicted {
    fn stays_away(&self, what: &str) {
        let keys = self.scene.keys_of(shared().primary(), self.target);
        assert_eq!(keys, [""; 0], "after {what}");
    }

    /// Reads its numbers and sends claims to both nodes. One of them knows the campaign.
    async fn is_answered(&self) {
        let (scene, target) = (&self.scene, self.target);
        for node in &scene.harness.nodes {
            for tally in [
                node.tally(target.id).await,
                node.present_tally(target.id).await,
            ] {
                // The ledger does not count cancelled orders.
                let known = Tally {
                    grants: self.tally.grants,
                    ..tally.unwrap().unwrap()
                };
                assert_eq!(known, self.tally);
            }
            assert_eq!(node.is_paused_throughout(target.id).await, Ok(true));
            self.stays_away("reads of its numbers");
            for (outcome, claim) in [
                (Outcome::Ended, target.one("late")),
                (Outcome::UnknownCampaign, target.mistaken().one("late")),
            ] {
                let late = node.claim(claim).await.unwrap();
                assert_eq!(late.outcome, outcome);
            }
            let nothing = node.claim(target.units("late", 0)).await;
            assert_eq!(nothing, Err(Refusal::NothingAsked.into()));
            self.stays_away("claims of users who have nothing");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_and_claims_of_an_evicted_sale_reload_nothing() {
    for stock in [STOCK - 1, STOCK] {
        let evicted = evicted(sale(stock).hold_ms(HOLD_MS), true).await;
        evicted.is_answered().await;
        let (scene, target) = (&evicted.scene, evicted.target);
        let replayed = replayed(&evicted.answers, &evicted.orders);
        scene.harness.replay(&replayed).await;
        evicted.stays_away("claims of buyers");
        for view in &evicted.orders {
            let number = view.grant.number;
            assert_eq!(scene.order(target, number).await, *view);
        }
        let none = scene.harness.nodes[1].order(target.order(1_000_000)).await;
        assert_eq!(none, Ok(None));
        evicted.stays_away("reads of orders");
        let acted = scene.command(1, close(target)).await;
        assert!(matches!(acted, Ok(Reply::Acted(tally)) if tally.phase == Phase::Closed));
        for (stock, is_same) in [(stock, true), (stock + 1, false)] {
            let change = Command::SetStock {
                campaign: target.id,
                stock: stock.into(),
            };
            let changed = scene.command(1, change).await;
            match is_same {
                true => assert!(matches!(changed, Ok(Reply::Acted(_))), "{changed:?}"),
                false => assert!(
                    matches!(changed, Err(EngineError::Refused(Refusal::Phase(_)))),
                    "{changed:?}"
                ),
            }
        }
        evicted.stays_away("commands of its owner");
        let number = evicted.orders[0].grant.number;
        let paid = scene.command(1, pay(target, number, "first")).await;
        assert!(
            matches!(paid, Ok(Reply::Payment(PaymentOutcome::Paid, _))),
            "{paid:?}"
        );
        assert!(!scene.keys_of(shared().primary(), target).is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_and_claims_of_an_evicted_packet_reload_nothing() {
    let average = SplitRule::DoubleAverage { min: 1 };
    for (shares, split) in [
        (STOCK - 1, average),
        (STOCK, average),
        (STOCK, SplitRule::Lazy { min: 1 }),
    ] {
        let evicted = evicted(red_packet(10_000, shares, split), false).await;
        evicted.is_answered().await;
        evicted.scene.harness.replay(&evicted.answers).await;
        evicted.stays_away("claims of users with shares");
    }
}
