//! `qiang packet`: sends, shows, lists and ends red packets of a service.

use std::{path::PathBuf, process::ExitCode};

use qiang_client::{
    CampaignId, Claim, Cover, Draws, ListedRedPacket, NewRedPacket, RedPacket, SplitRuleName,
};

use crate::{
    amounts,
    campaign::{CampaignArgs, CampaignFilter, CampaignVerb, act, numbers},
    packet_file,
    service::{EXITS, Service, ServiceArgs, ask, plain},
};

/// Send, show, list and end red packets of a service.
#[derive(Debug, clap::Args)]
#[command(after_help = EXITS)]
pub(crate) struct RedPacketArgs {
    #[command(subcommand)]
    command: PacketCommand,
    #[command(flatten)]
    service: ServiceArgs,
}

#[derive(Debug, clap::Subcommand)]
enum PacketCommand {
    /// Send a red packet from the account of the token's user, and print its id.
    #[command(
        after_help = "Example: qiang packet send --title 恭喜发财 --total 100.00 CNY --shares 10"
    )]
    Send(Box<NewPacket>),
    /// Send the red packets of a file, and print the result of each. A repetition sends only the packets not sent yet.
    #[command(
        after_help = "A line of FILE: {\"idempotency_key\": \"2026-11-alice\", \"red_packet\": {\"title\": \"恭喜发财\", \
            \"total\": {\"amount\": 10000, \"currency\": \"CNY\"}, \"shares\": 10, \"split\": {\"rule\": \
            \"double_average\"}}}\n\
            Example: qiang packet send-many --from packets.ndjson"
    )]
    SendMany {
        /// A file with one JSON object per line: an idempotency key unique for the sender, and the packet as in
        /// `POST /v1/red-packets`.
        #[arg(long, value_name = "FILE")]
        from: PathBuf,
    },
    /// Show a red packet with its current numbers.
    #[command(after_help = "Example: qiang packet show 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80")]
    Show {
        /// The packet's id.
        packet: CampaignId,
    },
    /// List red packets by id, with their settled numbers.
    #[command(after_help = "Example: qiang packet list --mine --archived")]
    List {
        #[command(flatten)]
        which: CampaignFilter,
    },
    /// List the settled shares of a red packet and their users, in the order of the grants.
    #[command(after_help = "Example: qiang packet claims 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80")]
    Claims {
        /// The packet's id.
        packet: CampaignId,
    },
    /// Pause granting. Idempotent.
    #[command(after_help = "Example: qiang packet pause 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80")]
    Pause {
        /// The packet's id.
        packet: CampaignId,
    },
    /// Resume a paused packet. Idempotent.
    #[command(after_help = "Example: qiang packet resume 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80")]
    Resume {
        /// The packet's id.
        packet: CampaignId,
    },
    /// End a packet now, permanently. The remaining money returns to the sender.
    #[command(after_help = "Example: qiang packet close 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80")]
    Close {
        /// The packet's id.
        packet: CampaignId,
    },
    /// Hide a closed packet from lists that do not include archived ones.
    #[command(after_help = "Example: qiang packet archive 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80")]
    Archive {
        /// The packet's id.
        packet: CampaignId,
    },
}

/// A red packet to send.
#[derive(Debug, clap::Args)]
struct NewPacket {
    /// Title that users see.
    #[arg(long)]
    title: String,
    /// The sum to split, with its currency's decimals and the currency.
    #[arg(long, num_args = 2, required = true, value_names = ["AMOUNT", "CURRENCY"])]
    total: Vec<String>,
    /// The number of shares.
    #[arg(long)]
    shares: u32,
    /// Split rule: normal, double_average, equal or lazy.
    #[arg(long, default_value = "double_average")]
    rule: SplitRuleName,
    /// The smallest share, in the currency of the total. Default: one minor unit. Not for `equal`.
    #[arg(long, value_name = "AMOUNT")]
    min: Option<String>,
    /// The largest share, in the currency of the total. Required for `normal`, refused for other rules.
    #[arg(long, value_name = "AMOUNT")]
    max: Option<String>,
    /// Visibility of the shares: `everybody`, `grabbers` or `sender`. Default: `everybody`.
    #[arg(long, value_name = "WHO")]
    draws: Option<Draws>,
    /// Look of the envelope: classic, blossom, lantern, cloud, birthday or wedding. Default: `classic`.
    #[arg(long)]
    cover: Option<Cover>,
    #[command(flatten)]
    rules: CampaignArgs,
}

impl NewPacket {
    fn packet(&self) -> anyhow::Result<NewRedPacket> {
        let rules = &self.rules;
        let mut packet = NewRedPacket::new(
            self.title.as_str(),
            amounts::money(&self.total)?,
            self.shares,
            self.rule,
        );
        let share = |amount: &Option<String>| match (amount, &self.total[..]) {
            (Some(amount), [_, currency]) => {
                let share = amounts::money(&[amount.clone(), currency.clone()])?;
                Ok::<_, anyhow::Error>(Some(share.amount))
            }
            _ => Ok(None),
        };
        (packet.split.min, packet.split.max) = (share(&self.min)?, share(&self.max)?);
        Ok(NewRedPacket {
            starts_at: rules.starts_at,
            ends_at: rules.ends_at,
            id: rules.id.clone(),
            ack: rules.ack,
            waiting_room: rules.waiting_room(),
            requirements: rules.requirements(),
            audience: rules.audience()?,
            draws: self.draws,
            cover: self.cover,
            ..packet
        })
    }
}

pub(crate) fn run(args: &RedPacketArgs) -> anyhow::Result<ExitCode> {
    ask(&args.service, async |service| {
        carry_out(&args.command, service).await
    })
}

async fn carry_out(command: &PacketCommand, service: &Service) -> anyhow::Result<()> {
    let client = &service.client;
    match command {
        PacketCommand::Send(send) => {
            let packet = client.create_red_packet(&send.packet()?).await?;
            service.print(&packet, |packet| packet.id.to_string())
        }
        PacketCommand::SendMany { from } => packet_file::send(from, service).await,
        PacketCommand::Show { packet } => service.print(&client.red_packet(packet).await?, shown),
        PacketCommand::List { which } => {
            let heading = concat!(
                "id                                    phase      starts                    ",
                "shares  granted  total  title"
            );
            let line = |packet: &ListedRedPacket| {
                let ListedRedPacket {
                    id,
                    state,
                    shares,
                    total,
                    title,
                    ..
                } = packet;
                let total = amounts::shown(total);
                format!(
                    "{id}  {:<9}  {}  {shares:>6}  {:>7}  {total}  {}",
                    state.phase,
                    state.starts_at,
                    state.granted,
                    plain(title)
                )
            };
            service
                .print_all(heading, client.red_packets(&which.listing()), line)
                .await
        }
        PacketCommand::Claims { packet } => {
            let line = |share: &Claim| {
                let Claim {
                    number,
                    user,
                    amount,
                    created_at,
                    ..
                } = share;
                let amount = amounts::shown(amount);
                format!("{number:>6}  {created_at}  {amount:>12}  {user}")
            };
            let heading = "number  granted at                      amount  user";
            service
                .print_all(heading, client.shares(packet), line)
                .await
        }
        PacketCommand::Pause { packet } => act(service, packet, CampaignVerb::Pause).await,
        PacketCommand::Resume { packet } => act(service, packet, CampaignVerb::Resume).await,
        PacketCommand::Close { packet } => act(service, packet, CampaignVerb::Close).await,
        PacketCommand::Archive { packet } => act(service, packet, CampaignVerb::Archive).await,
    }
}

fn shown(packet: &RedPacket) -> String {
    let window = (packet.state.starts_at, packet.state.ends_at);
    format!(
        "{}: {}\nsender   {}\nterms    from {} up to {}, {} in {} shares by {}, ack {}, cover {}\n\
         money    claimed {}, remaining {}, refunded {}\nshares   {}",
        packet.id,
        plain(&packet.title),
        packet.sender,
        window.0,
        window.1,
        amounts::shown(&packet.total),
        packet.shares,
        packet.split.rule,
        packet.ack,
        packet.cover,
        amounts::shown(&packet.claimed),
        amounts::shown(&packet.remaining),
        amounts::shown(&packet.refunded),
        numbers(&packet.state)
    )
}
