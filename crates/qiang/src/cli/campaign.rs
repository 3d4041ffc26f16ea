//! What sales and packets have in common on the command line.

use std::path::PathBuf;

use qiang_client::{
    AckLevel, Audience, CampaignId, Listing, Phase, Requirement, State, Timestamp, UserId,
};

use crate::service::{Service, secret};

/// What may be said of any new campaign.
#[derive(Debug, clap::Args)]
pub(crate) struct Rules {
    /// Its id: a UUID of version 7, made at random within a day. Default: the service makes one.
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<CampaignId>,
    /// When it opens, such as 2027-01-15T08:00:00Z. Default: now.
    #[arg(long, value_name = "TIME")]
    pub(crate) starts_at: Option<Timestamp>,
    /// When it ends. Default: as the service has it.
    #[arg(long, value_name = "TIME")]
    pub(crate) ends_at: Option<Timestamp>,
    /// What a grant survives before it is acknowledged: memory, replica, fsync or ledger.
    #[arg(long, value_name = "LEVEL")]
    pub(crate) ack: Option<AckLevel>,
    /// Claims wait in line, and are decided in the order in which they came.
    #[arg(long)]
    waiting_room: bool,
    /// What a claim needs: ticket, order_check, or both with a comma between.
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    requires: Vec<Requirement>,
    /// Only these users may take part, with commas between.
    #[arg(long, value_name = "USERS", value_delimiter = ',', group = "audience")]
    users: Vec<UserId>,
    /// Only who shows an invitation may take part.
    #[arg(long, group = "audience")]
    invitation: bool,
    /// Only who says what is in this file may take part.
    #[arg(long, value_name = "FILE", group = "audience")]
    passphrase_file: Option<PathBuf>,
}

impl Rules {
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

/// Which campaigns.
#[derive(Debug, clap::Args)]
pub(crate) struct Which {
    /// Those of this sender or seller; default: everybody's.
    #[arg(long, value_name = "USER")]
    owner: Option<UserId>,
    /// Those of whoever the token is for.
    #[arg(long, conflicts_with = "owner")]
    mine: bool,
    /// draft, scheduled, live, paused, ended or closed.
    #[arg(long)]
    phase: Option<Phase>,
    /// Archived ones as well.
    #[arg(long)]
    archived: bool,
    /// The newest first; otherwise the oldest.
    #[arg(long)]
    newest: bool,
}

impl Which {
    pub(crate) fn listing(&self) -> Listing {
        Listing {
            owner: self.owner.clone(),
            all: self.owner.is_none() && !self.mine,
            phase: self.phase,
            archived: self.archived,
            newest_first: self.newest,
            page_size: Some(100),
            ..Listing::default()
        }
    }
}

/// What is done to a campaign in one word.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Action {
    Pause,
    Resume,
    Close,
    Archive,
}

/// Does it, and prints the campaign's numbers.
pub(crate) async fn act(
    service: &Service,
    campaign: &CampaignId,
    action: Action,
) -> anyhow::Result<()> {
    let client = &service.client;
    let state = match action {
        Action::Pause => client.pause(campaign).await?,
        Action::Resume => client.resume(campaign).await?,
        Action::Close => client.close(campaign).await?,
        Action::Archive => client.archive(campaign).await?,
    };
    let is_archived = matches!(action, Action::Archive);
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
