//! The ports of campaigns, audiences and waiting rooms.

use async_trait::async_trait;
use qiang_core::{
    book::Setup,
    campaign::{Details, DetailsChange},
    id::{CampaignId, UserId},
    metadata::Metadata,
    ports::{
        Action, AudienceStore, CampaignQuery, CampaignRecord, CampaignStore, Creation, GrantRecord,
        GrantTimes, KeyStore as _, LedgerError, WaitingRoomStore,
    },
};
use uuid::Uuid;

use crate::{
    ledger::{audiences, campaigns, listing, waiting_rooms},
    ledger_file::{LedgerFile, SqliteLedgerHost, job},
    reader::query,
};

#[async_trait]
impl<H: 'static> AudienceStore for LedgerFile<H>
where
    Self: SqliteLedgerHost,
{
    async fn audience(&self, id: CampaignId) -> Result<Option<String>, LedgerError> {
        query(self.readers(), move |conn| audiences::audience(conn, id)).await
    }

    async fn has_share(&self, id: CampaignId, user: &UserId) -> Result<bool, LedgerError> {
        let user = user.clone();
        let look = move |conn: &_| audiences::has_share(conn, id, &user);
        query(self.readers(), look).await
    }

    async fn luckiest(&self, id: CampaignId) -> Result<Option<GrantRecord>, LedgerError> {
        query(self.readers(), move |conn| audiences::luckiest(conn, id)).await
    }
}

#[async_trait]
impl<H: 'static> CampaignStore for LedgerFile<H>
where
    Self: SqliteLedgerHost,
{
    async fn create_by(
        &self,
        setup: &Setup,
        details: &Details,
        audience: Option<&str>,
        by: Option<&Action>,
    ) -> Result<(), LedgerError> {
        let creation = Creation {
            used: None,
            setup: setup.clone(),
            details: details.clone(),
            metadata: Metadata::default(),
            audience: audience.map(str::to_owned),
            waiting_room: false,
            by: by.cloned(),
            opens: false,
        };
        match self.create_under(creation).await {
            // It was there before, and stays as it is.
            Ok(_) | Err(LedgerError::IdUsed) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn describe(
        &self,
        id: CampaignId,
        change: &DetailsChange,
        by: Option<&Action>,
        made: Option<Uuid>,
    ) -> Result<(), LedgerError> {
        let (change, by) = (change.clone(), by.cloned());
        job(self, 0, move |context| {
            let by = (by.as_ref(), made);
            listing::describe(context.conn, context.now, id, &change, by)
        })
        .await
    }

    async fn describe_if(
        &self,
        id: CampaignId,
        (title, details): (&str, &Details),
        change: &DetailsChange,
        (by, made): (Option<&Action>, Option<Uuid>),
    ) -> Result<bool, LedgerError> {
        let (title, details) = (title.to_owned(), details.clone());
        let (change, by) = (change.clone(), by.cloned());
        job(self, 0, move |context| {
            let (at, expected) = ((context.now, id), (title.as_str(), &details));
            let by = (by.as_ref(), made);
            listing::describe_if(context.conn, at, expected, &change, by)
        })
        .await
    }

    async fn archive(&self, id: CampaignId, by: Option<&Action>) -> Result<bool, LedgerError> {
        let by = by.cloned();
        job(self, 0, move |context| {
            listing::archive(context.conn, context.now, id, by.as_ref())
        })
        .await
    }

    async fn list(&self, wanted: &CampaignQuery) -> Result<Vec<CampaignRecord>, LedgerError> {
        let wanted = wanted.clone();
        query(self.readers(), move |conn| listing::list(conn, &wanted)).await
    }

    async fn campaign(&self, id: CampaignId) -> Result<Option<CampaignRecord>, LedgerError> {
        query(self.readers(), move |conn| campaigns::campaign(conn, id)).await
    }

    async fn drafts(
        &self,
        after: Option<CampaignId>,
        limit: u32,
    ) -> Result<Vec<CampaignId>, LedgerError> {
        let drafts = move |conn: &_| campaigns::drafts(conn, after, limit);
        query(self.readers(), drafts).await
    }

    async fn setup(&self, id: CampaignId) -> Result<Option<Setup>, LedgerError> {
        query(self.readers(), move |conn| campaigns::setup_by_id(conn, id)).await
    }

    async fn claimed_packets(
        &self,
        after: Option<CampaignId>,
        limit: u32,
    ) -> Result<Vec<CampaignId>, LedgerError> {
        let claimed = move |conn: &_| campaigns::claimed_packets(conn, after, limit);
        query(self.readers(), claimed).await
    }

    async fn grants(
        &self,
        id: CampaignId,
        after: u32,
        limit: u32,
    ) -> Result<Vec<GrantRecord>, LedgerError> {
        let grants = move |conn: &_| campaigns::grants(conn, id, after, limit);
        query(self.readers(), grants).await
    }

    async fn grant_times(
        &self,
        id: CampaignId,
        numbers: Vec<u32>,
    ) -> Result<Vec<GrantTimes>, LedgerError> {
        let times = move |conn: &_| campaigns::grant_times(conn, id, &numbers);
        query(self.readers(), times).await
    }
}

#[async_trait]
impl<H: 'static> WaitingRoomStore for LedgerFile<H>
where
    Self: SqliteLedgerHost,
{
    async fn add_waiting_room(&self, id: CampaignId) -> Result<(), LedgerError> {
        job(self, 0, move |context| waiting_rooms::add(context.conn, id)).await
    }

    async fn has_waiting_room(&self, id: CampaignId) -> Result<bool, LedgerError> {
        query(self.readers(), move |conn| waiting_rooms::has(conn, id)).await
    }
}
