//! Reads a service: metrics of a node, and campaigns over the API.

use std::{
    collections::HashMap,
    pin::pin,
    time::{Duration, Instant},
};

use futures_util::{Stream, TryStreamExt as _, future::join_all};
use qiang_client::{CampaignId, Client, Error, ListedRedPacket, Listing, Phase, Sale, State};

use super::{
    exposition::MetricSamples,
    figures::{CampaignFigures, FigureKind, Figures},
};
use crate::service::{Service, ServiceArgs, plain};

/// Default URL where a node serves operators.
const OPERATORS: &str = "http://127.0.0.1:8082";
/// Campaigns shown per kind and phase.
const LISTED_MAX: usize = 10;
/// Interval between two listings of campaigns. Every reading reads the numbers of listed campaigns.
const LIST_EVERY: Duration = Duration::from_secs(5);

/// Reader of a service, with its previous reading.
pub(super) struct MetricsReader {
    api: Client,
    has_token: bool,
    /// Nodes that may have the metrics. The first that answers is kept.
    nodes: Vec<Client>,
    before: Option<(MetricSamples, Instant)>,
    listed: Vec<(CampaignId, FigureKind, String)>,
    listed_at: Option<Instant>,
    no_campaigns: Option<String>,
    granted: HashMap<CampaignId, (u64, Instant)>,
}

impl MetricsReader {
    pub(super) fn new(
        service: &Service,
        args: &ServiceArgs,
        metrics_url: Option<&str>,
    ) -> anyhow::Result<Self> {
        let own = args.url();
        let is_here = ["//127.0.0.1", "//localhost", "//[::1]"]
            .iter()
            .any(|host| own.contains(host));
        let mut nodes = vec![args.nobody(metrics_url.unwrap_or(&own))?];
        if metrics_url.is_none() && is_here {
            nodes.push(args.nobody(OPERATORS)?);
        }
        Ok(Self {
            api: service.client.clone(),
            has_token: args.token()?.is_some(),
            nodes,
            before: None,
            listed: Vec::new(),
            listed_at: None,
            no_campaigns: None,
            granted: HashMap::new(),
        })
    }

    /// Figures since the previous reading. The first reading has no rates.
    pub(super) async fn read(&mut self) -> Result<Figures, Error> {
        let now = self.metrics().await?;
        let at = Instant::now();
        let figures = match &self.before {
            Some((before, since)) => Figures::between(before, &now, (at - *since).as_secs_f64()),
            None => Figures::between(&now, &now, 1.0),
        };
        self.before = Some((now, at));
        if self.listed_at.is_none_or(|since| at - since >= LIST_EVERY) {
            self.list().await;
            self.listed_at = Some(at);
        }
        Ok(Figures {
            campaigns: self.campaigns().await,
            no_campaigns: self.no_campaigns.clone(),
            ..figures
        })
    }

    async fn metrics(&mut self) -> Result<MetricSamples, Error> {
        let mut last = None;
        for at in 0..self.nodes.len() {
            match self.nodes[at].metrics().await {
                Ok(text) => {
                    self.nodes = vec![self.nodes.swap_remove(at)];
                    return Ok(MetricSamples::parse(&text));
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| Error::Usage("no node has metrics".to_owned())))
    }

    /// Lists campaigns. If that fails, the previous list stays.
    async fn list(&mut self) {
        if !self.has_token {
            self.no_campaigns = Some("no token: --token-file or QIANG_TOKEN".to_owned());
            return;
        }
        let listed = match self.list_of(true).await {
            Err(error) if error.kind() == Some("forbidden") => self.list_of(false).await,
            listed => listed,
        };
        match listed {
            Ok(listed) => {
                self.no_campaigns = None;
                self.listed = listed;
            }
            Err(error) => self.no_campaigns = Some(plain(&error.to_string())),
        }
    }

    async fn list_of(&self, all: bool) -> Result<Vec<(CampaignId, FigureKind, String)>, Error> {
        let mut found = Vec::new();
        for phase in [Phase::Live, Phase::Paused] {
            let listing = Listing {
                all,
                phase: Some(phase),
                page_size: Some(LISTED_MAX as u32),
                ..Listing::default()
            };
            let sale = |it: Sale| (it.id, FigureKind::Sale, it.title);
            let packet = |it: ListedRedPacket| (it.id, FigureKind::RedPacket, it.title);
            found.extend(first(self.api.sales(&listing).map_ok(sale)).await?);
            found.extend(first(self.api.red_packets(&listing).map_ok(packet)).await?);
        }
        Ok(found)
    }

    /// Current numbers of all listed campaigns. Skips a campaign that cannot be read.
    async fn campaigns(&mut self) -> Vec<CampaignFigures> {
        let states = self.listed.iter().map(|(id, ..)| self.api.state(id));
        let states = join_all(states).await;
        let at = Instant::now();
        let mut granted = HashMap::new();
        let mut campaigns = Vec::new();
        for ((id, kind, title), seen) in self.listed.iter().zip(states) {
            let Ok(seen) = seen else {
                continue;
            };
            let state = seen.state;
            if !is_shown(&state) {
                continue;
            }
            let before = self.granted.get(id);
            let granted_per_s = before.map_or(0.0, |(before, since)| {
                let seconds = (at - *since).as_secs_f64().max(0.001);
                state.granted.saturating_sub(*before) as f64 / seconds
            });
            granted.insert(id.clone(), (state.granted, at));
            campaigns.push(CampaignFigures {
                id: id.clone(),
                kind: *kind,
                title: plain(title),
                granted_per_s,
                state,
            });
        }
        self.granted = granted;
        campaigns
    }
}

/// Whether a campaign is shown. A campaign may have ended since it was listed.
fn is_shown(state: &State) -> bool {
    matches!(state.phase, Phase::Live | Phase::Paused)
}

async fn first<T>(items: impl Stream<Item = Result<T, Error>>) -> Result<Vec<T>, Error> {
    let mut items = pin!(items);
    let mut found = Vec::new();
    while found.len() < LISTED_MAX
        && let Some(item) = items.try_next().await?
    {
        found.push(item);
    }
    Ok(found)
}
