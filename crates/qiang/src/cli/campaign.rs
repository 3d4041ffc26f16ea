//! Options and actions that sales and red packets share on the command line.

use std::path::PathBuf;

use qiang_client::{
    AckLevel, Audience, CampaignId, Listing, Phase, Requirement, State, Timestamp, UserId,
};

use crate::{
    history_filter::TimeArgs,
    service::{Service, secret},
};

/// Options of a new campaign of either kind.
#[derive(Debug, clap::Args)]
pub(crate) struct CampaignArgs {
    /// The campaign's id: a random UUID of version 7, made within a day. Default: the service makes one.
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<CampaignId>,
    /// Start time, such as 2027-01-15T08:00:00Z. Default: now.
    #[arg(long, value_name = "TIME")]
    pub(crate) starts_at: Option<Timestamp>,
    /// End time. Default: the service's default.
    #[arg(long, value_name = "TIME")]
    pub(crate) ends_at: Option<Timestamp>,
    /// Durability of a grant before it is acknowledged: memory, replica, fsync or ledger.
    #[arg(long, value_name = "LEVEL")]
    pub(crate) ack: Option<AckLevel>,
    /// Queue claims, and decide them in the order of their arrival.
    #[arg(long)]
    waiting_room: bool,
    /// Requirements of a claim: ticket, order_check, or both, separated by a comma.
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    requires: Vec<Requirement>,
    /// Only these users may claim, separated by commas.
    #[arg(long, value_name = "USERS", value_delimiter = ',', group = "audience")]
    users: Vec<UserId>,
    /// Only users with an invitation may claim.
    #[arg(long, group = "audience")]
    invitation: bool,
    /// Only users with the passphrase in this file may claim.
    #[arg(long, value_name = "FILE", group = "audience")]
    passphrase_file: Option<PathBuf>,
}

impl CampaignArgs {
    pub(crate) fn waiting_room(&self) -> Option<bool> {
        self.waiting_room.then_some(true)
    }

    pub(crate) fn requirements(&self) -> Option<Vec<Requirement>> {
        (!self.requires.is_empty()).then(|| self.requires.clone())
    }

    pub(crate) fn audience(&self) -> anyhow::Result<Option<Audience>> {
        Ok(match &self.passphrase_file {
            Some(file) => Some(Audience::Passphrase(secret(file)?)),
            None if self.invitation => Some(Audience::Invitation(true)),
            None if self.users.is_empty() => None,
            None => Some(Audience::Users(self.users.clone())),
        })
    }
}

/// Filter of campaigns.
#[derive(Debug, clap::Args)]
pub(crate) struct CampaignFilter {
    /// Only campaigns of this sender or seller. Default: of all.
    #[arg(long, value_name = "USER")]
    owner: Option<UserId>,
    /// Only campaigns of the token's user.
    #[arg(long, conflicts_with = "owner")]
    mine: bool,
    /// Only campaigns in this phase: draft, scheduled, live, paused, ended or closed.
    #[arg(long)]
    phase: Option<Phase>,
    /// Only campaigns with this number of the shop in their metadata.
    #[arg(long)]
    reference: Option<String>,
    #[command(flatten)]
    times: TimeArgs,
    /// Include archived campaigns.
    #[arg(long)]
    archived: bool,
    /// List the newest first. Default: the oldest first.
    #[arg(long)]
    newest: bool,
}

impl CampaignFilter {
    pub(crate) fn listing(&self) -> Listing {
        Listing {
            owner: self.owner.clone(),
            all: self.owner.is_none() && !self.mine,
            phase: self.phase,
            reference: self.reference.clone(),
            created_after: self.times.created_after,
            created_before: self.times.created_before,
            archived: self.archived,
            newest_first: self.newest,
            page_size: Some(100),
            ..Listing::default()
        }
    }
}

/// Action on a campaign that needs no further arguments.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CampaignVerb {
    Pause,
    Resume,
    Start,
    Close,
    Archive,
}

/// Executes an action, and prints the campaign's numbers.
pub(crate) async fn act(
    service: &Service,
    campaign: &CampaignId,
    action: CampaignVerb,
) -> anyhow::Result<()> {
    let client = &service.client;
    let state = match action {
        CampaignVerb::Pause => client.pause(campaign).await?,
        CampaignVerb::Resume => client.resume(campaign).await?,
        CampaignVerb::Start => client.start_sale(campaign).await?,
        CampaignVerb::Close => client.close(campaign).await?,
        CampaignVerb::Archive => client.archive(campaign).await?,
    };
    let is_archived = matches!(action, CampaignVerb::Archive);
    service.print(&state, |state| match is_archived {
        true => format!("{campaign}: archived"),
        false => format!("{campaign}: {}", numbers(state)),
    })
}

/// A campaign's phase and numbers.
pub(crate) fn numbers(state: &State) -> String {
    let State {
        phase,
        granted,
        remaining,
        returned,
        withheld,
        ..
    } = state;
    let numbers = format!("{phase}, granted {granted}, remaining {remaining}, returned {returned}");
    match withheld {
        0 => numbers,
        _ => format!("{numbers}, withheld {withheld}"),
    }
}
