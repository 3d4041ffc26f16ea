//! Requirements of a claim, checked before the engine is called, with the cached campaign.

use qiang_core::{
    book::Claim,
    campaign::{Requirement, Requirements},
};

use crate::{
    app::App,
    cache::campaigns::AnswerFields,
    claims::tickets::SignedTicket,
    http::{problem::ApiProblem, wire::Text},
};

/// Requirements in requests.
pub(crate) type RequirementList = Vec<Text<Requirement>>;

impl App {
    /// Requirements of a new campaign, if this installation can check them.
    pub(crate) fn requirements(&self, asked: &RequirementList) -> Result<Requirements, ApiProblem> {
        let asked: Requirements = asked.iter().map(|one| one.0).collect();
        let has_key = self.verifier.load().sealer.is_some();
        if asked.contains(Requirement::Ticket) && !has_key {
            return Err(ApiProblem::invalid_at(
                "#/requirements",
                "tickets are not available: auth.ticket_secret is not set",
            ));
        }
        if asked.contains(Requirement::OrderCheck) && self.order_check.is_none() {
            return Err(ApiProblem::invalid_at(
                "#/requirements",
                "order checks are not available: order_check.url is not set",
            ));
        }
        Ok(asked)
    }

    /// Checks that a claim meets its campaign's requirements. The engine answers a claim of the other kind.
    pub(crate) async fn check_requirements(
        &self,
        meta: &AnswerFields,
        claim: &Claim,
        ticket: &SignedTicket,
    ) -> Result<(), ApiProblem> {
        if meta.kind != claim.kind {
            return Ok(());
        }
        if meta.requirements.contains(Requirement::Ticket) {
            ticket.check(self, claim)?;
        }
        if meta.requirements.contains(Requirement::OrderCheck) {
            // Another node has created the campaign, or the configuration has changed since.
            let unset = || {
                ApiProblem::unavailable(
                    "the campaign needs order checks, but order_check.url is not set",
                )
            };
            let check = self.order_check.as_ref().ok_or_else(unset)?;
            // Boxed, because few claims await it.
            Box::pin(check.check(claim, self.ports.clock.now())).await?;
        }
        Ok(())
    }
}
