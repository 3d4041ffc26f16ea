//! A campaign: what is handed out, under which rules, and its life.

mod ack;
mod details;
mod phase;
mod requirements;
mod sale;
mod tally;
mod terms;

use crate::{
    admission::AdmissionRatio,
    id::{CampaignId, UserId},
    money::Currency,
    payment::PaymentPolicy,
    split::{Commitment, Origin, Parts, Seed, Split, SplitRule, commit},
    time::{Timestamp, Window},
    words::words,
};

pub use self::{
    ack::{AckLevel, UnknownAckLevel},
    details::{
        DESCRIPTION_CHARS_MAX, Description, Details, DetailsChange, IMAGE_URL_CHARS_MAX, ImageUrl,
    },
    phase::{Phase, Transition, TransitionError},
    requirements::{Requirement, Requirements, UnknownRequirement},
    sale::Sale,
    tally::Tally,
    terms::{Terms, TermsChange},
};

/// The largest stock of a sale, in units: the largest whole number that Lua and JavaScript count to one by one. Sums of
/// a campaign's units stay far inside 64 bits.
pub const STOCK_MAX: u64 = (1 << 53) - 1;
/// The largest price of a sale's whole stock, in minor units, for the same reason. A thousand such sums still fit in an
/// account.
pub const STOCK_PRICE_MINOR_MAX: i64 = (1 << 53) - 1;
/// The longest title, in characters.
pub const TITLE_CHARS_MAX: usize = 1_024;
/// The longest hold of an unpaid order: 30 days.
pub const HOLD_MS_MAX: i64 = 30 * 24 * 3_600_000;

/// Which of the two things a campaign is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CampaignKind {
    /// A sum split into random shares, one a user.
    RedPacket,
    /// Limited stock, sold by the unit.
    Sale,
}

words!(CampaignKind { RedPacket = "red_packet", Sale = "sale" });

/// Why a campaign cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CampaignError {
    /// Title blank or too long.
    #[error("a title is 1 to {TITLE_CHARS_MAX} characters, and not all of them are blank")]
    Title,
    /// A title that breaks lines or terminals, or that turns the text around it; databases differ in which of these
    /// they take.
    #[error(
        "a title has no control characters, such as a line break or NUL, and does not override the direction of text"
    )]
    TitleControl,
    /// Description empty, too long, or with odd characters.
    #[error(
        "a description is 1 to {DESCRIPTION_CHARS_MAX} characters, without control characters but line breaks"
    )]
    Description,
    /// Not where a picture may be.
    #[error(
        "an image URL is 1 to {IMAGE_URL_CHARS_MAX} characters: `https://` and a host, or a path that begins with `/`"
    )]
    ImageUrl,
    /// Stock out of range.
    #[error("a sale's stock is 1 to {STOCK_MAX} units")]
    Stock,
    /// Limit out of range.
    #[error("a sale's per-user limit is 1 up to its stock")]
    Limit,
    /// Hold out of range.
    #[error("a hold is at least 1 and at most 2592000 seconds (30 days)")]
    Hold,
    /// Price negative, or the whole stock's price above [`STOCK_PRICE_MINOR_MAX`].
    #[error(
        "a unit price is 0 or more, and the whole stock costs at most {STOCK_PRICE_MINOR_MAX} minor units"
    )]
    Price,
    /// A payment policy that such a price does not allow.
    #[error(
        "a payment tolerance is 0 or more and below the unit price, and a sale at 0 has the payment policy `owed`"
    )]
    PaymentPolicy,
    /// The start was to be changed of a sale that has opened.
    #[error("a sale that has opened cannot open at another time")]
    HasOpened,
    /// A start or an end that is over.
    #[error("a sale cannot be changed to open or to end in the past")]
    InThePast,
    /// The window is none.
    #[error("a window must end after it starts, between the years 1970 and 9998")]
    Window,
}

/// A red packet's rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedPacket {
    /// Total, count and splitting rule; already known to be possible.
    pub split: Split,
    /// The currency of the total.
    pub currency: Currency,
    /// What the shares are drawn from. Secret until the packet closes; its commitment is public.
    pub seed: Seed,
    /// Who has made the seed.
    pub origin: Origin,
}

impl RedPacket {
    /// A packet whose seed the service has chosen.
    pub fn new(split: Split, currency: Currency, seed: Seed) -> Self {
        Self {
            split,
            currency,
            seed,
            origin: Origin::Service,
        }
    }

    /// A packet whose seed service and sender have made.
    pub fn of_parts(split: Split, currency: Currency, parts: Parts) -> Self {
        Self {
            split,
            currency,
            seed: parts.seed(),
            origin: Origin::Both(parts),
        }
    }

    /// Whether it is over, so that everybody may see its seed: it is closed, or no share is left, and shares never come
    /// back.
    ///
    /// `phase` and `granted` are as the ledger has them, which follows committed entries alone: what was decided and
    /// could not be kept must not reveal the seed of a packet that goes on.
    pub fn is_over(&self, phase: Phase, granted: u64) -> bool {
        phase == Phase::Closed || granted >= u64::from(self.split.count())
    }

    /// What is published before the packet `id` opens.
    pub fn commitment(&self, id: CampaignId) -> Commitment {
        commit(id, self.currency, &self.seed, &self.split)
    }
}

/// The rules of either kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rules {
    /// A red packet's.
    RedPacket(RedPacket),
    /// A flash sale's.
    Sale(Sale),
}

impl Rules {
    /// A red packet's, if it is one.
    pub fn red_packet(&self) -> Option<&RedPacket> {
        match self {
            Self::RedPacket(packet) => Some(packet),
            Self::Sale(_) => None,
        }
    }

    /// A flash sale's, if it is one.
    pub fn sale(&self) -> Option<&Sale> {
        match self {
            Self::RedPacket(_) => None,
            Self::Sale(sale) => Some(sale),
        }
    }
}

/// Refuses a title that nobody could read.
///
/// # Errors
/// [`CampaignError::Title`] or [`CampaignError::TitleControl`].
pub fn check_title(title: &str) -> Result<(), CampaignError> {
    if title.chars().count() > TITLE_CHARS_MAX || title.chars().all(is_blank) {
        Err(CampaignError::Title)
    } else if title.chars().any(is_control) {
        Err(CampaignError::TitleControl)
    } else {
        Ok(())
    }
}

/// A campaign as it was created. What became of it stands in the log and the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Campaign {
    /// Its id.
    pub id: CampaignId,
    /// The sender of the packet, or the seller.
    pub owner: UserId,
    /// What people see.
    pub title: String,
    /// When claims are accepted.
    pub window: Window,
    /// The acknowledgement level asked for.
    pub ack: AckLevel,
    /// What a claim needs before an engine is asked.
    pub requirements: Requirements,
    /// Which amounts beside its price pay an order of a sale; the default for a packet. It never changes.
    pub payment_policy: PaymentPolicy,
    /// When it was created.
    pub created_at: Timestamp,
    /// What is handed out, and how.
    pub rules: Rules,
}

/// Whether nothing of it is seen: white space, and characters without width.
fn is_blank(character: char) -> bool {
    let unseen = ['\u{ad}', '\u{180e}', '\u{2800}', '\u{3164}', '\u{feff}'];
    character.is_whitespace()
        || unseen.contains(&character)
        || ('\u{200b}'..='\u{200f}').contains(&character)
        || ('\u{2060}'..='\u{2064}').contains(&character)
}

/// Whether it breaks lines or terminals, or embeds, overrides or isolates a direction of text (Unicode Standard
/// Annex 9). Marks of direction are none of these.
fn is_control(character: char) -> bool {
    character.is_control()
        || ['\u{2028}', '\u{2029}'].contains(&character)
        || ('\u{202a}'..='\u{202e}').contains(&character)
        || ('\u{2066}'..='\u{2069}').contains(&character)
}

impl Campaign {
    /// Checks what no field's type can.
    ///
    /// # Errors
    /// [`CampaignError::Title`], [`CampaignError::TitleControl`], [`CampaignError::PaymentPolicy`].
    pub fn check(&self) -> Result<(), CampaignError> {
        let price = self.rules.sale().map_or(0, |sale| sale.unit_price().minor);
        if !self.payment_policy.fits(price) {
            return Err(CampaignError::PaymentPolicy);
        }
        check_title(&self.title)
    }

    /// Which kind it is.
    pub fn kind(&self) -> CampaignKind {
        match self.rules {
            Rules::RedPacket(_) => CampaignKind::RedPacket,
            Rules::Sale(_) => CampaignKind::Sale,
        }
    }

    /// Shares or units to hand out.
    pub fn supply(&self) -> u64 {
        match &self.rules {
            Rules::RedPacket(packet) => packet.split.count().into(),
            Rules::Sale(sale) => sale.stock(),
        }
    }

    /// Money in escrow when it opens, in minor units: the packet's total; nothing for a sale.
    pub fn funded_minor(&self) -> i64 {
        let packet = self.rules.red_packet();
        packet.map_or(0, |packet| packet.split.total())
    }

    /// Units that one user may have; 1 for a red packet.
    pub fn per_user_limit(&self) -> u32 {
        self.rules.sale().map_or(1, Sale::per_user_limit)
    }

    /// How many users may be on their way to a decision for each unit that is left; none admits everybody, as red
    /// packets do.
    pub fn admission(&self) -> Option<AdmissionRatio> {
        self.rules.sale().and_then(Sale::admission)
    }

    /// The currency of its amounts.
    pub fn currency(&self) -> Currency {
        match &self.rules {
            Rules::RedPacket(packet) => packet.currency,
            Rules::Sale(sale) => sale.unit_price().currency,
        }
    }

    /// The amounts of a packet's shares, in the order in which they are handed out; empty for sales and for
    /// lazy packets, whose amounts are drawn at the claim.
    pub fn shares(&self) -> Vec<i64> {
        match &self.rules {
            Rules::RedPacket(packet) if !matches!(packet.split.rule(), SplitRule::Lazy { .. }) => {
                packet.split.shares(&packet.seed)
            }
            _ => Vec::new(),
        }
    }
}
