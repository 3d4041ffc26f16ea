//! Corrections of sales whose calls are sent again, because Redis lost all its keys after it carried them out.

use std::sync::Arc;

use qiang_core::{
    book::{Command, Refusal, Reply, SaleCorrection},
    campaign::SaleSettingsChange,
    id::CampaignId,
    ports::{CampaignStore as _, Engine as _, EngineError, EventLog as _, RetireEngine as _},
};
use qiang_embedded::SqliteLedger;
use qiang_redis::RedisOptions;
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, sale},
};
use qiang_worker::settlement::settle_once;
use uuid::Uuid;

use crate::redis_faults::harness::{Harness, open_now, options, shared};

const SHARD_SUPPLY_MIN: u32 = 1_000;

fn correct(campaign: CampaignId, correction: SaleCorrection, id: u128) -> Command {
    let correction = Box::new(correction);
    let command = Command::Correct {
        campaign,
        correction,
    };
    command.keyed(Uuid::from_u128(id))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_correction_that_is_sent_again_is_found_carried_out() {
    let mut harness = Harness::new(RedisOptions {
        shard_supply_min: SHARD_SUPPLY_MIN,
        shards_max: 2,
        ..options(shared().url())
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let ledger = Arc::new(SqliteLedger::open(&path, ManualClock::new(OPENS)).unwrap());
    for node in &harness.nodes {
        node.recall_from(ledger.clone());
    }
    let setups = [100, 2 * SHARD_SUPPLY_MIN].map(|stock| (stock, open_now(sale(stock))));
    for (n, (supply, builder)) in setups.into_iter().enumerate() {
        let target = harness.open(builder).await;
        ledger.create(&harness.setups[n]).await.unwrap();
        let (id, supply) = (target.id, u64::from(supply));
        let tally = harness.nodes[0].present_tally(id).await.unwrap().unwrap();
        let change = SaleSettingsChange {
            unit_price_minor: Some(700),
            ..SaleSettingsChange::default()
        };
        let corrections = [
            SaleCorrection::Stock {
                expected: supply,
                stock: supply + 1,
            },
            SaleCorrection::Terms {
                expected: tally.terms.unwrap(),
                change,
            },
        ];
        for (m, correction) in (0..).zip(corrections) {
            let [first, other] = [10 * n as u128 + m + 1, 10 * n as u128 + m + 101];
            let made = harness
                .submit(0, correct(id, correction.clone(), first))
                .await;
            assert!(matches!(made, Ok(Reply::Acted(_))), "{made:?}");
            for partition in harness.nodes[0].partitions() {
                while settle_once(&harness.nodes[0], &*ledger, partition, 1_000)
                    .await
                    .unwrap()
                    .entries
                    > 0
                {}
            }
            // As after a repair of an empty Redis: the script finds the new values, and no reply is kept.
            let again = harness.nodes[1].submit(correct(id, correction.clone(), first));
            assert_eq!(again.await, made, "{correction:?}");
            // Another caller's correction to the same values is refused.
            let other = harness.nodes[1]
                .submit(correct(id, correction, other))
                .await;
            let changed: Result<Reply, EngineError> = Err(Refusal::Changed.into());
            assert_eq!(other, changed);
        }
        let record = ledger.campaign(id).await.unwrap().unwrap();
        assert_eq!(record.campaign.supply(), supply + 1);
    }
}
