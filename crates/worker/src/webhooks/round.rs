//! Round of events that were not sent yet: the events of one subject in sequence, several subjects concurrently.
//!
//! An event of a campaign itself is sent after a first attempt at the earlier events of the campaign, and before the
//! later ones. So a campaign's close comes last, unless an event before it fails.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use qiang_core::{
    id::CampaignId,
    ports::EndpointAnswer,
    time::Timestamp,
    webhook::{EventSubject, Webhook, WebhookEvent},
};
use tokio::{sync::Semaphore, task::JoinSet, time::Instant};

use super::WebhookPorts;

/// Maximum duration of a round: afterwards no request begins, and the position is recorded.
pub(super) const ROUND_MAX: Duration = Duration::from_secs(5);
/// Refused events after which no other event is sent, unless the endpoint accepts one.
pub(super) const REFUSALS_MAX: u32 = 8;

/// Events of a campaign that may be sent concurrently: one queue per subject.
type Stage = Vec<Vec<WebhookEvent>>;

/// A sent event with its answer.
#[derive(Debug)]
pub(super) struct SentEvent {
    pub(super) event: WebhookEvent,
    pub(super) at: Timestamp,
    pub(super) duration_ms: i64,
    pub(super) answer: EndpointAnswer,
}

impl SentEvent {
    pub(super) fn is_accepted(&self) -> bool {
        self.answer.failure.is_none()
    }
}

/// Result of a round.
#[derive(Debug, Default)]
pub(super) struct RoundResult {
    /// Events that were sent.
    pub(super) sent: Vec<SentEvent>,
    /// Events that follow a failed event of their subject.
    pub(super) held: Vec<WebhookEvent>,
    /// Whether events were left out because the round was over.
    is_cut: bool,
}

impl RoundResult {
    fn add(&mut self, other: Self) {
        self.sent.extend(other.sent);
        self.held.extend(other.held);
        self.is_cut |= other.is_cut;
    }
}

/// Sends an event, and measures the time.
pub(super) async fn send_event(
    ports: &WebhookPorts,
    webhook: &Webhook,
    event: WebhookEvent,
) -> SentEvent {
    let (at, began) = (ports.clock.now(), Instant::now());
    let answer = ports.sender.attempt(webhook, &event, at).await;
    ports.monitor.tried(answer.failure.is_none());
    SentEvent {
        event,
        at,
        duration_ms: began.elapsed().as_millis().try_into().unwrap_or(i64::MAX),
        answer,
    }
}

/// Sends waiting events of one subject in sequence, until one fails or a round is over.
pub(super) async fn retry_queue(
    ports: &WebhookPorts,
    webhook: &Webhook,
    events: Vec<WebhookEvent>,
) -> Vec<SentEvent> {
    let over = Instant::now() + ROUND_MAX;
    let mut all = Vec::new();
    for event in events {
        let sent = send_event(ports, webhook, event).await;
        let is_accepted = sent.is_accepted();
        all.push(sent);
        if !is_accepted || Instant::now() >= over {
            break;
        }
    }
    all
}

/// Sends events, as many as fit into a round.
pub(super) async fn send_round(
    ports: &WebhookPorts,
    webhook: &Arc<Webhook>,
    events: Vec<WebhookEvent>,
) -> RoundResult {
    let round = Arc::new(DeliveryRound {
        ports: ports.clone(),
        webhook: Arc::clone(webhook),
        over: Instant::now() + ROUND_MAX,
        turns: Semaphore::new(ports.options.concurrent_max),
        accepted: AtomicU32::new(0),
        refused: AtomicU32::new(0),
        has_stopped: AtomicBool::new(false),
    });
    let mut campaigns = JoinSet::new();
    for stages in by_campaign(events) {
        campaigns.spawn(send_stages(Arc::clone(&round), stages));
    }
    let mut all = RoundResult::default();
    for result in campaigns.join_all().await {
        all.add(result);
    }
    all
}

struct DeliveryRound {
    ports: WebhookPorts,
    webhook: Arc<Webhook>,
    over: Instant,
    turns: Semaphore,
    accepted: AtomicU32,
    refused: AtomicU32,
    /// Set once: an event must not be sent if an earlier one of its subject was left out.
    has_stopped: AtomicBool,
}

impl DeliveryRound {
    fn stops(&self) -> bool {
        let count = |count: &AtomicU32| count.load(Ordering::Relaxed);
        let is_refused = count(&self.accepted) == 0 && count(&self.refused) >= REFUSALS_MAX;
        if is_refused || Instant::now() >= self.over {
            self.has_stopped.store(true, Ordering::Relaxed);
        }
        self.has_stopped.load(Ordering::Relaxed)
    }

    /// Sends the events of one subject in sequence, until one fails.
    async fn send_queue(&self, events: Vec<WebhookEvent>) -> RoundResult {
        let _turn = self.turns.acquire().await;
        let mut result = RoundResult::default();
        let mut events = events.into_iter();
        while let Some(event) = events.next() {
            if self.stops() {
                result.is_cut = true;
                break;
            }
            let sent = send_event(&self.ports, &self.webhook, event).await;
            let is_accepted = sent.is_accepted();
            let count = match is_accepted {
                true => &self.accepted,
                false => &self.refused,
            };
            count.fetch_add(1, Ordering::Relaxed);
            result.sent.push(sent);
            if !is_accepted {
                result.held.extend(events);
                break;
            }
        }
        result
    }
}

/// Sends the stages of one campaign in sequence, and the queues of a stage concurrently.
async fn send_stages(round: Arc<DeliveryRound>, stages: Vec<Stage>) -> RoundResult {
    let mut all = RoundResult::default();
    let mut refused: HashSet<Option<EventSubject>> = HashSet::new();
    for stage in stages {
        let mut sending = JoinSet::new();
        for queue in stage {
            let subject = queue.first().and_then(WebhookEvent::subject);
            if refused.contains(&subject) {
                all.held.extend(queue);
                continue;
            }
            let round = Arc::clone(&round);
            sending.spawn(async move { round.send_queue(queue).await });
        }
        for result in sending.join_all().await {
            let failed = result.sent.iter().filter(|sent| !sent.is_accepted());
            refused.extend(failed.map(|sent| sent.event.subject()));
            all.add(result);
        }
        if all.is_cut {
            break;
        }
    }
    all
}

/// Stages of each campaign. Campaigns are in the order of their first event.
fn by_campaign(events: Vec<WebhookEvent>) -> Vec<Vec<Stage>> {
    let mut campaigns: Vec<Vec<WebhookEvent>> = Vec::new();
    let mut places: HashMap<Option<CampaignId>, usize> = HashMap::new();
    for event in events {
        let campaign = event.data.as_ref().map(|data| data.campaign);
        let place = *places.entry(campaign).or_insert(campaigns.len());
        match campaigns.get_mut(place) {
            Some(campaign) => campaign.push(event),
            None => campaigns.push(vec![event]),
        }
    }
    campaigns.into_iter().map(stages).collect()
}

/// Stages of one campaign: each event of the campaign itself is a stage of its own.
fn stages(events: Vec<WebhookEvent>) -> Vec<Stage> {
    let mut stages: Vec<Stage> = Vec::new();
    let mut places: HashMap<i64, usize> = HashMap::new();
    let mut is_open = false;
    for event in events {
        let number = event.data.as_ref().and_then(|data| data.number);
        match (number, stages.last_mut()) {
            (Some(number), Some(stage)) if is_open => {
                let place = *places.entry(number).or_insert(stage.len());
                match stage.get_mut(place) {
                    Some(queue) => queue.push(event),
                    None => stage.push(vec![event]),
                }
            }
            (number, _) => {
                is_open = number.is_some();
                places = number.map(|number| (number, 0)).into_iter().collect();
                stages.push(vec![vec![event]]);
            }
        }
    }
    stages
}

#[cfg(test)]
mod tests {
    use qiang_core::{
        campaign::CampaignKind,
        webhook::{EventData, EventType},
    };
    use uuid::Uuid;

    use super::*;

    fn event(place: i64, number: Option<i64>) -> WebhookEvent {
        let campaign = uuid::Builder::from_unix_timestamp_millis(1, &[0; 10]).into_uuid();
        WebhookEvent {
            place,
            kind: EventType::OrderHeld,
            data: Some(EventData {
                campaign: CampaignId::new(campaign).unwrap(),
                campaign_kind: CampaignKind::Sale,
                owner: "shop".to_owned(),
                currency: "CNY".parse().unwrap(),
                number,
                user: None,
                quantity: 1,
                amount_minor: 1,
                payment: None,
                reference: None,
            }),
            ..WebhookEvent::test(Uuid::nil(), Timestamp::from_millis(0))
        }
    }

    #[test]
    fn an_event_of_the_campaign_is_a_stage_between_its_orders() {
        let numbers = [Some(1), Some(2), Some(1), None, Some(2), Some(3), None];
        let events = (1..).zip(numbers).map(|(n, number)| event(n, number));
        let stages = stages(events.collect());
        let places = |queue: &Vec<WebhookEvent>| -> Vec<i64> {
            queue.iter().map(|event| event.place).collect()
        };
        let places: Vec<Vec<Vec<i64>>> = stages
            .iter()
            .map(|stage| stage.iter().map(places).collect())
            .collect();
        let expected = vec![
            vec![vec![1, 3], vec![2]],
            vec![vec![4]],
            vec![vec![5], vec![6]],
            vec![vec![7]],
        ];
        assert_eq!(places, expected);
    }
}
