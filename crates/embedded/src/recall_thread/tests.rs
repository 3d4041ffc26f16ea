//! Order of reloads.

use qiang_core::{
    book::{Book, Command},
    ports::Engine as _,
};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, sale},
};

use super::*;
use crate::Embedded;

/// Orders of the interrupted campaign: enough for one interruption.
const ORDERS: u32 = ROWS_AT_ONCE as u32 + 1;

fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future)
}

/// A file with sales that have these numbers of orders.
fn file_with(sales: &[u32]) -> (tempfile::TempDir, Vec<CampaignId>) {
    let folder = tempfile::TempDir::new().unwrap();
    let engine = Embedded::open(&folder.path().join("qiang.db"), ManualClock::new(OPENS)).unwrap();
    let mut ids = Vec::new();
    for (n, orders) in (1..).zip(sales) {
        let setup = sale(100_000).setup(n);
        let target = Target::of(&setup);
        block_on(qiang_core::ports::CampaignStore::create(&engine, &setup)).unwrap();
        block_on(engine.submit(Command::Open(Box::new(setup)))).unwrap();
        let claim = |n| engine.claim(target.one(&format!("user-{n}")));
        let tickets: Vec<_> = (0..*orders).map(claim).collect();
        for ticket in tickets {
            assert!(block_on(ticket).unwrap().outcome.grant().is_some());
        }
        ids.push(target.id);
    }
    let head = engine.positions().0;
    let settled = qiang_core::ports::SettlementStore::await_settled(
        &engine,
        crate::PARTITION,
        head,
        Duration::from_secs(60),
    );
    assert_eq!(block_on(settled), Ok(true));
    engine.close();
    (folder, ids)
}

fn reader(folder: &tempfile::TempDir) -> RecallReader {
    RecallReader {
        path: folder.path().join("qiang.db"),
        shared: Arc::new(EngineShared::new(Book::new())),
        clock: ManualClock::new(OPENS),
    }
}

/// Campaigns that the writer received, in order.
fn received(shared: &EngineShared) -> Vec<CampaignId> {
    let tasks = shared.queue.extract(|_| true);
    let ids = tasks.iter().map(|task| match task {
        WriterTask::Recalled(id, RecallTask::Opened(_)) => *id,
        _ => panic!("it is no campaign"),
    });
    ids.collect()
}

#[test]
fn small_campaigns_do_not_wait_for_large_ones() {
    let (folder, ids) = file_with(&[ORDERS, 3, ORDERS, 5]);
    let reader = reader(&folder);
    let shared = Arc::clone(&reader.shared);
    // The first thread reloads small campaigns and passes large ones on.
    let mut conn = None;
    for id in &ids {
        reader.serve(&mut conn, DeferredRead::Fetch(*id));
    }
    assert_eq!(received(&shared), [ids[1], ids[3]]);
    assert_eq!(shared.recalls.whole(), 2);
    let large = shared.recalls.large.extract(|_| true);
    let rows = |large: &LargeCampaigns| match large {
        LargeCampaigns::Read(rows, errand) => (*rows, errand.campaign()),
        LargeCampaigns::Free(_) => panic!("nothing has left"),
    };
    let large: Vec<_> = large.iter().map(rows).collect();
    let orders = u64::from(ORDERS);
    assert_eq!(large, [(orders, ids[0]), (orders, ids[2])]);
}

#[test]
fn a_large_read_breaks_off_for_a_much_smaller_one() {
    let (folder, ids) = file_with(&[ORDERS, 3, 5]);
    let reader = reader(&folder);
    let shared = Arc::clone(&reader.shared);
    let mut large = LargeReader::new(reader);
    let push = |rows, id| {
        let pushed = shared
            .recalls
            .large
            .push(LargeCampaigns::Read(rows, DeferredRead::Fetch(id)));
        assert!(pushed.is_ok());
    };
    push(8_000, ids[0]);
    assert_eq!(large.take(Duration::ZERO), TakeResult::Tasks);
    // Both arrive during the reload. The second is not much smaller.
    push(1_001, ids[1]);
    push(1_000, ids[2]);
    large.read_up_to(u64::MAX);
    assert_eq!(received(&shared), [ids[2], ids[0], ids[1]]);
}
