//! Logs to settle, decided by the book.

use std::sync::Arc;

use qiang_core::{
    book::{Book, Command, Setup},
    event::{Entry, Event, PartitionId, Seq},
    id::PaymentRef,
    money::Money,
    payment::ReceivedMoney,
    ports::Ledger,
    split::SplitRule,
};
use qiang_testkit::{
    campaign::{HOLD_MS, OPEN_MS, OPENS, OWNER, Target, currency, red_packet, sale, user},
    histories::Request,
};
use uuid::Uuid;

/// A red packet and a sale of one partition, and their log.
pub(crate) struct History {
    pub(crate) partition: PartitionId,
    pub(crate) setups: [Setup; 2],
    pub(crate) log: Vec<Entry>,
}

impl History {
    /// Makes a history in which `users` users claim from both campaigns, in an order that differs per partition. Orders
    /// take every possible course. In the end both campaigns are closed.
    pub(crate) fn of(partition: u16, users: u32) -> Self {
        let n = u64::from(partition);
        let packet = red_packet(
            i64::from(users) * 50,
            users,
            SplitRule::DoubleAverage { min: 1 },
        );
        let setups = [packet.setup(2 * n + 1), sale(users).setup(2 * n + 2)];
        let [packet, sale] = [Target::of(&setups[0]), Target::of(&setups[1])];
        let (mut book, mut log) = (Book::new(), Vec::new());
        let mut ask = |at, request: Request| match request {
            Request::Claim(claim) => drop(book.claim(at, &claim, &mut log).unwrap()),
            Request::Command(command) => drop(book.apply(at, &command, &mut log).unwrap()),
        };
        for setup in &setups {
            ask(OPENS, Command::Open(Box::new(setup.clone())).into());
        }
        // A step that is coprime to the number of users visits each user once.
        let step = (1..)
            .map(|k| 2 * n as u32 + 2 * k + 1)
            .find(|step| gcd(*step, users) == 1)
            .unwrap();
        let pay = |number: u32, payment: &str| Command::Pay {
            order: sale.order(number),
            payment: PaymentRef::new(payment).unwrap(),
            paid_at: None,
            received: ReceivedMoney::Price,
            cancelled: 0,
        };
        for number in 1..=users {
            let name = format!(
                "user-{:05}",
                (u64::from(number) * u64::from(step)) % u64::from(users)
            );
            let at = OPENS.plus_millis(i64::from(number));
            if number % 4 > 0 {
                ask(at, packet.one(&name).into());
            }
            ask(at, sale.one(&name).into());
            match number % 5 {
                0 => ask(at, pay(number, "first").into()),
                1 => {
                    let order = sale.order(number);
                    ask(at, Command::Cancel { order, part: None }.into());
                }
                _ => {}
            }
            if number % 10 == 0 {
                ask(at, pay(number, "second").into());
            }
        }
        let expired = OPENS.plus_millis(i64::from(users) + HOLD_MS);
        let events_max = 1_000_000;
        ask(expired, Command::Tick { events_max }.into());
        for number in (2..=users).step_by(5) {
            ask(expired, pay(number, "late").into());
        }
        let closed = OPENS.plus_millis(OPEN_MS);
        ask(closed, Command::Tick { events_max }.into());
        Self {
            partition: PartitionId(partition),
            setups,
            log,
        }
    }

    /// Users with shares, in the order in which accounts are locked.
    pub(crate) fn lucky(&self) -> Vec<String> {
        let packet = self.setups[0].campaign.id;
        let user = |entry: &Entry| match &entry.event {
            Event::Granted { user, .. } if entry.campaign == packet => {
                Some(user.as_str().to_owned())
            }
            _ => None,
        };
        let mut lucky: Vec<_> = self.log.iter().filter_map(user).collect();
        lucky.sort();
        lucky
    }

    pub(crate) fn head(&self) -> Seq {
        self.log.len() as Seq
    }

    /// Enters the campaigns and deposits the money that they need.
    pub(crate) async fn enter(&self, ledger: &Arc<dyn Ledger>) {
        for (setup, n) in self.setups.iter().zip(0_u128..) {
            let minor = setup.campaign.funded_minor();
            if minor > 0 {
                let id = Uuid::from_u128(u128::from(self.partition.0) * 10 + n);
                let money = Money::new(minor, currency());
                ledger.deposit(id, &user(OWNER), money).await.unwrap();
            }
            ledger.create(setup).await.unwrap();
        }
    }

    /// Settles the rest of the log in runs of `run` entries.
    pub(crate) async fn settle(&self, ledger: &Arc<dyn Ledger>, run: usize) {
        let settled = ledger.settled(self.partition).await.unwrap();
        for run in self.log[settled as usize..].chunks(run) {
            ledger.settle(self.partition, run).await.unwrap();
        }
        assert_eq!(ledger.settled(self.partition).await, Ok(self.head()));
    }

    /// Asserts that the ledger has, per campaign, the granted and returned units of the log.
    pub(crate) async fn check(&self, ledger: &Arc<dyn Ledger>) {
        let mut book = Book::new();
        for setup in &self.setups {
            book.restore(setup.clone());
        }
        for entry in &self.log {
            book.replay(entry);
        }
        for setup in &self.setups {
            let id = setup.campaign.id;
            let tally = book.tally(self.log.last().unwrap().at, id).unwrap();
            let record = ledger.campaign(id).await.unwrap().unwrap();
            assert_eq!(
                (record.granted, record.returned),
                (tally.granted, tally.returned)
            );
            assert_eq!(
                (record.refunded_minor, record.phase),
                (tally.refunded_minor, tally.phase)
            );
        }
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}
