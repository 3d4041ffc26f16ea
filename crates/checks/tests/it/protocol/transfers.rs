//! Model of transfers between two partitions, each on a primary with its own replica, and of the repair of a lost
//! shard. The repaired shard gets its users' units and all units that the other shard does not have.

use stateright::{Model, Property};

pub(crate) const NO_OVERSELL: &str = "the granted units do not exceed the supply";
pub(crate) const NOTHING_VANISHES: &str = "no unit is missing while no partition is halted";

const SUPPLY: u8 = 2;
const GIVER: usize = 0;
const TAKER: usize = 1;

/// Model of transfers.
pub(crate) struct TransferModel {
    /// Whether each step of a transfer is an entry of the log.
    pub(crate) logged: bool,
    /// Whether a repair also uses the other shard's data, and not only its own shard's.
    pub(crate) counts_others: bool,
    /// Whether a repair blocks transfers that started before it and arrive later.
    pub(crate) shuts_out: bool,
}

impl TransferModel {
    pub(crate) const SOUND: Self = Self {
        logged: true,
        counts_others: true,
        shuts_out: true,
    };
}

/// Data of one shard in Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Part {
    remaining: u8,
    granted: u8,
    /// Journal of the sender: units in flight.
    moving: u8,
    /// Journal of the receiver: number of the last received transfer.
    taken: u8,
    sent: u8,
    seq: u8,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    Open,
    Gathering,
    Halted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct State {
    primaries: [Part; 2],
    replicas: [Part; 2],
    /// Position that the node has observed, per partition.
    observed: [u8; 2],
    /// Units in answers to users, per shard. Nodes keep these answers.
    told: [u8; 2],
    failovers: u8,
    /// Number of started transfers.
    outs: u8,
    /// Current step of the node's transfer: its number, and whether it has arrived.
    step: Option<(u8, bool)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Grant(usize),
    Out,
    In,
    End,
    /// A node finds the transfer in the journal and continues it.
    Resume,
    Replicate(usize),
    Failover(usize),
    Gather(usize),
    Repair(usize),
}

impl TransferModel {
    /// Repairs a shard, together with the other one if that has lost entries too.
    fn repair(&self, state: &mut State, at: usize) {
        let other = GIVER + TAKER - at;
        let both = state.primaries[other].phase == Phase::Halted;
        for part in 0..2 {
            if part == at || both {
                let end = state.primaries[part].seq.max(state.observed[part]);
                state.primaries[part].seq = end;
            }
        }
        let is_giver = at == GIVER || both;
        if is_giver {
            // Each started transfer is an entry.
            state.primaries[GIVER].sent = state.primaries[GIVER].seq;
        }
        let giver = state.primaries[GIVER];
        if self.shuts_out {
            state.primaries[TAKER].taken = giver.sent;
        }
        // A change of the shard that lost nothing is an entry of its log.
        if at == GIVER && !both && self.shuts_out {
            self.append(state, TAKER);
        }
        if at == TAKER && !both && self.counts_others && giver.moving > 0 {
            self.append(state, GIVER);
        }
        if !self.counts_others {
            let part = &mut state.primaries[at];
            let units = part.remaining + part.granted;
            part.granted = state.told[at];
            part.remaining = units.saturating_sub(part.granted);
            part.phase = Phase::Open;
            return;
        }
        state.primaries[GIVER].moving = 0;
        let elsewhere = match both {
            true => 0,
            false => state.primaries[other].remaining + state.primaries[other].granted,
        };
        let left = SUPPLY.saturating_sub(elsewhere);
        let granted = |part: usize| state.told[part];
        let free = match both {
            true => left.saturating_sub(granted(at) + granted(other)),
            false => left.saturating_sub(granted(at)),
        };
        let (told, parts) = (state.told, &mut state.primaries);
        parts[at].granted = told[at];
        parts[at].remaining = free;
        parts[at].phase = Phase::Open;
        if both {
            parts[other].granted = told[other];
            parts[other].remaining = 0;
            parts[other].phase = Phase::Open;
        }
    }

    fn append(&self, state: &mut State, at: usize) {
        if self.logged {
            state.primaries[at].seq += 1;
            state.observed[at] = state.observed[at].max(state.primaries[at].seq);
        }
    }
}

impl Model for TransferModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let part = |remaining| Part {
            remaining,
            granted: 0,
            moving: 0,
            taken: 0,
            sent: 0,
            seq: 0,
            phase: Phase::Open,
        };
        let parts = [part(SUPPLY), part(0)];
        vec![State {
            primaries: parts,
            replicas: parts,
            observed: [0; 2],
            told: [0; 2],
            failovers: 0,
            outs: 0,
            step: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend([Action::Out, Action::In, Action::End, Action::Resume]);
        for at in [GIVER, TAKER] {
            actions.extend([Action::Grant(at), Action::Replicate(at), Action::Gather(at)]);
            actions.push(Action::Repair(at));
            if state.failovers < 2 {
                actions.push(Action::Failover(at));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = *last;
        let open = |at: usize| last.primaries[at].phase == Phase::Open;
        match action {
            Action::Grant(at) => {
                let part = &mut state.primaries[at];
                if !open(at) || part.remaining == 0 {
                    return None;
                }
                part.remaining -= 1;
                part.granted += 1;
                part.seq += 1;
                state.observed[at] = state.observed[at].max(part.seq);
                state.told[at] += 1;
            }
            Action::Out => {
                let part = &mut state.primaries[GIVER];
                if !open(GIVER) || part.remaining == 0 || part.moving > 0 || state.outs == 2 {
                    return None;
                }
                part.remaining -= 1;
                part.moving = 1;
                part.sent += 1;
                state.outs += 1;
                state.step = Some((part.sent, false));
                self.append(&mut state, GIVER);
            }
            Action::In => {
                let (number, false) = state.step? else {
                    return None;
                };
                if !open(TAKER) {
                    return None;
                }
                let part = &mut state.primaries[TAKER];
                if part.taken < number {
                    part.remaining += 1;
                    part.taken = number;
                    self.append(&mut state, TAKER);
                }
                state.step = Some((number, true));
            }
            Action::End => {
                let (number, true) = state.step? else {
                    return None;
                };
                let part = &mut state.primaries[GIVER];
                if !open(GIVER) {
                    return None;
                }
                if part.moving > 0 && part.sent == number {
                    part.moving = 0;
                    self.append(&mut state, GIVER);
                }
                state.step = None;
            }
            Action::Resume => {
                let part = &state.primaries[GIVER];
                if !open(GIVER) || part.moving == 0 || state.step.is_some() {
                    return None;
                }
                state.step = Some((part.sent, false));
            }
            Action::Replicate(at) => state.replicas[at] = state.primaries[at],
            Action::Failover(at) => {
                state.primaries[at] = state.replicas[at];
                if state.primaries[at].phase == Phase::Open {
                    state.primaries[at].phase = Phase::Gathering;
                }
                state.replicas[at] = state.primaries[at];
                state.failovers += 1;
                // The node of a transfer may continue it after a failover of the sender.
            }
            Action::Repair(at) => {
                let other = last.primaries[GIVER + TAKER - at].phase;
                if last.primaries[at].phase != Phase::Halted || other == Phase::Gathering {
                    return None;
                }
                self.repair(&mut state, at);
            }
            Action::Gather(at) => {
                let part = &mut state.primaries[at];
                if part.phase != Phase::Gathering {
                    return None;
                }
                part.phase = match state.observed[at] > part.seq {
                    true => Phase::Halted,
                    false => Phase::Open,
                };
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NO_OVERSELL, |_, state: &State| {
                state.told.iter().sum::<u8>() <= SUPPLY
            }),
            Property::always(NOTHING_VANISHES, |_, state: &State| {
                let open = |part: &Part| part.phase == Phase::Open;
                let [giver, taker] = &state.primaries;
                let under_way = match giver.moving > 0 && taker.taken < giver.sent {
                    true => giver.moving,
                    false => 0,
                };
                let units = |part: &Part| part.remaining + part.granted;
                !open(giver) || !open(taker) || units(giver) + units(taker) + under_way == SUPPLY
            }),
            Property::sometimes("units arrive and are granted", |_, state: &State| {
                state.primaries[TAKER].granted > 0
            }),
            Property::sometimes("a loss is noticed", |_, state: &State| {
                state
                    .primaries
                    .iter()
                    .any(|part| part.phase == Phase::Halted)
            }),
            Property::sometimes("a repaired shard grants", |_, state: &State| {
                let open = |part: &Part| part.phase == Phase::Open && part.seq > 0;
                state.failovers > 0 && state.primaries.iter().all(open) && state.told[TAKER] > 0
            }),
        ]
    }
}
