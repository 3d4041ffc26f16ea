//! A node subscribes to invalidations on the server that gets its calls: the first of several that answers.

use std::time::Duration;

use qiang_redis::{RedisEngine, RedisOptions};
use qiang_testkit::servers::{
    Port,
    redis::{Options as ServerOptions, Standalone},
    wait_for,
};

#[tokio::test(flavor = "multi_thread")]
async fn invalidations_come_from_the_second_url_when_the_first_is_dead() {
    let nobody = Port::free();
    let server = Standalone::start(&ServerOptions::new());
    let options = RedisOptions {
        urls: vec![format!("redis://{}", nobody.addr()), server.url()],
        partitions: 1,
        ..RedisOptions::default()
    };
    let engine = RedisEngine::connect(options, &[]).await.unwrap();
    wait_for("a node to subscribe", Duration::from_secs(10), || {
        let patterns = server.primary().call(&["PUBSUB", "NUMPAT"]).unwrap();
        (patterns.integer() == Some(1)).then_some(())
    });
    engine.close().await;
}
