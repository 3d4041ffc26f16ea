//! Repair of a campaign's facts: the ledger's row if the engine wins, the engine's commands if the ledger wins.

use super::{
    campaign::{CampaignFacts, ComparedCampaign},
    compare::DifferenceKind,
};
use crate::{
    book::{CampaignAction, Command, SaleCorrection},
    campaign::{
        CampaignError, CampaignKind, Phase, Sale, SaleSettings, SaleSettingsChange, Transition,
    },
    money::{Currency, Money},
    payment::PaymentPolicy,
    string_enum::string_enum,
    time::Timestamp,
};

/// Side whose facts of campaigns win a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CampaignSource {
    /// The engine: the ledger's row is restated.
    Engine,
    /// The ledger: the engine receives commands, which settle as usual.
    Ledger,
}

string_enum!(CampaignSource { Engine = "engine", Ledger = "ledger" });

/// Reason why a campaign's facts are not repaired. Nothing was written.
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
    /// The engine's stock without the changes in flight is less than users have.
    #[error(
        "without the changes in flight the stock is {stock}, and users have {granted} units: run again once they are \
         settled"
    )]
    StockInFlight {
        /// The engine's stock without the changes in flight.
        stock: i64,
        /// Units that users have.
        granted: u64,
    },
    /// A change of the terms is in flight, and settles over the ledger's values.
    #[error(
        "a change of the terms is in flight, and settles over the ledger's values: set them over the API, or let the \
         engine win"
    )]
    TermsInFlight,
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
    #[error(
        "another change came first: check the campaign, and run the command again if it still differs"
    )]
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
        // A campaign that is over has returned its units, and a draft has none, so the row stays as it is.
        let is_over = |phase| matches!(phase, Phase::Draft | Phase::Ended | Phase::Closed);
        if is_over(engine.phase) || is_over(ledger.phase) || is_over(self.row.phase) {
            let (engine, ledger) = (engine.phase, ledger.phase);
            return Err(CampaignRefusal::Phase { engine, ledger });
        }
        Ok(())
    }

    /// The ledger's row with the engine's facts wherever the two differ. Entries in flight are left out: they settle on
    /// top of it.
    ///
    /// # Errors
    /// The first difference that is not repaired.
    pub fn restated_row(&self) -> Result<CampaignFacts, CampaignRefusal> {
        self.check()?;
        let mut row = self.row;
        let engine = &match self.row_before_the_change() {
            // The change in flight settles after this row.
            Some(before) => CampaignFacts {
                phase: self.engine.phase,
                supply: self.engine.supply,
                hold_ms: self.engine.hold_ms,
                ack: self.engine.ack,
                ..before
            },
            None if self.changes_terms_in_flight()
                && self.kinds().iter().any(|it| it.is_of_terms()) =>
            {
                return Err(CampaignRefusal::TermsInFlight);
            }
            None => self.engine,
        };
        for kind in self.kinds() {
            match kind {
                DifferenceKind::PhaseDiffers => row.phase = engine.phase,
                DifferenceKind::SupplyDiffers => row.supply = self.supply_before_the_changes()?,
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

    /// The engine's stock without the changes in flight, which settle later.
    fn supply_before_the_changes(&self) -> Result<Option<u64>, CampaignRefusal> {
        let Some(supply) = self.engine.supply else {
            return Ok(None);
        };
        let (granted, stock) = (
            self.granted,
            i128::from(supply) - i128::from(self.units_in_flight),
        );
        match u64::try_from(stock) {
            Ok(stock) if stock >= granted.max(1) => Ok(Some(stock)),
            _ => Err(CampaignRefusal::StockInFlight {
                stock: i64::try_from(stock).unwrap_or(i64::MIN),
                granted,
            }),
        }
    }

    /// Commands that bring the ledger's facts to the engine. Each is refused if the sale has changed since. `granted`
    /// is the number of units that users have, and `policy` the sale's payment policy.
    ///
    /// # Errors
    /// The first difference that no command repairs, or the rule by which the engine would refuse it.
    pub fn commands(
        &self,
        granted: u64,
        now: Timestamp,
        (currency, policy): (Currency, PaymentPolicy),
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
        if self.changes_terms_in_flight() && self.kinds().iter().any(|it| it.is_of_terms()) {
            return Err(CampaignRefusal::TermsInFlight);
        }
        if self.differs(DifferenceKind::PriceDiffers)
            && !policy.fits(self.ledger.unit_price_minor.unwrap_or(0))
        {
            return Err(CampaignError::PaymentPolicy.into());
        }
        let campaign = self.campaign;
        let correct = |correction| Command::Correct {
            campaign,
            correction: Box::new(correction),
        };
        let (stock, terms) = (
            self.stock(granted)?,
            self.terms(now, currency, granted > 0)?,
        );
        let expected = self.engine.supply.unwrap_or(0);
        let set_stock = stock.map(|stock| correct(SaleCorrection::Stock { expected, stock }));
        let engine = &self.engine;
        let set_terms = terms.zip(engine.admission).map(|(change, admission)| {
            let expected = SaleSettings {
                window: engine.window,
                per_user_limit: engine.per_user_limit,
                unit_price_minor: engine.unit_price_minor.unwrap_or(0),
                admission,
            };
            correct(SaleCorrection::Terms { expected, change })
        });
        // Limit and price must fit the stock after every command.
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
            false if stock == 0 => Err(CampaignError::Stock.into()),
            false => Ok(Some(stock)),
        }
    }

    fn terms(
        &self,
        now: Timestamp,
        currency: Currency,
        has_granted: bool,
    ) -> Result<Option<SaleSettingsChange>, CampaignRefusal> {
        let (engine, ledger) = (&self.engine, &self.ledger);
        let window = self.differs(DifferenceKind::WindowDiffers);
        let other = |is, was| (window && is != was).then_some(is);
        let change = SaleSettingsChange {
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
        if change == SaleSettingsChange::default() {
            return Ok(None);
        }
        let stock = ledger.supply.or(engine.supply).unwrap_or(0);
        let price = Money::new(engine.unit_price_minor.unwrap_or(0), currency);
        let limit = engine
            .per_user_limit
            .min(u32::try_from(stock).unwrap_or(u32::MAX));
        let sale = Sale::new(stock, limit, price, engine.hold_ms)?;
        let terms = SaleSettings {
            per_user_limit: engine.per_user_limit,
            ..SaleSettings::from_sale(engine.window, &sale)
        };
        let phase = engine.phase.at(engine.window, now);
        // The engine checks it again, because it also knows of orders that are over.
        change.apply(&terms, (&sale, has_granted), phase, now)?;
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

    /// The current row, in which the ledger's original facts replace all facts that commands did not bring to the
    /// engine. `restated` is the row that the repair wrote before. Facts that changed since stay. `None` if nothing is
    /// left to change.
    ///
    /// Terms stay as the repair wrote them. Another change of the terms may be in flight. Its settlement records the
    /// row's terms as the terms before it, and orders are audited by those.
    #[must_use]
    pub fn row_given_back(
        &self,
        restated: &CampaignFacts,
        present: &CampaignFacts,
        commands: &[Command],
    ) -> Option<CampaignFacts> {
        let (mut row, was) = (*present, &self.row);
        for command in commands {
            match command {
                Command::Correct { correction, .. } => match &**correction {
                    SaleCorrection::Stock { .. } if present.supply == restated.supply => {
                        row.supply = was.supply;
                    }
                    _ => {}
                },
                Command::Act { .. } if present.phase == restated.phase => row.phase = was.phase,
                _ => {}
            }
        }
        (row != *present).then_some(row)
    }

    /// Whether a row has the ledger's original facts again, for all facts of the commands.
    #[must_use]
    pub fn has_given_back(&self, row: &CampaignFacts, commands: &[Command]) -> bool {
        let was = &self.row;
        commands.iter().all(|command| match command {
            Command::Correct { correction, .. } => match &**correction {
                SaleCorrection::Stock { .. } => row.supply == was.supply,
                SaleCorrection::Terms { .. } => row.has_terms_of(was),
            },
            Command::Act { .. } => row.phase == was.phase,
            _ => true,
        })
    }
}
