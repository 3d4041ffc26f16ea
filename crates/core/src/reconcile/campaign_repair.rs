//! Repair of a campaign's facts: the ledger's row if the engine wins, the engine's commands if the ledger wins.

use super::{
    campaign::{CampaignFacts, ComparedCampaign},
    compare::DifferenceKind,
};
use crate::{
    book::{CampaignAction, Command},
    campaign::{CampaignError, CampaignKind, Phase, Sale, Terms, TermsChange, Transition},
    money::{Currency, Money},
    time::Timestamp,
    words::words,
};

/// The side whose facts of campaigns a repair takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CampaignSource {
    /// The engine: the ledger's row is restated.
    Engine,
    /// The ledger: the engine gets commands, which settle as any others.
    Ledger,
}

words!(CampaignSource { Engine = "engine", Ledger = "ledger" });

/// Why a campaign's facts are not repaired. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CampaignRefusal {
    /// A phase other than scheduled or paused, on one side.
    #[error(
        "phase {} in the engine, {} in the ledger: only scheduled and paused are repaired",
        .engine.name(), .ledger.name()
    )]
    Phase {
        /// The engine's phase.
        engine: Phase,
        /// The ledger's phase.
        ledger: Phase,
    },
    /// The phase of a spread campaign.
    #[error("the phase of a spread campaign follows from its parts: pause or resume it")]
    PartPhase,
    /// Shares or money of a packet.
    #[error("shares and money of a packet need postings")]
    Money,
    /// Another revision of the terms.
    #[error(
        "terms revision {engine} in the engine, {ledger} in the ledger: one side lacks a change"
    )]
    Revision {
        /// The engine's revision.
        engine: u64,
        /// The ledger's revision.
        ledger: u64,
    },
    /// A fact that never changes in an engine.
    #[error("no command changes this in an engine: {}", .0.name())]
    Fixed(DifferenceKind),
    /// Units that users have exceed the ledger's stock.
    #[error("the stock is {stock} in the ledger, and users have {granted} units")]
    StockGranted {
        /// The ledger's stock.
        stock: u64,
        /// Units that users have.
        granted: u64,
    },
    /// A rule of campaigns.
    #[error(transparent)]
    Rules(#[from] CampaignError),
    /// The campaign's phase does not allow it.
    #[error(transparent)]
    Transition(#[from] crate::campaign::TransitionError),
    /// The part does not lead the campaign.
    #[error("this part follows the first part of the campaign, and is not repaired alone")]
    NotFirst,
    /// The engine refused a command.
    #[error("the engine refused: {0}")]
    Engine(String),
    /// The campaign changed since it was compared.
    #[error("it changed since it was compared: try again")]
    Changed,
}

impl ComparedCampaign {
    fn kinds(&self) -> Vec<DifferenceKind> {
        let found = self.differences().into_iter();
        found.map(|difference| difference.kind).collect()
    }

    fn differs(&self, kind: DifferenceKind) -> bool {
        self.kinds().contains(&kind)
    }

    fn check(&self) -> Result<(), CampaignRefusal> {
        if self.index > 0 {
            return Err(CampaignRefusal::NotFirst);
        }
        let (engine, ledger) = (&self.engine, &self.ledger);
        for kind in self.kinds() {
            match kind {
                DifferenceKind::PhaseDiffers if self.parts > 1 => {
                    return Err(CampaignRefusal::PartPhase);
                }
                DifferenceKind::PhaseDiffers => {
                    let (engine, ledger) = (engine.phase, ledger.phase);
                    let is_open = |phase| matches!(phase, Phase::Scheduled | Phase::Paused);
                    if !is_open(engine) || !is_open(ledger) {
                        return Err(CampaignRefusal::Phase { engine, ledger });
                    }
                }
                DifferenceKind::TotalDiffers => return Err(CampaignRefusal::Money),
                DifferenceKind::SupplyDiffers if engine.kind == CampaignKind::RedPacket => {
                    return Err(CampaignRefusal::Money);
                }
                DifferenceKind::TermsRevisionDiffers => {
                    let (engine, ledger) = (engine.terms_revision, ledger.terms_revision);
                    return Err(CampaignRefusal::Revision { engine, ledger });
                }
                _ => {}
            }
        }
        // What is over, or not open yet, has returned units or has none: its row stays as it is.
        let is_over = |phase| matches!(phase, Phase::Draft | Phase::Ended | Phase::Closed);
        if is_over(engine.phase) || is_over(ledger.phase) || is_over(self.row.phase) {
            let (engine, ledger) = (engine.phase, ledger.phase);
            return Err(CampaignRefusal::Phase { engine, ledger });
        }
        Ok(())
    }

    /// The ledger's row with the engine's facts in place of those that differ. Entries in flight are left out: they
    /// settle on top of it.
    ///
    /// # Errors
    /// The first difference that is not repaired.
    pub fn restated_row(&self) -> Result<CampaignFacts, CampaignRefusal> {
        self.check()?;
        let (engine, mut row) = (&self.engine, self.row);
        for kind in self.kinds() {
            match kind {
                DifferenceKind::PhaseDiffers => row.phase = engine.phase,
                DifferenceKind::SupplyDiffers => {
                    let in_flight = |(ledger, row): (u64, u64)| ledger as i64 - row as i64;
                    let flying = self.ledger.supply.zip(self.row.supply).map(in_flight);
                    let supply = engine.supply.zip(flying);
                    row.supply =
                        supply.map(|(supply, flying)| supply.saturating_add_signed(-flying));
                }
                DifferenceKind::WindowDiffers => row.window = engine.window,
                DifferenceKind::LimitDiffers => row.per_user_limit = engine.per_user_limit,
                DifferenceKind::PriceDiffers => row.unit_price_minor = engine.unit_price_minor,
                DifferenceKind::HoldDiffers => row.hold_ms = engine.hold_ms,
                DifferenceKind::AdmissionDiffers => row.admission = engine.admission,
                DifferenceKind::AckDiffers => row.ack = engine.ack,
                _ => {}
            }
        }
        Ok(row)
    }

    /// The commands that bring the ledger's facts to the engine. `granted` is the number of units that users have.
    ///
    /// # Errors
    /// The first difference that no command repairs, or the rule by which the engine would refuse it.
    pub fn commands(
        &self,
        granted: u64,
        now: Timestamp,
        currency: Currency,
    ) -> Result<Vec<Command>, CampaignRefusal> {
        self.check()?;
        let is_packet = self.engine.kind == CampaignKind::RedPacket;
        for kind in self.kinds() {
            let is_fixed = matches!(
                kind,
                DifferenceKind::HoldDiffers | DifferenceKind::AckDiffers
            ) || is_packet && kind.is_of_terms();
            if is_fixed {
                return Err(CampaignRefusal::Fixed(kind));
            }
        }
        let campaign = self.campaign;
        let (stock, terms) = (self.stock(granted)?, self.terms(now, currency)?);
        let set_stock = stock.map(|stock| Command::SetStock { campaign, stock });
        let set_terms = terms.map(|change| Command::SetTerms { campaign, change });
        // Limit and price have to fit the stock at every step.
        let mut commands: Vec<_> = match stock > self.engine.supply {
            true => set_stock.into_iter().chain(set_terms).collect(),
            false => set_terms.into_iter().chain(set_stock).collect(),
        };
        commands.extend(self.act(now)?);
        Ok(commands)
    }

    fn stock(&self, granted: u64) -> Result<Option<u64>, CampaignRefusal> {
        if !self.differs(DifferenceKind::SupplyDiffers) {
            return Ok(None);
        }
        let stock = self.ledger.supply.unwrap_or(0);
        match stock < granted {
            true => Err(CampaignRefusal::StockGranted { stock, granted }),
            false => Ok(Some(stock)),
        }
    }

    fn terms(
        &self,
        now: Timestamp,
        currency: Currency,
    ) -> Result<Option<TermsChange>, CampaignRefusal> {
        let (engine, ledger) = (&self.engine, &self.ledger);
        let window = self.differs(DifferenceKind::WindowDiffers);
        let other = |is, was| (window && is != was).then_some(is);
        let change = TermsChange {
            starts_at: other(ledger.window.starts_at(), engine.window.starts_at()),
            ends_at: other(ledger.window.ends_at(), engine.window.ends_at()),
            per_user_limit: self
                .differs(DifferenceKind::LimitDiffers)
                .then_some(ledger.per_user_limit),
            unit_price_minor: (ledger.unit_price_minor)
                .filter(|_| self.differs(DifferenceKind::PriceDiffers)),
            admission: (ledger.admission)
                .filter(|_| self.differs(DifferenceKind::AdmissionDiffers)),
        };
        if change == TermsChange::default() {
            return Ok(None);
        }
        let stock = ledger.supply.or(engine.supply).unwrap_or(0);
        let price = Money::new(engine.unit_price_minor.unwrap_or(0), currency);
        let limit = engine
            .per_user_limit
            .min(u32::try_from(stock).unwrap_or(u32::MAX));
        let sale = Sale::new(stock, limit, price, engine.hold_ms)?;
        let terms = Terms {
            per_user_limit: engine.per_user_limit,
            ..Terms::of_sale(engine.window, &sale)
        };
        let phase = engine.phase.at(engine.window, now);
        change.apply(&terms, &sale, phase, now)?;
        Ok(Some(change))
    }

    fn act(&self, now: Timestamp) -> Result<Option<Command>, CampaignRefusal> {
        if !self.differs(DifferenceKind::PhaseDiffers) {
            return Ok(None);
        }
        let (action, transition) = match self.ledger.phase {
            Phase::Paused => (CampaignAction::Pause, Transition::Pause),
            _ => (CampaignAction::Resume, Transition::Resume),
        };
        self.engine
            .phase
            .at(self.engine.window, now)
            .after(transition)?;
        let campaign = self.campaign;
        Ok(Some(Command::Act { campaign, action }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::{Entry, Event, PartitionId},
        time::Window,
    };

    fn instant(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn sale() -> CampaignFacts {
        CampaignFacts {
            kind: CampaignKind::Sale,
            phase: Phase::Scheduled,
            supply: Some(100),
            total_minor: None,
            window: Window::new(instant(1_000), instant(9_000)).expect("a window"),
            per_user_limit: 2,
            unit_price_minor: Some(500),
            hold_ms: 60_000,
            admission: Some(None.into()),
            ack: crate::campaign::AckLevel::Memory,
            terms_revision: 0,
        }
    }

    fn compared(
        engine: CampaignFacts,
        row: CampaignFacts,
        in_flight: &[Entry],
    ) -> ComparedCampaign {
        let place = (id(), PartitionId(0));
        ComparedCampaign::new(place, (1, 0), (engine, row), row.phase, in_flight, (7, 9))
    }

    fn id() -> crate::id::CampaignId {
        let id = "00000000-0001-7000-8000-000000000000".parse();
        id.expect("an id")
    }

    fn commands(found: &ComparedCampaign) -> Result<Vec<Command>, CampaignRefusal> {
        found.commands(60, instant(2_000), "CNY".parse().expect("a currency"))
    }

    #[test]
    fn the_row_gets_the_engines_facts_and_what_flies_settles_on_top() {
        let flight = [Entry {
            seq: 8,
            at: instant(2_000),
            campaign: id(),
            event: Event::StockChanged { units: 20 },
        }];
        let engine = CampaignFacts {
            supply: Some(120),
            ..sale()
        };
        let row = CampaignFacts {
            supply: Some(150),
            phase: Phase::Paused,
            unit_price_minor: Some(1),
            ..sale()
        };
        let found = compared(engine, row, &flight);
        assert_eq!(found.restated_row(), Ok(sale()));
    }

    #[test]
    fn the_engine_gets_commands() {
        let row = CampaignFacts {
            supply: Some(150),
            phase: Phase::Paused,
            unit_price_minor: Some(1),
            ..sale()
        };
        let campaign = id();
        let change = TermsChange {
            unit_price_minor: Some(1),
            ..TermsChange::default()
        };
        let stock = 150;
        let set_stock = Command::SetStock { campaign, stock };
        let set_terms = Command::SetTerms { campaign, change };
        let action = CampaignAction::Pause;
        let pause = Command::Act { campaign, action };
        let found = commands(&compared(sale(), row, &[]));
        assert_eq!(found, Ok(vec![set_stock, set_terms, pause]));
    }

    #[test]
    fn what_is_not_repaired_is_refused() {
        let check = |change: fn(&mut CampaignFacts), by_engine: bool, by_ledger: bool| {
            let mut row = sale();
            change(&mut row);
            let found = compared(sale(), row, &[]);
            let got = (found.restated_row().is_ok(), commands(&found).is_ok());
            assert_eq!(got, (by_engine, by_ledger), "{row:?}");
        };
        for phase in [Phase::Draft, Phase::Ended, Phase::Closed] {
            let row = CampaignFacts { phase, ..sale() };
            let found = compared(sale(), row, &[]);
            let refused = matches!(found.restated_row(), Err(CampaignRefusal::Phase { .. }));
            assert!(refused && commands(&found).is_err(), "{phase}");
            let found = compared(row, sale(), &[]);
            assert!(found.restated_row().is_err() && commands(&found).is_err());
        }
        check(|row| row.terms_revision = 3, false, false);
        check(|row| row.hold_ms = 1, true, false);
        // Users have 60 units.
        check(|row| row.supply = Some(59), true, false);
        check(|row| row.supply = Some(60), true, true);
        // The sale has opened, and 1,500 is over.
        let window = |from, upto| Window::new(instant(from), instant(upto)).expect("a window");
        let early = CampaignFacts {
            window: window(500, 9_000),
            ..sale()
        };
        assert!(commands(&compared(sale(), early, &[])).is_err());
        let over = CampaignFacts {
            window: window(1_000, 1_500),
            ..sale()
        };
        assert!(commands(&compared(sale(), over, &[])).is_err());
        let packet = CampaignFacts {
            kind: CampaignKind::RedPacket,
            total_minor: Some(1_000),
            ..sale()
        };
        let richer = CampaignFacts {
            total_minor: Some(2_000),
            ..packet
        };
        let found = compared(packet, richer, &[]);
        assert_eq!(found.restated_row(), Err(CampaignRefusal::Money));
        let part = ComparedCampaign {
            parts: 2,
            ..compared(
                sale(),
                CampaignFacts {
                    phase: Phase::Paused,
                    ..sale()
                },
                &[],
            )
        };
        assert_eq!(part.restated_row(), Err(CampaignRefusal::PartPhase));
    }
}
