//! What a claim needs before it is given to an engine: judged here, from what is remembered of the campaign.

use qiang_core::{
    book::Claim,
    campaign::{Requirement, Requirements},
};

use crate::{
    app::App,
    cache::campaigns::CampaignMeta,
    claims::tickets::GrabTicket,
    http::{problem::Problem, wire::Text},
};

/// What requests and answers name.
pub(crate) type RequirementList = Vec<Text<Requirement>>;

/// Each of them by its name.
pub(crate) fn list(requirements: Requirements) -> RequirementList {
    requirements.iter().map(Text).collect()
}

impl App {
    /// What a new campaign asks for, if this installation can hold claims to it.
    pub(crate) fn requirements(&self, asked: &RequirementList) -> Result<Requirements, Problem> {
        let asked: Requirements = asked.iter().map(|one| one.0).collect();
        let has_key = self.verifier.load().sealer.is_some();
        if asked.contains(Requirement::Ticket) && !has_key {
            return Err(Problem::invalid_at(
                "#/requirements",
                "no tickets are made here: auth.ticket_secret is not set",
            ));
        }
        if asked.contains(Requirement::OrderCheck) && self.order_check.is_none() {
            return Err(Problem::invalid_at(
                "#/requirements",
                "no orders are checked here: order_check.url is not set",
            ));
        }
        Ok(asked)
    }

    /// Whether a claim has what its campaign asks for. A claim of the other kind is left to the engine, which says so.
    pub(crate) async fn check_requirements(
        &self,
        meta: &CampaignMeta,
        claim: &Claim,
        ticket: &GrabTicket,
    ) -> Result<(), Problem> {
        if meta.kind != claim.kind {
            return Ok(());
        }
        if meta.requirements.contains(Requirement::Ticket) {
            ticket.check(self, claim)?;
        }
        if meta.requirements.contains(Requirement::OrderCheck) {
            // Another node has created the campaign, or the configuration was changed since.
            let unset = || {
                Problem::unavailable(
                    "the campaign needs order checks, and order_check.url is not set",
                )
            };
            let check = self.order_check.as_ref().ok_or_else(unset)?;
            // Boxed, as what few claims await.
            Box::pin(check.check(claim, self.ports.clock.now())).await?;
        }
        Ok(())
    }
}
