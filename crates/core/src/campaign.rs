//! Campaigns: their supply, rules and phases.

mod ack;
mod cover;
mod details;
mod phase;
mod requirements;
mod sale;
mod sale_settings;
mod tally;

use crate::{
    admission::AdmissionRatio,
    id::{CampaignId, UserId},
    money::Currency,
    payment::PaymentPolicy,
    split::{Commitment, Seed, SeedOrigin, SeedParts, Split, SplitRule, commit},
    string_enum::string_enum,
    time::{Timestamp, Window},
};

pub use self::{
    ack::{AckLevel, UnknownAckLevel},
    cover::{Cover, UnknownCover},
    details::{
        DESCRIPTION_CHARS_MAX, Description, Details, DetailsChange, DetailsColumns, GALLERY_MAX,
        Gallery, IMAGE_URL_CHARS_MAX, ImageUrl, check_list_price,
    },
    phase::{Phase, Transition, TransitionError},
    requirements::{Requirement, Requirements, UnknownRequirement},
    sale::Sale,
    sale_settings::{SaleSettings, SaleSettingsChange},
    tally::Tally,
};

/// The largest stock of a sale, in units: the largest integer up to which Lua and JavaScript count exactly. Sums of a
/// campaign's units stay far inside 64 bits.
pub const STOCK_MAX: u64 = (1 << 53) - 1;
/// The largest price of a sale's whole stock, in minor units, for the same reason. A thousand such sums still fit in an
/// account.
pub const STOCK_PRICE_MINOR_MAX: i64 = (1 << 53) - 1;
/// The longest title, in characters.
pub const TITLE_CHARS_MAX: usize = 1_024;
/// The longest hold of an unpaid order: 30 days.
pub const HOLD_MS_MAX: i64 = 30 * 24 * 3_600_000;

/// Kind of a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CampaignKind {
    /// A sum that is split into random shares, one per user.
    RedPacket,
    /// Limited stock, sold by the unit.
    Sale,
}

string_enum!(CampaignKind { RedPacket = "red_packet", Sale = "sale" });

/// Error of an invalid campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CampaignError {
    /// The title is blank or too long.
    #[error("a title is 1 to {TITLE_CHARS_MAX} characters, and not all of them are blank")]
    Title,
    /// The title contains characters that break lines or terminals, or change the direction of surrounding text.
    /// Databases differ in which of these characters they accept.
    #[error(
        "a title has no control characters, such as a line break or NUL, and does not override the direction of text"
    )]
    TitleControl,
    /// The description is blank, too long, or contains control characters.
    #[error(
        "a description is 1 to {DESCRIPTION_CHARS_MAX} characters, without control characters but line breaks"
    )]
    Description,
    /// The URL is not allowed for a picture.
    #[error(
        "an image URL is 1 to {IMAGE_URL_CHARS_MAX} characters: `https://` and a host, or a path that begins with `/`"
    )]
    ImageUrl,
    /// The gallery has no pictures, or too many.
    #[error("a gallery has 1 to {GALLERY_MAX} pictures")]
    Gallery,
    /// The list price is not above the unit price.
    #[error(
        "a list price is above the unit price, and at most {STOCK_PRICE_MINOR_MAX} minor units"
    )]
    ListPrice,
    /// The stock is out of range.
    #[error("a sale's stock is 1 to {STOCK_MAX} units")]
    Stock,
    /// The limit is out of range.
    #[error("a sale's per-user limit is 1 up to its stock")]
    Limit,
    /// The hold is out of range.
    #[error("a hold is at least 1 and at most 2592000 seconds (30 days)")]
    Hold,
    /// The price is negative, or the whole stock's price is above [`STOCK_PRICE_MINOR_MAX`].
    #[error(
        "a unit price is 0 or more, and the whole stock costs at most {STOCK_PRICE_MINOR_MAX} minor units"
    )]
    Price,
    /// The payment policy does not fit the price.
    #[error(
        "a payment tolerance is 0 or more and below the unit price, and a sale at 0 has the payment policy `owed`"
    )]
    PaymentPolicy,
    /// A change of the start of a sale that has opened, and has sold units or is spread. The shards of a spread sale
    /// grant independently, so none of them knows that no other has.
    #[error(
        "a sale that has opened cannot open at another time once it has sold units or is spread over partitions"
    )]
    HasOpened,
    /// A new start or end in the past.
    #[error("a sale cannot be changed to open or to end in the past")]
    InThePast,
    /// The window is invalid.
    #[error("a window must end after it starts, between the years 1970 and 9998")]
    Window,
}

/// A red packet's rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedPacket {
    /// Total, count and splitting rule, which were checked together.
    pub split: Split,
    /// The currency of the total.
    pub currency: Currency,
    /// Seed from which the shares are drawn. It is secret until the packet closes or has no share left; its
    /// commitment is public.
    pub seed: Seed,
    /// Origin of the seed.
    pub origin: SeedOrigin,
}

impl RedPacket {
    /// A red packet with a seed that the service chose.
    pub fn new(split: Split, currency: Currency, seed: Seed) -> Self {
        Self {
            split,
            currency,
            seed,
            origin: SeedOrigin::Service,
        }
    }

    /// A red packet with a seed from parts of the service and the sender.
    pub fn from_parts(split: Split, currency: Currency, parts: SeedParts) -> Self {
        Self {
            split,
            currency,
            seed: parts.seed(),
            origin: SeedOrigin::Both(parts),
        }
    }

    /// Whether all users may see the seed: the packet is closed, or no share is left. Claimed shares are final.
    ///
    /// `phase` and `granted` come from the ledger, which follows committed entries alone. A decision that was not
    /// committed must not reveal the seed of a live packet.
    pub fn is_over(&self, phase: Phase, granted: u64) -> bool {
        phase == Phase::Closed || granted >= u64::from(self.split.count())
    }

    /// Commitment that is published before the packet `id` opens.
    pub fn commitment(&self, id: CampaignId) -> Commitment {
        commit(id, self.currency, &self.seed, &self.split)
    }
}

/// Rules of a campaign, by kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rules {
    /// Rules of a red packet.
    RedPacket(RedPacket),
    /// Rules of a flash sale.
    Sale(Sale),
}

impl Rules {
    /// Rules of the red packet, if it is one.
    pub fn red_packet(&self) -> Option<&RedPacket> {
        match self {
            Self::RedPacket(packet) => Some(packet),
            Self::Sale(_) => None,
        }
    }

    /// Rules of the flash sale, if it is one.
    pub fn sale(&self) -> Option<&Sale> {
        match self {
            Self::RedPacket(_) => None,
            Self::Sale(sale) => Some(sale),
        }
    }
}

/// Refuses a title that users could not read.
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

/// A campaign as it was created. The log and the ledger have its later changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Campaign {
    /// Its id.
    pub id: CampaignId,
    /// The sender of the packet, or the seller.
    pub owner: UserId,
    /// Title that users see.
    pub title: String,
    /// Time in which claims are accepted.
    pub window: Window,
    /// Requested acknowledgement level.
    pub ack: AckLevel,
    /// Requirements of a claim, checked before the engine gets it.
    pub requirements: Requirements,
    /// Amounts other than the price that pay an order of a sale; the default for a red packet. It never changes.
    pub payment_policy: PaymentPolicy,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// Rules of its kind.
    pub rules: Rules,
}

/// Whether the character is invisible: white space, and characters without width.
fn is_blank(character: char) -> bool {
    let unseen = ['\u{ad}', '\u{180e}', '\u{2800}', '\u{3164}', '\u{feff}'];
    character.is_whitespace()
        || unseen.contains(&character)
        || ('\u{200b}'..='\u{200f}').contains(&character)
        || ('\u{2060}'..='\u{2064}').contains(&character)
}

/// Whether the character breaks lines or terminals, or embeds, overrides or isolates a text direction (Unicode Standard
/// Annex 9). Direction marks are allowed.
fn is_control(character: char) -> bool {
    character.is_control()
        || ['\u{2028}', '\u{2029}'].contains(&character)
        || ('\u{202a}'..='\u{202e}').contains(&character)
        || ('\u{2066}'..='\u{2069}').contains(&character)
}

impl Campaign {
    /// Checks rules that the types of the fields do not ensure.
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

    /// Kind of the campaign.
    pub fn kind(&self) -> CampaignKind {
        match self.rules {
            Rules::RedPacket(_) => CampaignKind::RedPacket,
            Rules::Sale(_) => CampaignKind::Sale,
        }
    }

    /// Total shares or units.
    pub fn supply(&self) -> u64 {
        match &self.rules {
            Rules::RedPacket(packet) => packet.split.count().into(),
            Rules::Sale(sale) => sale.stock(),
        }
    }

    /// Money in escrow when it opens, in minor units: the red packet's total; 0 for a sale.
    pub fn funded_minor(&self) -> i64 {
        let packet = self.rules.red_packet();
        packet.map_or(0, |packet| packet.split.total())
    }

    /// Units that one user may have; 1 for a red packet.
    pub fn per_user_limit(&self) -> u32 {
        self.rules.sale().map_or(1, Sale::per_user_limit)
    }

    /// Ratio of admitted users to remaining units; `None` if all users are admitted, as for red packets.
    pub fn admission(&self) -> Option<AdmissionRatio> {
        self.rules.sale().and_then(Sale::admission)
    }

    /// Currency of its amounts.
    pub fn currency(&self) -> Currency {
        match &self.rules {
            Rules::RedPacket(packet) => packet.currency,
            Rules::Sale(sale) => sale.unit_price().currency,
        }
    }

    /// Amounts of a red packet's shares, in the order in which they are granted. Empty for sales, and for lazy packets,
    /// which draw amounts at the claim.
    pub fn shares(&self) -> Vec<i64> {
        match &self.rules {
            Rules::RedPacket(packet) if !matches!(packet.split.rule(), SplitRule::Lazy { .. }) => {
                packet.split.shares(&packet.seed)
            }
            _ => Vec::new(),
        }
    }
}
