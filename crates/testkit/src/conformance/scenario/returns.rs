//! Methods of a case that cancel and return orders.

use qiang_core::{
    book::{Command, OrderView, Refusal, Reply},
    id::{IdempotencyKey, OrderId},
    order::ReturnPart,
    ports::EngineError,
};

use super::Scenario;

impl Scenario {
    /// Returns an order. The result is the refusal if there is one.
    pub async fn try_return(&mut self, order: OrderId) -> Result<OrderView, Refusal> {
        self.returned(order, None).await
    }

    /// Returns some units of an order under a key. The result is the refusal if there is one.
    pub async fn return_part(
        &mut self,
        order: OrderId,
        quantity: u32,
        key: &str,
    ) -> Result<OrderView, Refusal> {
        let key = IdempotencyKey::new(key).expect("a key in a test is well-formed");
        let part = ReturnPart { quantity, key };
        self.returned(order, Some(part)).await
    }

    /// Cancels some units of an order under a key. The result is the refusal if there is one.
    pub async fn cancel_part(
        &mut self,
        order: OrderId,
        quantity: u32,
        key: &str,
    ) -> Result<OrderView, Refusal> {
        let key = IdempotencyKey::new(key).expect("a key in a test is well-formed");
        let part = ReturnPart { quantity, key };
        self.cancelled(order, Some(part)).await
    }

    pub(super) async fn cancelled(
        &mut self,
        order: OrderId,
        part: Option<ReturnPart>,
    ) -> Result<OrderView, Refusal> {
        match self.submit(Command::Cancel { order, part }).await {
            Ok(Reply::Cancelled(view)) => Ok(view),
            Err(EngineError::Refused(refusal)) => Err(refusal),
            other => panic!("a cancellation got the reply {other:?}"),
        }
    }

    async fn returned(
        &mut self,
        order: OrderId,
        part: Option<ReturnPart>,
    ) -> Result<OrderView, Refusal> {
        match self.submit(Command::Return { order, part }).await {
            Ok(Reply::Returned(view)) => Ok(view),
            Err(EngineError::Refused(refusal)) => Err(refusal),
            other => panic!("a return got the reply {other:?}"),
        }
    }
}
