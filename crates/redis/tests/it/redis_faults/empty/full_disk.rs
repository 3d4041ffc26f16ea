//! Redis loses everything, and the disk of its append-only file is full at the same time.

use qiang_testkit::{
    campaign::sale,
    servers::{Ballast, redis::Options as ServerOptions},
};

use super::{SOME, World};
use crate::redis_faults::{
    harness::{blocking, name, open_now, options, wait_for},
    operators::DISK_BYTES,
};

/// Redis refuses writes, also those of a repair, until it can store them. The repair continues once there is room, and
/// nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_is_repaired_once_its_disk_has_room() {
    let servers = ServerOptions::new().fsync_everysec();
    let mut world = World::on(&servers.small_disk(DISK_BYTES), options).await;
    let target = world.open(open_now(sale(SOME)).hold_ms(3_600_000)).await;
    let claims = (0..20).map(|n| target.one(&name(n))).collect();
    let mut answers = world.harness.ask_all(claims).await;
    world.settle_all().await;
    let claims = (20..40).map(|n| target.one(&name(n))).collect();
    answers.extend(world.harness.ask_all(claims).await);
    let folder = world.redis().resources().folder();
    let ballast = blocking(|| Ballast::fill(world.redis().pid(), folder));
    world.flush();
    // The halt is a write, so it may be refused as well.
    world.run();
    wait_for("refused steps", || world.refused("MISCONF") >= 50).await;
    wait_for("no partition", || !world.is_open()).await;
    blocking(|| ballast.remove());
    world.all_open().await;
    world.settling.take().unwrap().abort();
    world.check(target, SOME, 0).await;
    world.harness.replay(&answers).await;
}
