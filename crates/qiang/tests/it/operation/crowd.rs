//! Users who buy continuously during an operation on the service.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::common::{Reply, call};
use crate::operation::program::{token, until};

/// Concurrent tasks. Each task has one user buy after another.
const AT_A_TIME: usize = 4;
/// Least number of purchases between two operations.
const SOME: usize = 60;

/// Buys a unit for a user.
pub(crate) async fn buy(addr: SocketAddr, sale: &str, user: &str) -> Reply {
    let path = format!("/v1/sales/{sale}/orders");
    call(addr, "POST", &path, Some(&token(user)), &[], None).await
}

/// The state of a user's order.
pub(crate) async fn state(addr: SocketAddr, user: &str, order: &str) -> String {
    let path = format!("/v1/orders/{order}");
    let reply = call(addr, "GET", &path, Some(&token(user)), &[], None).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.text("state")
}

/// Users who buy until they are stopped, and the orders of their answers.
pub(crate) struct Crowd {
    orders: Arc<Mutex<BTreeMap<String, String>>>,
    is_over: Arc<AtomicBool>,
    nodes: Arc<Mutex<Vec<SocketAddr>>>,
    buying: Vec<JoinHandle<()>>,
}

impl Crowd {
    /// Starts users who buy from these nodes.
    pub(crate) fn start(nodes: Vec<SocketAddr>, sale: &str) -> Self {
        let (orders, is_over) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let nodes = Arc::new(Mutex::new(nodes));
        let buying = (0..AT_A_TIME).map(|place| {
            let (orders, is_over) = (Arc::clone(&orders), Arc::clone(&is_over));
            let (nodes, sale) = (Arc::clone(&nodes), sale.to_owned());
            tokio::spawn(async move {
                for number in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let user = format!("buyer-{place}-{number}");
                    let addr = {
                        let nodes = nodes.lock();
                        nodes[number % nodes.len()]
                    };
                    let reply = buy(addr, &sale, &user).await;
                    assert_eq!(reply.status, 201, "{reply:?}");
                    let orders: &Mutex<BTreeMap<_, _>> = &orders;
                    orders.lock().insert(user, reply.text("id"));
                }
            })
        });
        Self {
            buying: buying.collect(),
            orders,
            is_over,
            nodes,
        }
    }

    /// Sends all later purchases to these nodes.
    pub(crate) fn send_to(&self, nodes: Vec<SocketAddr>) {
        *self.nodes.lock() = nodes;
    }

    /// Waits for some more purchases, and returns all orders.
    pub(crate) async fn some_more(&self) -> BTreeMap<String, String> {
        let before = self.orders.lock().len();
        let more = async || (self.orders.lock().len() >= before + SOME).then_some(());
        until("no user buys", more).await;
        self.orders.lock().clone()
    }

    /// Lets each purchase finish, and returns all orders.
    pub(crate) async fn stop(self) -> BTreeMap<String, String> {
        self.is_over.store(true, Ordering::Relaxed);
        for buying in self.buying {
            buying.await.unwrap();
        }
        std::mem::take(&mut *self.orders.lock())
    }
}
