//! Units that move between two partitions, each on a primary with a replica of its own.

use stateright::{Model, Property};

pub(crate) const NO_OVERSELL: &str = "no more units are granted than there are";
pub(crate) const NOTHING_VANISHES: &str = "all units are somewhere while nothing is halted";

const SUPPLY: u8 = 2;
const GIVER: usize = 0;
const TAKER: usize = 1;

/// The model: whether each step of a transfer is an entry of the log.
pub(crate) struct TransferModel {
    pub(crate) logged: bool,
}

/// What Redis has of one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Part {
    remaining: u8,
    granted: u8,
    /// The giver's journal: units under way.
    moving: u8,
    /// The taker's: it has taken the transfer of this number.
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
    /// What the node has observed of each partition.
    observed: [u8; 2],
    /// What users were told they have.
    told: u8,
    failovers: u8,
    /// The step of the transfer that the node has in hand: its number, and whether it has arrived.
    step: Option<(u8, bool)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Grant(usize),
    Out,
    In,
    End,
    /// Somebody finds the transfer in the journal.
    Resume,
    Replicate(usize),
    Failover(usize),
    Gather(usize),
}

impl TransferModel {
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
            told: 0,
            failovers: 0,
            step: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend([Action::Out, Action::In, Action::End, Action::Resume]);
        for at in [GIVER, TAKER] {
            actions.extend([Action::Grant(at), Action::Replicate(at), Action::Gather(at)]);
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
                state.told += 1;
            }
            Action::Out => {
                let part = &mut state.primaries[GIVER];
                if !open(GIVER) || part.remaining == 0 || part.moving > 0 || part.sent == 2 {
                    return None;
                }
                part.remaining -= 1;
                part.moving = 1;
                part.sent += 1;
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
                // The node that carried the transfer out may be another one now.
                state.step = None;
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
            Property::always(NO_OVERSELL, |_, state: &State| state.told <= SUPPLY),
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
        ]
    }
}
