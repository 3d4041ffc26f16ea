//! Entries of a closed sale are deleted from the log before they are settled: late payments and returns. The repair
//! restores them, although the sale has no due work and is closed in the ledger.

use qiang_core::{
    book::{PaymentOutcome, Reply},
    id::PaymentRef,
    payment::ReceivedMoney,
    ports::PayoutStore as _,
};

use super::{log_gap::Fault, *};

/// Orders of the sale, all paid. Every other one is returned after the close, and the others are paid again.
const ORDERS: u32 = 16;

impl World {
    /// Pays all orders of the sale on a node, closes the sale, and settles that. Returns the orders' numbers.
    async fn close_sale(&self, node: &RedisEngine) -> Vec<u32> {
        let mut numbers = Vec::new();
        for n in 0..ORDERS {
            numbers.push(self.buy(&format!("payer-{n}")).await);
        }
        for number in &numbers {
            let paid = self.pay_by(node, *number, "first").await;
            assert_eq!(paid, PaymentOutcome::Paid);
        }
        let (campaign, action) = (self.sale.id, CampaignAction::Close);
        let close = Command::Act { campaign, action };
        assert!(node.submit(close).await.is_ok());
        self.settle().await;
        let record = self.ledger.campaign(campaign).await.unwrap().unwrap();
        assert_eq!(record.phase, Phase::Closed);
        for partition in self.harness.nodes[0].partitions() {
            let node = &self.harness.nodes[0];
            let live = node.live_campaigns(partition, &*self.ledger).await.unwrap();
            assert!(!live.contains(&campaign), "{partition:?}");
        }
        numbers
    }

    /// Returns every other order on a node, and pays the others again.
    async fn make_late_steps(&self, node: &RedisEngine, numbers: &[u32]) {
        for (n, number) in numbers.iter().enumerate() {
            let order = self.order(*number);
            if n % 2 == 0 {
                let done = node.submit(Command::Return { order, part: None }).await;
                assert!(matches!(done, Ok(Reply::Returned(_))), "{done:?}");
                continue;
            }
            let paid = self.pay_by(node, *number, "second").await;
            assert_eq!(paid, PaymentOutcome::RefundDue);
        }
    }

    /// Reports a payment of an order on a node.
    async fn pay_by(&self, node: &RedisEngine, number: u32, name: &str) -> PaymentOutcome {
        let command = Command::Pay {
            order: self.order(number),
            payment: PaymentRef::new(&format!("{name}-{number}")).unwrap(),
            paid_at: None,
            received: ReceivedMoney::Price,
            cancelled: 0,
        };
        match node.submit(command).await {
            Ok(Reply::Payment(outcome, _)) => outcome,
            other => panic!("{other:?}"),
        }
    }

    /// Checks that one price is due as a refund for every order of the sale, and that the steps are settled.
    async fn check_late_steps(&self, numbers: &[u32]) {
        for number in numbers {
            let owed = self.ledger.owed(self.order(*number)).await.unwrap();
            let due: Vec<i64> = owed.iter().map(|it| it.due.minor).collect();
            assert_eq!(due, [1], "order {number}");
        }
        for partition in self.harness.nodes[0].partitions() {
            let node = &self.harness.nodes[0];
            let found = node.differences(partition, self.sale.id, &*self.ledger);
            assert_eq!(found.await.unwrap(), [], "{partition:?}");
        }
        let record = self.ledger.campaign(self.sale.id).await.unwrap().unwrap();
        assert_eq!(record.granted + record.returned, u64::from(SUPPLY));
        let balances = self.ledger.balances(&user(OWNER)).await.unwrap();
        assert_eq!(balances[0].available.minor, i64::from(ORDERS) / 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_steps_of_a_closed_sale_deleted_from_the_log_are_restored() {
    for is_spread in [false, true] {
        for fault in [Fault::DeleteLog, Fault::DeleteRecord] {
            println!("{fault:?}, spread: {is_spread}");
            let world = World::unbroken(is_spread).await;
            // A node that has stopped gives the repair no answers.
            let options = &world.harness.options;
            let other = crate::redis_faults::harness::node(options, &[]).await;
            let numbers = world.close_sale(&other).await;
            world.make_late_steps(&other, &numbers).await;
            other.close().await;
            let broken = world.break_logs(fault).await;
            assert!(!is_spread || broken.len() == TAGS.len());
            let settling = world.settling();
            world.repaired_again(&broken).await;
            settling.abort();
            drop(settling.await);
            world.settle().await;
            world.check_late_steps(&numbers).await;
            world.check_complete().await;
        }
    }
}

/// Steps are deleted from the log. Before settlement finds that, a failover loses later ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_steps_of_a_closed_sale_are_restored_by_the_repair_of_a_loss() {
    let world = World::unbroken(false).await;
    let node = &world.harness.nodes[0];
    let numbers = world.close_sale(node).await;
    let (deleted, lost) = numbers.split_at(numbers.len() / 2);
    world.make_late_steps(node, deleted).await;
    world.break_logs(Fault::DeleteLog).await;
    blocking(|| world.servers.wait_for_replicas());
    detach_replicas(world.servers.primary());
    world.make_late_steps(node, lost).await;
    let from = Instant::now();
    world.fail_over();
    world.repaired(from).await;
    world.settle().await;
    world.check_late_steps(&numbers).await;
}
