//! Union of the state that engine, ledger and nodes have of a part.

mod cancellations;
mod entries;
mod hold_extensions;
mod kept_answers;
mod payments;
mod returns;

use super::*;

/// Union under construction.
pub(super) struct Union<'a> {
    survey: &'a Survey<'a>,
    /// Rows of the ledger after the entries in flight are settled.
    settled: &'a PartRows,
    rows: PartRows,
    /// Units of each user.
    held: HashMap<UserId, u64>,
    granted: u64,
    supply: u64,
    funded_minor: i64,
    /// Amounts of the shares that the engine can still grant.
    amounts: BTreeMap<u32, i64>,
    /// Number of each user's share.
    shares_of: HashMap<UserId, u32>,
    removed: Vec<(UserId, u32)>,
    conflicts: Vec<Difference>,
    /// Returns of parts that nodes have answered, by order.
    kept_returns: BTreeMap<u32, Vec<&'a ReturnPart>>,
    /// Cancellations of parts that nodes have answered, by order.
    kept_cancellations: BTreeMap<u32, Vec<&'a ReturnPart>>,
    /// Number of steps of orders, payments and returns that were added.
    steps_made: u64,
}

impl<'a> Union<'a> {
    pub(super) fn from_survey(survey: &'a Survey<'a>, settled: &'a PartRows) -> Self {
        let mut rows = settled.clone();
        rows.phase = phase_of(survey, rows.phase);
        let mut kept_returns: BTreeMap<u32, Vec<&ReturnPart>> = BTreeMap::new();
        let mut kept_cancellations: BTreeMap<u32, Vec<&ReturnPart>> = BTreeMap::new();
        for entry in survey.kept {
            match &entry.event {
                Event::Returned {
                    number,
                    part: Some(part),
                } => kept_returns.entry(*number).or_default().push(part),
                Event::PartCancelled { number, part } => {
                    kept_cancellations.entry(*number).or_default().push(part);
                }
                _ => {}
            }
        }
        let mut union = Self {
            survey,
            settled,
            held: HashMap::new(),
            granted: 0,
            supply: survey.engine.supply,
            funded_minor: survey.engine.funded_minor,
            amounts: survey.engine.shares.iter().copied().collect(),
            shares_of: HashMap::new(),
            removed: Vec::new(),
            conflicts: Vec::new(),
            kept_returns,
            kept_cancellations,
            steps_made: 0,
            rows: PartRows::new(rows.phase),
        };
        union.rows.payments = rows.payments;
        union.rows.returns = rows.returns;
        union.rows.cancellations = rows.cancellations;
        for (number, row) in rows.grants {
            union.insert(number, row);
        }
        if let Some((units, minor)) = survey.closed_with() {
            (union.supply, union.funded_minor) = (units, minor);
        }
        union
    }

    fn facts(&self) -> &'a PartFacts {
        &self.survey.facts
    }

    /// Adds a row without a check of supply and limit.
    fn insert(&mut self, number: u32, row: GrantRow) {
        if row.state.keeps_units() {
            self.granted += u64::from(row.units());
            *self.held.entry(row.user.clone()).or_default() += u64::from(row.units());
        }
        if self.facts().kind == CampaignKind::RedPacket {
            self.shares_of.insert(row.user.clone(), number);
            let engine = &self.survey.engine.rows.grants;
            let known = self.amounts.remove(&number).is_some() || engine.contains_key(&number);
            if !known && self.facts().fixed_shares {
                // The part received the share from another part, in a step that is lost.
                self.supply += 1;
                self.funded_minor += row.amount_minor;
            }
        }
        self.rows.grants.insert(number, row);
    }

    /// Adds the engine's rows that the ledger lacks, and the engine's later steps.
    pub(super) fn add_engine(&mut self) {
        let engine = &self.survey.engine.rows;
        let mut new = Vec::new();
        // Rows that restock units come before rows that need them.
        let (keeping, leaving): (Vec<_>, Vec<_>) = engine
            .grants
            .iter()
            .partition(|(_, row)| row.state.keeps_units());
        for (number, row) in leaving.into_iter().chain(keeping) {
            match self.rows.grants.get_mut(number) {
                Some(known) if known.user == row.user => {
                    known.key = row.key.clone().or(known.key.take());
                    self.follow_cancellations(*number);
                    self.extend_hold(*number, row.extension_ms);
                    if self.may_follow(*number, row.state) {
                        self.follow(*number, row);
                    }
                }
                Some(_) => self.refuse_engine(*number, row),
                None => new.push((*number, row)),
            }
        }
        for ((number, payment), state) in &engine.payments {
            self.add_payment(*number, payment, *state);
        }
        for (number, row) in new {
            match self.has_room(row) {
                true => {
                    self.insert(number, row.clone());
                    for (key, units) in engine.returns_of(number) {
                        self.rows.returns.insert((number, key.clone()), units);
                    }
                    for (key, units) in engine.cancellations_of(number) {
                        let key = (number, key.clone());
                        self.rows.cancellations.insert(key, units);
                    }
                }
                false => self.refuse_engine(number, row),
            }
        }
    }

    fn refuse_engine(&mut self, number: u32, row: &GrantRow) {
        self.removed.push((row.user.clone(), number));
        if self.facts().fixed_shares && !self.rows.grants.contains_key(&number) {
            self.amounts.insert(number, row.amount_minor);
        }
        self.conflict(number, row, true);
    }

    fn conflict(&mut self, number: u32, row: &GrantRow, of_engine: bool) {
        let standing = self.rows.grants.get(&number);
        let (engine, ledger) = match of_engine {
            true => (Some(row), standing),
            false => (standing, Some(row)),
        };
        let campaign = self.facts().campaign;
        let found = Difference::new(DifferenceKind::Double, campaign, number, engine, ledger);
        self.conflicts.extend(found);
    }

    fn add_step(&mut self, event: &Event) {
        let Some(number) = event.number() else { return };
        if !self.rows.grants.contains_key(&number) {
            return;
        }
        if let Event::Returned {
            part: Some(part), ..
        } = event
        {
            return self.return_part(number, part);
        }
        if matches!(event, Event::PartCancelled { .. }) {
            return self.cancel_kept_parts(number);
        }
        if let Event::HoldExtended { extension_ms, .. } = event {
            return self.extend_hold(number, *extension_ms);
        }
        if let Some((payment, state)) = self.payment_of_more_units(number, event) {
            return self.note_payment(number, payment, state);
        }
        let (state, payment) = match event {
            Event::Paid { payment, .. } if !self.may_pay(number, payment) => return,
            Event::Paid { payment, .. } | Event::Reinstated { payment, .. }
                if self.is_settled_as_owed(number, payment) =>
            {
                return;
            }
            Event::Paid { .. } | Event::Reinstated { .. } => {
                (Some(OrderState::Paid), event.payment())
            }
            Event::RefundDue { .. } => (None, event.payment()),
            Event::Cancelled { .. } => (Some(OrderState::Cancelled), None),
            Event::Expired { .. } => (Some(OrderState::Expired), None),
            Event::Returned { .. } if !self.is_paid(number) => return,
            Event::Returned { .. } => (Some(OrderState::Returned), None),
            _ => (None, None),
        };
        let came = state.is_none_or(|state| self.advance(number, state));
        if let Some((payment, state)) = payment.filter(|_| came) {
            self.note_payment(number, payment, state);
        }
    }

    fn is_paid(&self, number: u32) -> bool {
        let row = self.rows.grants.get(&number);
        row.is_some_and(|row| row.state == OrderState::Paid)
    }

    fn add_grant(&mut self, entry: &Entry) {
        let mut answered = PartRows::new(Phase::Scheduled);
        answered.apply(entry.at, &entry.event);
        self.cancel_kept_parts_of_new(&mut answered);
        let Some((number, row)) = answered.grants.pop_first() else {
            return;
        };
        match self.rows.grants.get_mut(&number) {
            Some(known) if known.user == row.user => {
                known.key = known.key.take().or(row.key);
                return;
            }
            Some(_) => return self.conflict(number, &row, false),
            None => {}
        }
        if !self.has_room(&row) {
            self.give_back();
        }
        self.make_room(&row);
        let amount = self.amounts.get(&number);
        let is_free = match self.facts().fixed_shares {
            _ if self.rows.phase == Phase::Closed => false,
            true => amount == Some(&row.amount_minor),
            false => true,
        };
        match is_free && self.has_room(&row) {
            true => {
                self.insert(number, row);
                self.rows.cancellations.append(&mut answered.cancellations);
            }
            false => self.conflict(number, &row, false),
        }
    }

    /// Applies the steps that restock units. A step without a known log position is sorted after the grants that reused
    /// its units.
    fn give_back(&mut self) {
        for entry in self.survey.kept {
            let gives_back = matches!(
                entry.event,
                Event::Cancelled { .. }
                    | Event::PartCancelled { .. }
                    | Event::Expired { .. }
                    | Event::Returned { .. }
            );
            if gives_back {
                self.add_step(&entry.event);
            }
        }
    }

    /// Whether a grant fits into the supply and the user's limit. Nothing fits into a part that the ledger has closed.
    fn has_room(&self, row: &GrantRow) -> bool {
        if self.survey.closed.is_some() {
            return false;
        }
        if self.facts().kind == CampaignKind::RedPacket {
            return self.granted < self.supply && !self.shares_of.contains_key(&row.user);
        }
        if !row.state.keeps_units() {
            return true;
        }
        let own = self.held.get(&row.user).copied().unwrap_or(0);
        let units = u64::from(row.units());
        let limit = self.facts().limit.map_or(u64::MAX, u64::from);
        self.granted + units <= self.supply && own + units <= limit
    }

    /// Makes room for a grant that was answered, and so had room. Lost entries must have ended orders before it: other
    /// orders of its user, or orders with an expired hold.
    fn make_room(&mut self, row: &GrantRow) {
        let is_open_sale = self.facts().kind == CampaignKind::Sale && self.survey.closed.is_none();
        if !is_open_sale || self.has_room(row) {
            return;
        }
        let hold_ms = self.facts().hold_ms;
        let is_due = |held: &GrantRow| {
            let length_ms = hold_ms.saturating_add(held.extension_ms);
            held.granted_at.plus_millis(length_ms) <= row.granted_at
        };
        let has_limit = self.facts().limit.is_some();
        let of_user = |held: &GrantRow| has_limit && held.user == row.user;
        let held = self.rows.grants.iter();
        let ended: Vec<(u32, OrderState)> = held
            .filter(|(_, held)| held.state == OrderState::Held && (is_due(held) || of_user(held)))
            .map(|(number, held)| match is_due(held) {
                true => (*number, OrderState::Expired),
                false => (*number, OrderState::Cancelled),
            })
            .collect();
        for (number, state) in ended {
            if self.has_room(row) {
                return;
            }
            self.advance(number, state);
        }
    }

    /// Moves an order to a later state. Returns whether the order has this state afterwards.
    fn advance(&mut self, number: u32, state: OrderState) -> bool {
        let Some(row) = self.rows.grants.get(&number) else {
            return false;
        };
        // No unit of a reinstated order was returned.
        let before = row.state;
        let units = match before.keeps_units() {
            true => u64::from(row.units()),
            false => u64::from(row.quantity),
        };
        if rank(state) <= rank(before) {
            return state == before;
        }
        let mut returns = None;
        match (before.keeps_units(), state.keeps_units()) {
            (true, false) => {
                let own = self.held.entry(row.user.clone()).or_default();
                *own = own.saturating_sub(units);
                self.granted -= units;
            }
            (false, true) => {
                // Reinstated: it took its units again, and returned some of them since. Those need no room.
                let taking = GrantRow {
                    state,
                    returned: self.units_of_kept_returns(number).min(row.quantity),
                    ..row.clone()
                };
                self.make_room(&taking);
                if !self.has_room(&taking) {
                    return false;
                }
                *self.held.entry(taking.user).or_default() += units;
                self.granted += units;
                returns = self.kept_returns.get(&number).cloned();
            }
            _ => {}
        }
        if let Some(row) = self.rows.grants.get_mut(&number) {
            row.step(state);
        }
        self.steps_made += 1;
        for part in returns.into_iter().flatten() {
            self.return_part(number, part);
        }
        true
    }

    pub(super) fn into_repair(mut self, append: Vec<(Timestamp, Event)>) -> Repair {
        self.report_unproven_returns();
        let facts = self.facts();
        let (engine, unnamed) = (&self.survey.engine, self.survey.unnamed);
        let is_packet = facts.kind == CampaignKind::RedPacket;
        let is_over = self.rows.phase == Phase::Closed;
        let (left, money) = self.remaining();
        let mut shares = self.shares_in_order();
        let mut withheld = WithheldUnits::default();
        if !is_over {
            withheld.units = self.units_withheld(left);
        }
        if facts.fixed_shares {
            withheld.shares = shares
                .drain(..(withheld.units as usize).min(shares.len()))
                .collect();
            withheld.amount_minor = withheld.shares.iter().map(|(_, amount)| amount).sum();
        } else if is_packet && withheld.units > 0 {
            // Amounts of later shares depend on the earlier ones, so all of the money is withheld.
            withheld.amount_minor = money;
        }
        let last = self.rows.grants.last_key_value();
        let mut numbered = match last {
            Some((last, _)) if !facts.fixed_shares => facts.ordinal_of(*last).max(engine.numbered),
            _ => engine.numbered,
        };
        if !facts.fixed_shares && !is_over {
            // A lost answer may have named these numbers to a user.
            numbered = numbered.saturating_add(u32::try_from(unnamed).unwrap_or(u32::MAX));
        }
        if let Some(chance) = self.survey.skips
            && !is_packet
            && !is_over
        {
            numbered = numbered.saturating_add(facts.ordinals_to_skip(numbered, chance));
        }
        let (remaining, returned) = match is_over {
            true => (0, left),
            false => (left - withheld.units, 0),
        };
        Repair {
            changed: self.changed(),
            refused_parts: self.refused_parts(),
            removed: self.removed,
            append,
            supply: self.supply - withheld.units,
            funded_minor: self.funded_minor - withheld.amount_minor,
            granted: self.granted,
            remaining,
            returned,
            refunded_minor: if is_over { money } else { 0 },
            shares: if is_over { Vec::new() } else { shares },
            withheld,
            numbered,
            conflicts: self.conflicts,
            rows: self.rows,
        }
    }

    fn changed(&self) -> BTreeSet<u32> {
        let engine = &self.survey.engine.rows.grants;
        let payments = &self.survey.engine.rows.payments;
        let rows = self.rows.grants.iter();
        let changed = rows.filter(|(number, row)| engine.get(number) != Some(row));
        let mut changed: BTreeSet<u32> = changed.map(|(number, _)| *number).collect();
        for (key, state) in &self.rows.payments {
            if payments.get(key) != Some(state) && self.rows.grants.contains_key(&key.0) {
                changed.insert(key.0);
            }
        }
        let engine = &self.survey.engine.rows;
        for (parts, known) in [
            (&self.rows.returns, &engine.returns),
            (&self.rows.cancellations, &engine.cancellations),
        ] {
            for (key, units) in parts {
                if known.get(key) != Some(units) && self.rows.grants.contains_key(&key.0) {
                    changed.insert(key.0);
                }
            }
        }
        changed
    }

    /// Shares that are not granted: restored ones first, then the others in the engine's order.
    fn shares_in_order(&self) -> Vec<(u32, i64)> {
        let engine = &self.survey.engine.shares;
        let known: BTreeSet<u32> = engine.iter().map(|(number, _)| *number).collect();
        let back = self
            .amounts
            .iter()
            .map(|(number, amount)| (*number, *amount));
        let back = back.filter(|(number, _)| !known.contains(number));
        let there = engine.iter().copied();
        let there = there.filter(|(number, _)| self.amounts.contains_key(number));
        back.chain(there).collect()
    }

    /// Remaining units to withhold: as many as unnamed entries can have granted.
    fn units_withheld(&self, left: u64) -> u64 {
        let facts = self.facts();
        let rows = &self.rows.grants;
        let has_gap = rows.last_key_value().is_some_and(|(last, _)| {
            let accounted = self.survey.accounted.range(..last);
            let accounted = accounted.filter(|number| !rows.contains_key(number));
            rows.len() + accounted.count() != *last as usize
        });
        if facts.is_lazy() && (self.survey.unnamed > 0 || has_gap) {
            return left;
        }
        left.min(self.survey.to_withhold())
    }
}

/// Phase of the part after the repair. A part that the ledger has closed stays closed. If the ledger is ahead, its
/// phase is the later one. Only the engine knows whether a draft was opened, because a draft grants nothing.
fn phase_of(survey: &Survey<'_>, settled: Phase) -> Phase {
    let engine = survey.engine.rows.phase;
    if survey.closed.is_some() {
        return Phase::Closed;
    }
    let is_later = !survey.ledger_is_ahead || settled == Phase::Draft;
    if is_later && engine != Phase::Draft {
        engine
    } else {
        settled
    }
}

/// Rank of a state. An order only moves to higher ranks.
fn rank(state: OrderState) -> u8 {
    match state {
        OrderState::Held => 0,
        OrderState::Expired => 1,
        OrderState::Cancelled | OrderState::Paid => 2,
        OrderState::Returned => 3,
    }
}
