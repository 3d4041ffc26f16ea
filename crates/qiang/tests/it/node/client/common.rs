//! A service in this process, and clients of it.

use std::net::SocketAddr;

use qiang_client::{Builder, Client, Error, Money, NewSale};

pub(crate) use crate::node::http::common::*;

pub(crate) fn builder(addr: SocketAddr) -> Builder {
    Client::builder(&format!("http://{addr}"))
}

impl Service {
    /// A client with every scope.
    pub(crate) fn client(&self) -> Client {
        let token = self.operator();
        builder(self.addr).token(token).build().unwrap()
    }

    /// The same client for a user.
    pub(crate) fn as_user(&self, client: &Client, user: &str) -> Client {
        client.with_token(&self.token(user, "claim send")).unwrap()
    }
}

pub(crate) fn yuan(amount: i64) -> Money {
    Money::new(amount, "CNY".parse().unwrap())
}

pub(crate) fn new_sale(stock: u64) -> NewSale {
    NewSale::new("phones", stock, yuan(500))
}

#[track_caller]
pub(crate) fn assert_problem<T: std::fmt::Debug>(result: Result<T, Error>, kind: &str) -> Error {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), Some(kind), "{error:?}");
    error
}
