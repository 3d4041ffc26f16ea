//! Model of one partition with two nodes, a primary and its replica, and a ledger.

mod steps;

mod bounds;

pub(crate) use self::bounds::Bounds;
use std::collections::BTreeSet;

use stateright::{Model, Property};

use crate::protocol::rules::Rules;

pub(crate) const ONE_USER_A_SHARE: &str = "a share is granted to one user";
pub(crate) const A_RETRY_IS_A_REPLAY: &str = "a user gets answers with one share only";
pub(crate) const ONE_GRANT_A_CALL: &str = "a call is carried out once";
pub(crate) const HALTED_FOR_A_LOSS: &str = "a partition halts only for a loss";
pub(crate) const REPLICATED_IS_KEPT: &str = "data that a replica confirmed is kept";
pub(crate) const LEDGER_FOLLOWS: &str = "the ledger has no share and no user twice";

const NODES: usize = 2;

/// An entry of the log. It is void if no node can name it after a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Entry {
    Granted {
        share: u8,
        user: u8,
        call: (usize, u8),
    },
    Void,
}

impl Entry {
    fn share(self) -> Option<u8> {
        match self {
            Self::Granted { share, .. } => Some(share),
            Self::Void => None,
        }
    }

    fn user(self) -> Option<u8> {
        match self {
            Self::Granted { user, .. } => Some(user),
            Self::Void => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Phase {
    Open,
    Gathering,
    Halted,
}

/// A leadership term: the time of one server as the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Term {
    /// A repair starts a new epoch.
    epoch: u8,
    number: u8,
    /// Its replication id.
    server: usize,
    /// Length of the log at the start of the term.
    began: u8,
}

/// Data of the partition in Redis, which is replicated.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Data {
    /// Terms of this epoch; the current one is last.
    terms: Vec<Term>,
    /// Last position covered by the repair that started this epoch.
    repaired: Option<u8>,
    phase: Phase,
    log: Vec<Entry>,
    /// Shares that a repair withholds.
    withheld: BTreeSet<u8>,
    /// Nodes that have reported their earlier observations in this term.
    reports: [bool; NODES],
    /// Number and answer of each node's last call.
    kept: [Option<(u8, Answer)>; NODES],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Role {
    Primary,
    Replica,
    /// A former primary without a connection to its replica that still answers.
    Isolated,
    Dead,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Server {
    role: Role,
    /// Its replication id as a primary, which changes with each promotion.
    id: usize,
    data: Data,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Answer {
    share: Option<u8>,
    seq: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Node {
    server: usize,
    term: Term,
    /// The earlier term with observations that are not reported yet.
    before: Option<Term>,
    /// The last entry that the node has observed.
    observed: u8,
    calls: u8,
    /// User of the call in flight.
    waiting: Option<u8>,
    /// Answers given: position and entry, with share, user and call.
    answered: Vec<(u8, Entry)>,
    /// Whether the node has stopped granting finally.
    halted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Request {
    node: usize,
    number: u8,
    user: u8,
    to: usize,
    term: Term,
    min_head: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Response {
    node: usize,
    number: u8,
    term: Term,
    answer: Answer,
    from: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    servers: [Server; 2],
    nodes: [Node; NODES],
    requests: BTreeSet<Request>,
    responses: BTreeSet<Response>,
    /// Answers to users: user and share.
    told: BTreeSet<(u8, u8)>,
    /// Answers given after the replica had confirmed the entry.
    told_replicated: BTreeSet<(u8, u8)>,
    ledger: Vec<Entry>,
    failovers: u8,
    repairs: u8,
    /// Replication id of the server with an unfinished repair.
    repairing: Option<usize>,
    resends: u8,
    /// Whether entries of the primary were lost.
    lost: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Send(usize, u8),
    Resend(usize),
    Execute(Request),
    Deliver(Response),
    Replicate,
    Failover { kills: bool },
    Rejoin,
    Reconnect(usize),
    Presence(usize),
    ReadHead(usize),
    Settle(usize),
    Repair,
    EndRepair,
}

pub(crate) struct PartitionModel {
    rules: Rules,
    bounds: Bounds,
}

impl Model for PartitionModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let term = Term {
            epoch: 0,
            number: 1,
            server: 0,
            began: 0,
        };
        let data = Data {
            terms: vec![term],
            repaired: None,
            phase: Phase::Open,
            log: Vec::new(),
            withheld: BTreeSet::new(),
            reports: [true; NODES],
            kept: [None; NODES],
        };
        let server = |role| Server {
            role,
            id: 0,
            data: data.clone(),
        };
        let node = Node {
            server: 0,
            term,
            before: None,
            observed: 0,
            calls: 0,
            waiting: None,
            answered: Vec::new(),
            halted: false,
        };
        vec![State {
            servers: [server(Role::Primary), server(Role::Replica)],
            nodes: [node.clone(), node],
            requests: BTreeSet::new(),
            responses: BTreeSet::new(),
            told: BTreeSet::new(),
            told_replicated: BTreeSet::new(),
            ledger: Vec::new(),
            failovers: 0,
            repairs: 0,
            repairing: None,
            resends: 0,
            lost: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (id, node) in state.nodes.iter().enumerate() {
            let next = self.bounds.users[id].get(usize::from(node.calls));
            if let Some(user) = next
                && node.waiting.is_none()
                && !node.halted
            {
                actions.push(Action::Send(id, *user));
            }
            if node.waiting.is_some() && state.resends < self.bounds.resends {
                actions.push(Action::Resend(id));
            }
            if state.servers[node.server].role != Role::Primary {
                actions.push(Action::Reconnect(id));
            }
            if self.rules.terms {
                actions.push(Action::Presence(id));
            }
            if !self.rules.fenced_reads {
                actions.push(Action::ReadHead(id));
            }
        }
        if self.bounds.settles {
            actions.push(Action::Settle(0));
        }
        actions.extend(state.requests.iter().copied().map(Action::Execute));
        actions.extend(state.responses.iter().copied().map(Action::Deliver));
        let has = |role| state.servers.iter().any(|server| server.role == role);
        if has(Role::Replica) {
            actions.push(Action::Replicate);
            if state.failovers < self.bounds.failovers {
                actions.push(Action::Failover { kills: true });
                actions.push(Action::Failover { kills: false });
            }
        } else if state.failovers < self.bounds.failovers {
            actions.push(Action::Rejoin);
        }
        // All live nodes have reported their answers in this term. Later answers of earlier terms are invalid.
        let offered =
            |data: &Data| data.reports.iter().all(|reported| *reported) || !self.rules.repair_waits;
        let halted = |server: &Server| {
            let data = &server.data;
            server.role == Role::Primary && data.phase == Phase::Halted && offered(data)
        };
        if state.repairing.is_some() {
            actions.push(Action::EndRepair);
        }
        if self.rules.terms
            && state.repairing.is_none()
            && state.repairs < self.bounds.repairs
            && state.servers.iter().any(halted)
        {
            actions.push(Action::Repair);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Send(id, user) => {
                let node = &mut state.nodes[id];
                node.calls += 1;
                node.waiting = Some(user);
                let request = request(id, node, user);
                state.requests.insert(request);
            }
            Action::Resend(id) => {
                let node = &state.nodes[id];
                let again = request(id, node, node.waiting?);
                state.resends += 1;
                state.requests.insert(again);
            }
            Action::Execute(request) => {
                state.requests.remove(&request);
                self.execute(&mut state, request);
            }
            Action::Deliver(response) => {
                state.responses.remove(&response);
                self.deliver(&mut state, response);
            }
            Action::Replicate => {
                let primary = state
                    .servers
                    .iter()
                    .find(|server| server.role == Role::Primary)?;
                let data = primary.data.clone();
                let replica = state
                    .servers
                    .iter_mut()
                    .find(|server| server.role == Role::Replica)?;
                replica.data = data;
            }
            Action::Failover { kills } => {
                let old = state
                    .servers
                    .iter()
                    .position(|server| server.role == Role::Primary)?;
                let new = 1 - old;
                let (had, has) = (&state.servers[old].data, &state.servers[new].data);
                state.lost |= had.log.len() > has.log.len();
                state.servers[old].role = match kills {
                    true => Role::Dead,
                    false => Role::Isolated,
                };
                state.failovers += 1;
                state.servers[new].role = Role::Primary;
                state.servers[new].id = usize::from(state.failovers);
            }
            Action::Rejoin => {
                // It drops its data and follows the primary.
                let primary = state
                    .servers
                    .iter()
                    .find(|server| server.role == Role::Primary)?;
                let data = primary.data.clone();
                let other = state
                    .servers
                    .iter_mut()
                    .find(|server| server.role != Role::Primary)?;
                other.data = data;
                other.role = Role::Replica;
            }
            Action::Reconnect(id) => {
                let primary = state
                    .servers
                    .iter()
                    .position(|server| server.role == Role::Primary)?;
                state.nodes[id].server = primary;
            }
            Action::Presence(id) => self.presence(&mut state, id),
            Action::ReadHead(id) => {
                // Any server that answers is trusted.
                for server in &state.servers {
                    let head = server.data.log.len() as u8;
                    if server.role != Role::Dead && head < state.nodes[id].observed {
                        state.nodes[id].halted = true;
                    }
                }
            }
            Action::Settle(id) => {
                let node = &mut state.nodes[id];
                let server = &state.servers[node.server];
                let replica = state
                    .servers
                    .iter()
                    .find(|server| server.role == Role::Replica)?;
                let next = state.ledger.len();
                let entry = *server.data.log.get(next)?;
                // Settled are only entries that replicas have, read from the primary that they follow.
                if server.role != Role::Primary
                    || server.data.term() != node.term
                    || server.data.phase != Phase::Open
                    || replica.data.log.get(next) != Some(&entry)
                {
                    return None;
                }
                node.observed = node.observed.max(next as u8 + 1);
                state.ledger.push(entry);
            }
            Action::Repair => {
                state.repairs += 1;
                self.repair(&mut state);
            }
            Action::EndRepair => self.end_repair(&mut state),
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_USER_A_SHARE, |_, state: &State| {
                let told = &state.told;
                told.iter()
                    .all(|a| told.iter().all(|b| a.1 != b.1 || a.0 == b.0))
            }),
            Property::always(A_RETRY_IS_A_REPLAY, |model: &Self, state: &State| {
                let told = &state.told;
                model.bounds.many_a_user
                    || told
                        .iter()
                        .all(|a| told.iter().all(|b| a.0 != b.0 || a.1 == b.1))
            }),
            Property::always(ONE_GRANT_A_CALL, |_, state: &State| {
                let log = |server: &Server| {
                    server.role != Role::Isolated && {
                        let calls: Vec<_> = server
                            .data
                            .log
                            .iter()
                            .filter_map(|entry| match entry {
                                Entry::Granted { call, .. } => Some(*call),
                                Entry::Void => None,
                            })
                            .collect();
                        let once: BTreeSet<_> = calls.iter().collect();
                        once.len() != calls.len()
                    }
                };
                !state.servers.iter().any(log)
            }),
            Property::always(HALTED_FOR_A_LOSS, |_, state: &State| {
                let halted = |server: &Server| server.data.phase == Phase::Halted;
                state.lost
                    || !state.servers.iter().any(halted)
                        && !state.nodes.iter().any(|node| node.halted)
            }),
            Property::always(REPLICATED_IS_KEPT, |_, state: &State| {
                let primary = state
                    .servers
                    .iter()
                    .find(|server| server.role == Role::Primary);
                primary.is_none_or(|server| {
                    let told = state.told_replicated.iter();
                    told.into_iter()
                        .all(|(user, share)| server.data.holder(*share) == Some(*user))
                })
            }),
            Property::always(LEDGER_FOLLOWS, |model: &Self, state: &State| {
                let once = |key: fn(Entry) -> Option<u8>| {
                    let keys: Vec<_> = state.ledger.iter().copied().filter_map(key).collect();
                    let set: BTreeSet<_> = keys.iter().collect();
                    set.len() == keys.len()
                };
                once(Entry::share) && (model.bounds.many_a_user || once(Entry::user))
            }),
            Property::sometimes("all shares are granted", |model: &Self, state: &State| {
                state.told.len() == usize::from(model.bounds.shares) || model.bounds.many_a_user
            }),
            Property::sometimes("a later term grants", |_, state: &State| {
                let grants = |node: &Node| {
                    node.term.number > 1 && node.observed > 0 && !node.answered.is_empty()
                };
                state.nodes.iter().any(grants)
            }),
            Property::sometimes(
                "a partition that was repaired grants",
                |model: &Self, state: &State| {
                    state.repairs > 0 && !state.told.is_empty() || model.bounds.repairs == 0
                },
            ),
        ]
    }
}

fn request(id: usize, node: &Node, user: u8) -> Request {
    Request {
        node: id,
        number: node.calls,
        user,
        to: node.server,
        term: node.term,
        min_head: node.observed,
    }
}
