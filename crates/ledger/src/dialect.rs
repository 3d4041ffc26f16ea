//! What a dialect has to offer: single statements on the tables, and no logic. Whatever decides what is written is
//! written once, above these traits.
//!
//! The functions work on a connection whose transaction somebody else began and will commit. None of them is ever
//! cancelled half way on a connection that is used again.

use std::future::Future;

use qiang_core::campaign::Campaign;
use sqlx::{Connection, Database, Result, error::DatabaseError};

use crate::{
    rows::{
        AccountKey, AccountRow, AsideColumns, AsideRow, CampaignChange, CampaignRow, GrantRow,
        KnownCampaign, KnownOrder, NewOrder, OrderChange, PartChange, PaymentRow, PostingRow,
        ShareGrant,
    },
    schema::Schema,
};

/// What a database's error means for the work that met it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// The transaction was undone to let another one go on: once again.
    Retry,
    /// The rows refuse each other.
    Contradiction,
    /// A number left its range.
    Overflow,
    /// Anything else: the server is going down, is full, or does not know the table.
    Other,
}

/// A database whose tables the ledger knows.
pub(crate) trait Dialect:
    Accounts + Quarantine + Campaigns + Keys + Settling + Schema
{
    /// How to connect to the database at a URL.
    fn at(url: &str) -> Result<<Self::Connection as Connection>::Options>;

    /// Sets a new connection of the pool up for its work.
    fn set_up(conn: &mut Self::Connection) -> impl Future<Output = Result<()>> + Send;

    /// Begins a transaction in which each statement sees what is committed.
    fn begin(conn: &mut Self::Connection) -> impl Future<Output = Result<()>> + Send;

    /// Commits.
    fn commit(conn: &mut Self::Connection) -> impl Future<Output = Result<()>> + Send;

    /// Undoes the transaction, if there is one.
    fn rollback(conn: &mut Self::Connection) -> impl Future<Output = Result<()>> + Send;

    /// What an error of the database means.
    fn class(error: &dyn DatabaseError) -> Class;

    /// What in the server's settings could lose commits, in words for the operator.
    fn doubts(conn: &mut Self::Connection) -> impl Future<Output = Result<Vec<String>>> + Send;
}

/// Accounts, postings and deposits.
pub(crate) trait Accounts: Database {
    /// Adds to accounts, in the order in which they are given, opening those that are not there. Below zero is
    /// allowed for the outside alone. Returns their ids in the same order.
    fn credit(
        conn: &mut Self::Connection,
        accounts: &[(AccountKey<'_>, i64)],
    ) -> impl Future<Output = Result<Vec<i64>>> + Send;

    /// The accounts that are there, with their ids, in any order and perhaps with others of the same owners.
    fn accounts_of(
        conn: &mut Self::Connection,
        owners: &[&str],
    ) -> impl Future<Output = Result<Vec<AccountRow>>> + Send;

    /// Moves the balances of accounts that are there, which are given by their ids in ascending order.
    fn shift(
        conn: &mut Self::Connection,
        moves: &[(i64, i64)],
    ) -> impl Future<Output = Result<()>> + Send;

    /// The id and the balance of an account, which nobody else moves until the transaction ends.
    fn hold(
        conn: &mut Self::Connection,
        account: AccountKey<'_>,
    ) -> impl Future<Output = Result<Option<(i64, i64)>>> + Send;

    /// Writes postings.
    fn post(
        conn: &mut Self::Connection,
        postings: &[PostingRow],
    ) -> impl Future<Output = Result<()>> + Send;

    /// The next number for a posting that follows from no log entry. Whoever has it holds up the others until its
    /// transaction ends: it is taken last.
    fn next_direct(conn: &mut Self::Connection) -> impl Future<Output = Result<i64>> + Send;

    /// Whether a deposit was made.
    fn has_deposit(
        conn: &mut Self::Connection,
        id: &str,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Writes down that a deposit is made.
    fn enter_deposit(
        conn: &mut Self::Connection,
        id: &str,
        posting: i64,
    ) -> impl Future<Output = Result<()>> + Send;
}

/// Campaigns with their shares, and what is listed of them.
pub(crate) trait Campaigns: Database {
    /// Whether a campaign was entered.
    fn has_campaign(
        conn: &mut Self::Connection,
        id: &str,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Enters a campaign as a draft, and returns its `ref`.
    fn enter_campaign(
        conn: &mut Self::Connection,
        campaign: &Campaign,
    ) -> impl Future<Output = Result<i64>> + Send;

    /// Enters shares from number `first` on; null stands for an amount that is not known yet.
    fn enter_shares(
        conn: &mut Self::Connection,
        campaign: i64,
        first: i64,
        amounts: &[Option<i64>],
    ) -> impl Future<Output = Result<()>> + Send;

    /// One campaign.
    fn campaign(
        conn: &mut Self::Connection,
        id: &str,
    ) -> impl Future<Output = Result<Option<CampaignRow>>> + Send;

    /// Campaigns that no engine has taken up, oldest first.
    fn drafts(conn: &mut Self::Connection)
    -> impl Future<Output = Result<Vec<CampaignRow>>> + Send;

    /// The amounts of a packet's shares, in the order of their numbers.
    fn amounts(
        conn: &mut Self::Connection,
        campaign: i64,
    ) -> impl Future<Output = Result<Vec<Option<i64>>>> + Send;

    /// Shares that users have, with numbers above `after`.
    fn granted_shares(
        conn: &mut Self::Connection,
        campaign: i64,
        after: i64,
        limit: i64,
    ) -> impl Future<Output = Result<Vec<GrantRow>>> + Send;

    /// Orders with numbers above `after`.
    fn granted_orders(
        conn: &mut Self::Connection,
        campaign: i64,
        after: i64,
        limit: i64,
    ) -> impl Future<Output = Result<Vec<GrantRow>>> + Send;
}

/// Idempotency keys.
pub(crate) trait Keys: Database {
    /// The fingerprint and the id that a key is bound to.
    fn bound(
        conn: &mut Self::Connection,
        scope: &str,
        key: &str,
    ) -> impl Future<Output = Result<Option<(Vec<u8>, String)>>> + Send;

    /// Binds a key.
    fn bind(
        conn: &mut Self::Connection,
        scope: &str,
        key: &str,
        fingerprint: &[u8],
        id: &str,
        at: i64,
    ) -> impl Future<Output = Result<()>> + Send;
}

/// What settlement reads and writes.
pub(crate) trait Settling: Database {
    /// How far partitions are settled: one of them, or all, in the order of their numbers.
    fn positions(
        conn: &mut Self::Connection,
        partition: Option<i64>,
    ) -> impl Future<Output = Result<Vec<(i64, i64)>>> + Send;

    /// How far a partition is settled. Nobody else settles it until the transaction ends.
    fn hold_position(
        conn: &mut Self::Connection,
        partition: i64,
    ) -> impl Future<Output = Result<i64>> + Send;

    /// Moves the position of a partition.
    fn move_position(
        conn: &mut Self::Connection,
        partition: i64,
        seq: i64,
    ) -> impl Future<Output = Result<()>> + Send;

    /// What is known of some campaigns, in any order; one that is not there is left out.
    fn known_campaigns(
        conn: &mut Self::Connection,
        partition: i64,
        ids: &[String],
    ) -> impl Future<Output = Result<Vec<KnownCampaign>>> + Send;

    /// What is known of some orders, given by campaign and number, in any order; one that is not there is left out.
    fn known_orders(
        conn: &mut Self::Connection,
        orders: &[(i64, i64)],
    ) -> impl Future<Output = Result<Vec<KnownOrder>>> + Send;

    /// Gives shares to users. Returns how many were free and had that amount.
    fn assign_shares(
        conn: &mut Self::Connection,
        shares: &[ShareGrant<'_>],
    ) -> impl Future<Output = Result<u64>> + Send;

    /// Enters orders.
    fn enter_orders(
        conn: &mut Self::Connection,
        orders: &[NewOrder<'_>],
    ) -> impl Future<Output = Result<()>> + Send;

    /// Moves orders to other states.
    fn change_orders(
        conn: &mut Self::Connection,
        orders: &[OrderChange],
    ) -> impl Future<Output = Result<()>> + Send;

    /// Enters payments.
    fn enter_payments(
        conn: &mut Self::Connection,
        payments: &[PaymentRow<'_>],
    ) -> impl Future<Output = Result<()>> + Send;

    /// Enters the part that a partition has of a campaign, as scheduled.
    fn enter_part(
        conn: &mut Self::Connection,
        campaign: i64,
        partition: i64,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Changes the part that a partition has of a campaign.
    fn change_part(
        conn: &mut Self::Connection,
        partition: i64,
        change: &PartChange,
    ) -> impl Future<Output = Result<()>> + Send;

    /// The phases of a campaign's parts.
    fn part_phases(
        conn: &mut Self::Connection,
        campaign: i64,
    ) -> impl Future<Output = Result<Vec<String>>> + Send;

    /// Changes campaigns, which are given by `ref` in ascending order.
    fn change_campaigns(
        conn: &mut Self::Connection,
        changes: &[CampaignChange],
    ) -> impl Future<Output = Result<()>> + Send;
}

/// Entries that are set aside.
pub(crate) trait Quarantine: Database {
    /// Whether anything is set aside in a partition.
    fn any_quarantined(
        conn: &mut Self::Connection,
        partition: i64,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// The first entry that is set aside of each of some campaigns, in any order; one of which nothing is, is left out.
    fn first_quarantined(
        conn: &mut Self::Connection,
        partition: i64,
        campaigns: &[String],
    ) -> impl Future<Output = Result<Vec<(String, i64)>>> + Send;

    /// What is set aside of a campaign before a place, in order: places and entries.
    fn quarantined_of(
        conn: &mut Self::Connection,
        partition: i64,
        campaign: &str,
        before: i64,
    ) -> impl Future<Output = Result<Vec<(i64, String)>>> + Send;

    /// One entry that is set aside.
    fn quarantined_at(
        conn: &mut Self::Connection,
        partition: i64,
        seq: i64,
    ) -> impl Future<Output = Result<Option<String>>> + Send;

    /// Sets entries aside.
    fn put_quarantined(
        conn: &mut Self::Connection,
        partition: i64,
        rows: &[AsideRow],
    ) -> impl Future<Output = Result<()>> + Send;

    /// Takes an entry back from where it is set aside.
    fn take_back(
        conn: &mut Self::Connection,
        partition: i64,
        seq: i64,
    ) -> impl Future<Output = Result<()>> + Send;

    /// How many entries of a partition were refused, and how many wait.
    fn count_quarantined(
        conn: &mut Self::Connection,
        partition: i64,
    ) -> impl Future<Output = Result<(i64, i64)>> + Send;

    /// Entries that are set quarantine, in the order of partitions and places, behind one of them.
    fn list_quarantined(
        conn: &mut Self::Connection,
        after: (i64, i64),
        limit: i64,
    ) -> impl Future<Output = Result<Vec<AsideColumns>>> + Send;
}
