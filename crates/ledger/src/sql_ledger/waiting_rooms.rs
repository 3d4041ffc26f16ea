//! The `WaitingRoomStore` port.

use async_trait::async_trait;
use qiang_core::{
    id::CampaignId,
    ports::{LedgerError, WaitingRoomStore},
};

use super::SqlLedger;
use crate::{dialect::Dialect, pool::AccessMode, waiting_rooms};

#[async_trait]
impl<D: Dialect> WaitingRoomStore for SqlLedger<D> {
    async fn add_waiting_room(&self, id: CampaignId) -> Result<(), LedgerError> {
        self.run(AccessMode::Write, id, |conn, id| {
            Box::pin(waiting_rooms::add::<D>(conn, *id))
        })
        .await
    }

    async fn has_waiting_room(&self, id: CampaignId) -> Result<bool, LedgerError> {
        self.read(move |conn| Box::pin(waiting_rooms::has::<D>(conn, id)))
            .await
    }
}
