//! Accounts and postings of a plan.

use super::{plan::Planner, rows::KnownCampaign};
use crate::{
    event::Entry,
    money::Currency,
    rows::{AccountKey, AccountPurpose, Contradiction, PostingRow},
};

impl<'a> Planner<'a> {
    /// Index in the plan of an account in the campaign's currency. Adds the account if it is new.
    pub(super) fn account(
        &mut self,
        known: &KnownCampaign,
        owner: &'a str,
        purpose: AccountPurpose,
    ) -> usize {
        self.account_in(known.currency, owner, purpose)
    }

    /// Index of an account in the plan. Adds the account if it is new.
    pub(super) fn account_in(
        &mut self,
        currency: Currency,
        owner: &'a str,
        purpose: AccountPurpose,
    ) -> usize {
        let key = AccountKey::new(owner, purpose, currency);
        *self.account_places.entry(key).or_insert_with(|| {
            self.plan.accounts.push((key, 0));
            self.plan.accounts.len() - 1
        })
    }

    /// Plans a posting that follows from an entry.
    pub(super) fn post(
        &mut self,
        known: &KnownCampaign,
        entry: &Entry,
        kind: &'static str,
        accounts: (usize, usize),
        amount: i64,
        number: Option<i64>,
    ) -> Result<(), Contradiction> {
        let place = (entry.seq as i64, entry.at.as_millis());
        self.post_at(known, place, kind, accounts, amount, number)
    }

    /// Plans a posting with a log position and a time in milliseconds.
    pub(super) fn post_at(
        &mut self,
        known: &KnownCampaign,
        (seq, at): (i64, i64),
        kind: &'static str,
        (debit, credit): (usize, usize),
        amount: i64,
        number: Option<i64>,
    ) -> Result<(), Contradiction> {
        for (account, amount) in [(debit, amount.checked_neg()), (credit, Some(amount))] {
            let sum = &mut self.plan.accounts[account].1;
            *sum = amount
                .and_then(|amount| sum.checked_add(amount))
                .ok_or_else(|| {
                    let reason = format!("entry {seq} moves more than there can be");
                    Contradiction::new(reason)
                })?;
        }
        self.plan.postings.push(PostingRow {
            source: self.source,
            seq,
            kind,
            debit: debit as i64,
            credit: credit as i64,
            amount,
            campaign: Some(known.campaign_ref),
            number,
            at,
        });
        Ok(())
    }
}
