//! Effects of the actions on a state.

use super::*;

impl PartitionModel {
    pub(crate) fn new(rules: Rules, bounds: Bounds) -> Self {
        Self { rules, bounds }
    }

    pub(super) fn execute(&self, state: &mut State, request: Request) {
        let at = request.to;
        let server = &mut state.servers[at];
        if !matches!(server.role, Role::Primary | Role::Isolated) {
            return;
        }
        let isolated = server.role == Role::Isolated;
        let id = server.id;
        let data = &mut server.data;
        if data.phase != Phase::Open {
            return;
        }
        if self.rules.terms && (request.term != data.term() || data.term().server != id) {
            return;
        }
        if (data.log.len() as u8) < request.min_head {
            data.phase = Phase::Halted;
            return;
        }
        let kept = data.kept[request.node].filter(|_| self.rules.kept_replies);
        let answer = match kept {
            Some((number, answer)) if number >= request.number => answer,
            _ => {
                let call = (request.node, request.number);
                let share = data.decide(request.user, call, &self.bounds);
                // Entries that an isolated primary appends are lost.
                state.lost |= isolated;
                let seq = data.log.len() as u8;
                data.kept[request.node] = Some((request.number, Answer { share, seq }));
                Answer { share, seq }
            }
        };
        state.responses.insert(Response {
            node: request.node,
            number: request.number,
            term: request.term,
            answer,
            from: at,
        });
    }

    pub(super) fn deliver(&self, state: &mut State, response: Response) {
        let replicated = |share: u8| {
            let replica = state
                .servers
                .iter()
                .find(|server| server.role == Role::Replica);
            replica.is_some_and(|server| server.data.holder(share).is_some())
        };
        let confirmed = response.answer.share.is_some_and(replicated);
        let node = &mut state.nodes[response.node];
        let Some(user) = node.waiting.filter(|_| node.calls == response.number) else {
            return;
        };
        if self.rules.terms && node.term != response.term {
            // The answer counts as lost: the call is sent again in the new term.
            return;
        }
        node.waiting = None;
        node.observed = node.observed.max(response.answer.seq);
        if let Some(share) = response.answer.share {
            let call = (response.node, response.number);
            let entry = Entry::Granted { share, user, call };
            node.answered.push((response.answer.seq, entry));
            state.told.insert((user, share));
            if confirmed {
                state.told_replicated.insert((user, share));
            }
        }
    }

    /// Presence call of a node: a new primary starts a new term, and the node reports its observations.
    pub(super) fn presence(&self, state: &mut State, id: usize) {
        let node = &mut state.nodes[id];
        let at = node.server;
        let server = &mut state.servers[at];
        if !matches!(server.role, Role::Primary | Role::Isolated) {
            return;
        }
        let server_id = server.id;
        let data = &mut server.data;
        let present = data.term();
        // Two servers may have started a term with the same number.
        let conflict = node.term.number == present.number && node.term != present;
        if data.phase != Phase::Halted && (present.server != server_id || conflict) {
            data.begin(
                present.epoch,
                node.term.number.max(present.number) + 1,
                server_id,
            );
        }
        let present = data.term();
        if present.number < node.term.number {
            // The server is stale, so the node will look for another one.
            return;
        }
        if node.term != present {
            // The node learns the term. From here on, answers of earlier terms are invalid.
            node.before = node.before.or(Some(node.term));
            node.term = present;
            return;
        }
        if node.observed > data.limit(node.before) {
            data.phase = Phase::Halted;
        }
        node.before = None;
        data.reports[id] = true;
        let all = data.reports.iter().all(|reported| *reported);
        if data.phase == Phase::Gathering && (all || !self.rules.gathering) {
            data.phase = Phase::Open;
        }
    }

    /// Rebuilds the partition from the surviving log, the ledger and the nodes' answers. The partition stays halted
    /// during the repair and may fail over.
    pub(super) fn repair(&self, state: &mut State) {
        let Some(at) = state
            .servers
            .iter()
            .position(|server| server.role == Role::Primary)
        else {
            return;
        };
        // All live nodes have reported their observations and their answers.
        let observed = state
            .nodes
            .iter()
            .map(|node| node.observed)
            .max()
            .unwrap_or(0);
        let length = observed.max(state.ledger.len() as u8);
        let answered: Vec<_> = state
            .nodes
            .iter()
            .flat_map(|node| node.answered.clone())
            .collect();
        let server_id = state.servers[at].id;
        let data = &mut state.servers[at].data;
        let survived = data.log.len();
        data.log.extend(state.ledger.iter().skip(survived).copied());
        if self.rules.repair_from_answers {
            for (_, entry) in answered {
                let (share, user) = (entry.share().unwrap(), entry.user().unwrap());
                let free = data.holder(share).is_none();
                let new = data.share_of(user).is_none() || self.bounds.many_a_user;
                if free && new {
                    data.log.push(entry);
                }
            }
        }
        while (data.log.len() as u8) < length {
            if self.rules.withhold {
                let next = data.free(&self.bounds);
                data.withheld.extend(next);
            }
            data.log.push(Entry::Void);
        }
        state.repairing = Some(server_id);
    }

    /// Lets the rebuilt partition continue.
    pub(super) fn end_repair(&self, state: &mut State) {
        let Some(rebuilt) = state.repairing.take() else {
            return;
        };
        let server = state
            .servers
            .iter_mut()
            .find(|server| server.role == Role::Primary);
        let Some(server) = server else { return };
        let server_id = server.id;
        let data = &mut server.data;
        if data.phase != Phase::Halted || self.rules.repair_fenced && rebuilt != server_id {
            return;
        }
        let Term { epoch, number, .. } = data.term();
        data.terms.clear();
        data.begin(epoch + 1, number + 1, server_id);
        data.repaired = Some(data.log.len() as u8);
        data.kept = [None; NODES];
        data.phase = Phase::Open;
    }
}

impl Data {
    pub(super) fn term(&self) -> Term {
        *self.terms.last().expect("a partition has a term")
    }

    fn begin(&mut self, epoch: u8, number: u8, server: usize) {
        let began = self.log.len() as u8;
        self.terms.push(Term {
            epoch,
            number,
            server,
            began,
        });
        self.reports = [false; NODES];
        self.phase = Phase::Gathering;
    }

    /// Position up to which the log still equals the observations of an earlier term.
    fn limit(&self, before: Option<Term>) -> u8 {
        let length = self.log.len() as u8;
        let Some(before) = before else { return length };
        if before.epoch != self.term().epoch {
            return self.repaired.unwrap_or(0);
        }
        let later = self.terms.iter().filter(|term| term.number > before.number);
        let last = later.map(|term| term.began).fold(length, u8::min);
        // A term outside this history is valid only up to its start.
        match self.terms.contains(&before) {
            true => last,
            false => last.min(before.began),
        }
    }

    pub(super) fn holder(&self, share: u8) -> Option<u8> {
        let found = self.log.iter().find(|entry| entry.share() == Some(share));
        found.and_then(|entry| entry.user())
    }

    fn share_of(&self, user: u8) -> Option<u8> {
        let found = self.log.iter().find(|entry| entry.user() == Some(user));
        found.and_then(|entry| entry.share())
    }

    fn free(&self, bounds: &Bounds) -> Option<u8> {
        (1..=bounds.shares)
            .find(|share| self.holder(*share).is_none() && !self.withheld.contains(share))
    }

    fn decide(&mut self, user: u8, call: (usize, u8), bounds: &Bounds) -> Option<u8> {
        let held = self.share_of(user).filter(|_| !bounds.many_a_user);
        held.or_else(|| {
            let share = self.free(bounds)?;
            self.log.push(Entry::Granted { share, user, call });
            Some(share)
        })
    }
}
