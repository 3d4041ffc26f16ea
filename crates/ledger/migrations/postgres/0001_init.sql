-- The ledger on PostgreSQL: the tables of the data file without the log, which the engine has.
-- Times are milliseconds since the Unix epoch. Money is minor units of the row's currency. Texts that are compared or
-- sorted use collation "C": order and equality do not depend on the database's locale.
-- There are no foreign keys: each would cost a lookup and a lock of a busy row for every row that settlement writes.

-- Campaigns as created, and their settled state. Settlement updates these rows often: the fill factor leaves room for
-- new versions on the same page.
CREATE TABLE campaigns (
    ref                BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id                 TEXT   COLLATE "C" NOT NULL UNIQUE,
    kind               TEXT   COLLATE "C" NOT NULL CHECK (kind IN ('red_packet', 'sale')),
    owner              TEXT   COLLATE "C" NOT NULL,
    title              TEXT   NOT NULL,
    currency           TEXT   COLLATE "C" NOT NULL,
    ack                TEXT   COLLATE "C" NOT NULL CHECK (ack IN ('memory', 'replica', 'fsync', 'ledger')),
    starts_at          BIGINT NOT NULL,
    ends_at            BIGINT NOT NULL CHECK (ends_at > starts_at),
    created_at         BIGINT NOT NULL,
    updated_at         BIGINT NOT NULL CHECK (updated_at >= 0),
    supply             BIGINT NOT NULL CHECK (supply > 0), -- shares, or units as settled changes of stock left them
    per_user_limit     BIGINT NOT NULL CHECK (per_user_limit >= 1),
    requirements       TEXT   COLLATE "C" NOT NULL DEFAULT '',
    admission          BIGINT CHECK (admission >= 0),
    -- red packets
    total              BIGINT CHECK (total > 0),
    split_rule         TEXT   COLLATE "C",
    split_min          BIGINT,
    split_max          BIGINT,
    split_version      BIGINT,
    seed               BYTEA  CHECK (length(seed) = 32),
    commitment         BYTEA  CHECK (length(commitment) = 32),
    server_seed        BYTEA,
    client_seed        BYTEA,
    -- sales
    unit_price         BIGINT CHECK (unit_price >= 0),
    hold_ms            BIGINT CHECK (hold_ms > 0),
    payment_policy     TEXT   COLLATE "C",
    payment_tolerance  BIGINT,
    terms_revision     BIGINT NOT NULL DEFAULT 0,
    -- as settled
    parts              BIGINT NOT NULL DEFAULT 1 CHECK (parts BETWEEN 1 AND 65535),
    phase              TEXT   COLLATE "C" NOT NULL
        CHECK (phase IN ('draft', 'scheduled', 'paused', 'ended', 'closed')),
    granted            BIGINT NOT NULL DEFAULT 0 CHECK (granted >= 0),
    returned           BIGINT NOT NULL DEFAULT 0 CHECK (returned >= 0),
    refunded           BIGINT NOT NULL DEFAULT 0 CHECK (refunded >= 0),
    claimed            SMALLINT GENERATED ALWAYS AS
        (CASE WHEN kind = 'red_packet' AND phase <> 'closed' AND granted = supply THEN 1 END) STORED,
    holds_end          BIGINT GENERATED ALWAYS AS
        (CASE WHEN kind = 'sale' AND phase = 'closed' THEN ends_at + 2 * hold_ms END) STORED,
    -- Each shard of a spread sale settles for itself. A unit that one shard returned may be sold by another before the
    -- return is settled: the bound holds there once all shards are closed.
    CHECK (granted + returned <= supply OR kind = 'sale' AND parts > 1 AND phase <> 'closed'),
    CHECK (kind <> 'red_packet' OR (total IS NOT NULL AND split_rule IS NOT NULL AND seed IS NOT NULL)),
    CHECK (kind <> 'sale' OR (unit_price IS NOT NULL AND hold_ms IS NOT NULL))
) WITH (fillfactor = 50);

CREATE INDEX campaigns_unopened ON campaigns (ref) WHERE phase = 'draft';
CREATE INDEX campaigns_not_closed ON campaigns (id) WHERE phase <> 'closed';
CREATE INDEX campaigns_claimed ON campaigns (ref) WHERE claimed = 1;
CREATE INDEX campaigns_holds_end ON campaigns (holds_end) WHERE holds_end IS NOT NULL;
CREATE INDEX campaigns_owner ON campaigns (owner, id);

-- Shards of spread campaigns, as settled. A shard that has not opened has no row.
CREATE TABLE parts (
    campaign  BIGINT NOT NULL,
    partition BIGINT NOT NULL,
    phase     TEXT   COLLATE "C" NOT NULL CHECK (phase IN ('scheduled', 'paused', 'ended', 'closed')),
    granted   BIGINT NOT NULL DEFAULT 0 CHECK (granted >= 0),
    returned  BIGINT NOT NULL DEFAULT 0 CHECK (returned >= 0),
    refunded  BIGINT NOT NULL DEFAULT 0 CHECK (refunded >= 0),
    PRIMARY KEY (campaign, partition)
) WITH (fillfactor = 50);

-- Texts that users see beside a campaign's title, and when it was archived: one row per campaign. Nothing is decided
-- by them. A table of their own keeps them out of the rows that settlement writes.
CREATE TABLE details (
    campaign    BIGINT PRIMARY KEY,
    product_id  TEXT   COLLATE "C" CHECK (product_id <> ''),
    description TEXT   CHECK (description <> ''),
    image_url   TEXT   COLLATE "C" CHECK (image_url <> ''),
    gallery     TEXT   COLLATE "C" CHECK (gallery <> ''),
    list_price  BIGINT CHECK (list_price > 0),
    cover       TEXT   COLLATE "C" CHECK (cover <> ''),
    archived_at BIGINT
);

CREATE INDEX details_product ON details (product_id) WHERE product_id IS NOT NULL;

-- Users that may claim from a campaign. A campaign without a row is open to all users.
CREATE TABLE audiences (
    campaign BIGINT PRIMARY KEY,
    rules    TEXT   NOT NULL
);

-- Settings of a sale by revision: the first row and each change.
CREATE TABLE sale_terms (
    campaign       BIGINT NOT NULL,
    revision       BIGINT NOT NULL,
    at             BIGINT NOT NULL,
    starts_at      BIGINT NOT NULL,
    ends_at        BIGINT NOT NULL,
    per_user_limit BIGINT NOT NULL,
    unit_price     BIGINT NOT NULL,
    admission      BIGINT NOT NULL CHECK (admission >= 0),
    PRIMARY KEY (campaign, revision)
);

-- Shares of a red packet: created with the packet, assigned at the claim. A lazy packet's amounts are null before.
CREATE TABLE shares (
    campaign   BIGINT NOT NULL,
    number     BIGINT NOT NULL CHECK (number > 0),
    amount     BIGINT CHECK (amount > 0),
    "user"     TEXT   COLLATE "C",
    granted_at BIGINT,
    PRIMARY KEY (campaign, number),
    CHECK (("user" IS NULL) = (granted_at IS NULL)),
    CHECK ("user" IS NULL OR amount IS NOT NULL)
);

-- A second check after the engine's: a user has one share of a packet.
CREATE UNIQUE INDEX shares_once_per_user ON shares (campaign, "user") WHERE "user" IS NOT NULL;

-- Orders: the grants of sales. `key` is the idempotency key of the claim.
CREATE TABLE orders (
    campaign     BIGINT   NOT NULL,
    number       BIGINT   NOT NULL CHECK (number > 0),
    "user"       TEXT     COLLATE "C" NOT NULL,
    quantity     BIGINT   NOT NULL CHECK (quantity > 0),
    amount       BIGINT   NOT NULL CHECK (amount >= 0),
    state        TEXT     COLLATE "C" NOT NULL
        CHECK (state IN ('held', 'paid', 'cancelled', 'expired', 'returned')),
    one_per_user SMALLINT NOT NULL CHECK (one_per_user IN (0, 1)),
    granted_at   BIGINT   NOT NULL,
    hold_until   BIGINT   NOT NULL,
    updated_at   BIGINT   NOT NULL,
    key          TEXT     COLLATE "C",
    -- The sum of its returns in order_returns.
    returned_in_parts BIGINT NOT NULL DEFAULT 0,
    -- The sum of its cancellations in order_returns. `quantity` and `amount` are without these units.
    cancelled_in_parts BIGINT NOT NULL DEFAULT 0,
    -- Milliseconds by which the seller extended the hold, within `hold_until`.
    extension_ms BIGINT NOT NULL DEFAULT 0 CHECK (extension_ms >= 0),
    PRIMARY KEY (campaign, number)
);

-- A second check after the engine's: a user with a limit of one unit has one order.
CREATE UNIQUE INDEX orders_once_per_user ON orders (campaign, "user")
    WHERE one_per_user = 1 AND state IN ('held', 'paid');
CREATE INDEX orders_of_user ON orders ("user", granted_at, campaign, number);
CREATE INDEX orders_of_sale ON orders (campaign, granted_at, number);
CREATE INDEX orders_by_time ON orders (granted_at, campaign, number);
CREATE INDEX orders_held ON orders (campaign) WHERE state = 'held';

-- Parts of orders that were restocked, once by key: cancelled while the order was held, or returned after it was paid.
-- The one that takes all that is left without a part has no row: the order is cancelled, or returned.
CREATE TABLE order_returns (
    campaign BIGINT NOT NULL,
    number   BIGINT NOT NULL,
    key      TEXT   COLLATE "C" NOT NULL,
    quantity BIGINT NOT NULL CHECK (quantity > 0),
    amount   BIGINT NOT NULL CHECK (amount >= 0),
    at       BIGINT NOT NULL,
    kind     TEXT   COLLATE "C" NOT NULL CHECK (kind IN ('cancellation', 'return')),
    PRIMARY KEY (campaign, number, key)
);

-- Payments reported for orders, each with its outcome. `currency` is null if it is the sale's.
CREATE TABLE payments (
    campaign BIGINT NOT NULL,
    number   BIGINT NOT NULL,
    payment  TEXT   COLLATE "C" NOT NULL,
    outcome  TEXT   COLLATE "C" NOT NULL CHECK (outcome IN ('paid', 'reinstated', 'refund_due')),
    amount   BIGINT NOT NULL CHECK (amount >= 0),
    at       BIGINT NOT NULL,
    currency TEXT   COLLATE "C",
    PRIMARY KEY (campaign, number, payment)
);

-- One payment pays an order.
CREATE UNIQUE INDEX payments_pay_once ON payments (campaign, number) WHERE outcome <> 'refund_due';
CREATE INDEX payments_reference ON payments (payment);
CREATE INDEX payments_by_time ON payments (at, campaign, number, payment);

-- Accounts. Only `outside`, the source of deposits and payments, and users' accounts may be overdrawn.
CREATE TABLE accounts (
    id       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner    TEXT   COLLATE "C" NOT NULL,
    purpose  TEXT   COLLATE "C" NOT NULL CHECK (purpose IN ('user', 'escrow', 'refunds_due', 'outside')),
    currency TEXT   COLLATE "C" NOT NULL,
    balance  BIGINT NOT NULL,
    UNIQUE (owner, purpose, currency),
    CHECK (purpose IN ('outside', 'user') OR balance >= 0)
) WITH (fillfactor = 80);

CREATE INDEX accounts_owed ON accounts (id) WHERE purpose = 'refunds_due';

-- Double-entry postings: each moves an amount from `debit` to `credit`. A posting that follows from a log entry has the
-- entry's partition as `source` and its position as `seq`. Others have source -1 and are numbered.
CREATE TABLE postings (
    source   BIGINT NOT NULL,
    seq      BIGINT NOT NULL,
    kind     TEXT   COLLATE "C" NOT NULL
        CHECK (kind IN ('deposit', 'fund', 'grant', 'refund', 'residue', 'payment', 'refund_due', 'return',
                        'refund_paid', 'withdrawal', 'reversal', 'refund_reversal', 'transfer')),
    debit    BIGINT NOT NULL,
    credit   BIGINT NOT NULL,
    amount   BIGINT NOT NULL CHECK (amount > 0),
    campaign BIGINT,
    number   BIGINT,
    at       BIGINT NOT NULL,
    -- The kind of deposits, withdrawals and refunds paid, which have lists.
    listed   TEXT   COLLATE "C" GENERATED ALWAYS AS
        (CASE WHEN kind IN ('deposit', 'refund_paid', 'withdrawal') THEN kind END) STORED,
    PRIMARY KEY (source, seq),
    CHECK (debit <> credit)
);

CREATE INDEX postings_in ON postings (credit, at, source, seq);
CREATE INDEX postings_out ON postings (debit, at, source, seq)
    WHERE kind IN ('fund', 'return', 'refund_paid', 'withdrawal', 'reversal', 'transfer');
CREATE INDEX postings_listed ON postings (listed, at, source, seq) WHERE listed IS NOT NULL;

-- The last number of a posting with source -1.
CREATE TABLE direct_postings (
    source BIGINT PRIMARY KEY CHECK (source = -1),
    seq    BIGINT NOT NULL
) WITH (fillfactor = 10);

INSERT INTO direct_postings (source, seq) VALUES (-1, 0);

-- Deposits by id, and by the payment service's reference: a repeated one changes nothing.
CREATE TABLE deposits (
    id        TEXT   COLLATE "C" PRIMARY KEY,
    posting   BIGINT NOT NULL UNIQUE,
    reference TEXT   COLLATE "C"
);

CREATE UNIQUE INDEX deposits_reference ON deposits (reference);

-- Money that left: refunds made, withdrawals, reversed deposits. Transfers stay, and move between users. A reversed
-- refund has its refund's reference and is due again. The reference is the payment service's, or the deposit's id: a
-- repeated one changes nothing.
CREATE TABLE payouts (
    kind      TEXT   COLLATE "C" NOT NULL
        CHECK (kind IN ('refund_paid', 'withdrawal', 'reversal', 'refund_reversal', 'transfer')),
    reference TEXT   COLLATE "C" NOT NULL,
    posting   BIGINT NOT NULL UNIQUE,
    campaign  BIGINT,
    number    BIGINT,
    amount    BIGINT NOT NULL CHECK (amount > 0),
    PRIMARY KEY (kind, reference),
    CHECK ((kind IN ('refund_paid', 'refund_reversal')) = (campaign IS NOT NULL)),
    CHECK ((kind IN ('refund_paid', 'refund_reversal')) = (number IS NOT NULL))
);

CREATE INDEX payouts_of ON payouts (campaign, number) WHERE campaign IS NOT NULL;

-- Idempotency keys, each with its first request's fingerprint, the id it made, and the answer it got.
CREATE TABLE idempotency_keys (
    scope       TEXT   COLLATE "C" NOT NULL,
    key         TEXT   COLLATE "C" NOT NULL,
    fingerprint BYTEA  NOT NULL,
    id          TEXT   COLLATE "C" NOT NULL,
    at          BIGINT NOT NULL,
    answer      TEXT,
    PRIMARY KEY (scope, key)
);

-- Keys are deleted after a while, the oldest first. References of payments are kept.
CREATE INDEX idempotency_keys_purge ON idempotency_keys (at) WHERE scope <> 'payment';

-- Changes of campaigns under idempotency keys that were carried out: the ids to which the keys were bound. Settling
-- enters them with the change's entries. They are deleted after their keys.
CREATE TABLE made_changes (
    id TEXT COLLATE "C" PRIMARY KEY
);

-- The operation log: actions of operators and of owners, as far as they took effect.
CREATE TABLE actions (
    id         TEXT   COLLATE "C" PRIMARY KEY,
    at         BIGINT NOT NULL,
    actor      TEXT   NOT NULL,
    kind       TEXT   NOT NULL,
    subject    TEXT   COLLATE "C" NOT NULL,
    request_id TEXT   NOT NULL,
    detail     TEXT   NOT NULL
);

CREATE INDEX actions_subject ON actions (subject, id);
CREATE INDEX actions_kind ON actions (kind, id);

-- Metadata of campaigns, orders and deposits: texts of the shop by name, and the shop's own number. Nothing is decided
-- by them. The object may not be settled yet. A row of metadata without a name says that some was stored.
CREATE TABLE metadata (
    object TEXT COLLATE "C" NOT NULL,
    id     TEXT COLLATE "C" NOT NULL,
    name   TEXT COLLATE "C" NOT NULL,
    value  TEXT NOT NULL,
    PRIMARY KEY (object, id, name)
);

CREATE TABLE shop_references (
    object    TEXT COLLATE "C" NOT NULL,
    id        TEXT COLLATE "C" NOT NULL,
    reference TEXT COLLATE "C" NOT NULL,
    owner     TEXT COLLATE "C" NOT NULL,
    -- The owner, if the reference is unique for it.
    unique_owner TEXT COLLATE "C",
    PRIMARY KEY (object, id),
    UNIQUE (object, unique_owner, reference)
);

CREATE INDEX shop_references_reference ON shop_references (object, reference, id);
CREATE INDEX shop_references_owner ON shop_references (object, owner, reference, id);

-- Refused payment reports: their actions and the payments' references.
CREATE TABLE payment_refusals (
    action    TEXT COLLATE "C" PRIMARY KEY,
    reference TEXT COLLATE "C" NOT NULL
);

CREATE INDEX payment_refusals_reference ON payment_refusals (reference, action);

-- Position of settlement in each partition's log.
CREATE TABLE settled (
    partition BIGINT PRIMARY KEY,
    seq       BIGINT NOT NULL
) WITH (fillfactor = 10);

-- Quarantine: entries that the ledger refused, and entries that wait for them (`waits_for`). They are kept as text
-- until the cause is repaired and they are settled. The ledger may not have the campaign.
CREATE TABLE set_aside (
    partition BIGINT NOT NULL,
    seq       BIGINT NOT NULL,
    campaign  TEXT   COLLATE "C" NOT NULL,
    entry     TEXT   COLLATE "C" NOT NULL,
    reason    TEXT   NOT NULL,
    waits_for BIGINT,
    at        BIGINT NOT NULL,
    discard   BIGINT NOT NULL DEFAULT 0 CHECK (discard BETWEEN 0 AND 3),
    PRIMARY KEY (partition, seq),
    CHECK (waits_for < seq)
);

CREATE INDEX set_aside_campaigns ON set_aside (partition, campaign, seq);
CREATE INDEX set_aside_discards ON set_aside (partition, seq) WHERE discard BETWEEN 1 AND 2;

-- Repairs of partitions that lost entries. A row is written under the epoch that the repair begins, before it changes
-- anything. `upto` is the log's last position after the repair, null until all that it withholds is recorded.
CREATE TABLE repairs (
    partition BIGINT NOT NULL,
    epoch     TEXT   COLLATE "C" NOT NULL,
    follows   TEXT   COLLATE "C" NOT NULL,
    at        BIGINT NOT NULL,
    lost_from BIGINT NOT NULL,
    lost_to   BIGINT NOT NULL,
    unnamed   BIGINT NOT NULL CHECK (unnamed >= 0),
    reason    TEXT   NOT NULL,
    upto      BIGINT,
    PRIMARY KEY (partition, epoch)
);

-- Units of a campaign, or of a shard, that a repair withholds; for shares also their amount. Released units are for
-- sale again or were refunded.
CREATE TABLE withheld (
    partition   BIGINT NOT NULL,
    epoch       TEXT   COLLATE "C" NOT NULL,
    campaign    BIGINT NOT NULL,
    units       BIGINT NOT NULL CHECK (units >= 0),
    amount      BIGINT NOT NULL CHECK (amount >= 0),
    released_at BIGINT,
    PRIMARY KEY (partition, epoch, campaign)
);

-- Numbers that are never granted, since lost grants may have had them: each `step`-th from the first to the last.
CREATE TABLE withheld_numbers (
    partition    BIGINT NOT NULL,
    epoch        TEXT   COLLATE "C" NOT NULL,
    campaign     BIGINT NOT NULL,
    first_number BIGINT NOT NULL CHECK (first_number > 0),
    last_number  BIGINT NOT NULL CHECK (last_number >= first_number),
    step         BIGINT NOT NULL CHECK (step > 0),
    PRIMARY KEY (partition, epoch, campaign, first_number)
);

-- Campaigns with a queue. The engine has the queue's entries.
CREATE TABLE waiting_rooms (
    campaign TEXT COLLATE "C" PRIMARY KEY
);

-- Webhook endpoints. `place` is the last event that was sent; `holder` delivers until `held_until`.
CREATE TABLE webhooks (
    id              TEXT   COLLATE "C" PRIMARY KEY,
    url             TEXT   NOT NULL,
    secret          TEXT   NOT NULL,
    previous_secret TEXT,
    previous_until  BIGINT,
    types           TEXT   NOT NULL,
    campaigns       TEXT   COLLATE "C" NOT NULL,
    owner           TEXT   COLLATE "C",
    managed_by      TEXT   COLLATE "C",
    created_at      BIGINT NOT NULL,
    place           BIGINT NOT NULL,
    failing_since   BIGINT,
    attempts        BIGINT NOT NULL DEFAULT 0,
    retry_at        BIGINT,
    last_error      TEXT,
    disabled_at     BIGINT,
    holder          TEXT   COLLATE "C",
    held_until      BIGINT
);

-- Events for webhooks, written with the settlement of their entries, and the last number given.
CREATE TABLE webhook_events (
    place     BIGINT PRIMARY KEY,
    partition BIGINT NOT NULL,
    seq       BIGINT NOT NULL,
    kind      TEXT   COLLATE "C" NOT NULL,
    at        BIGINT NOT NULL,
    campaign  BIGINT NOT NULL,
    number    BIGINT,
    "user"    TEXT   COLLATE "C",
    quantity  BIGINT NOT NULL,
    amount    BIGINT NOT NULL,
    payment   TEXT   COLLATE "C",
    currency  TEXT   COLLATE "C"
);

CREATE INDEX webhook_events_at ON webhook_events (at);

-- Events up to an endpoint's place that wait for a retry, or for an earlier event of the same order.
CREATE TABLE webhook_retries (
    webhook       TEXT   COLLATE "C" NOT NULL,
    place         BIGINT NOT NULL,
    attempts      BIGINT NOT NULL,
    failing_since BIGINT,
    retry_at      BIGINT,
    PRIMARY KEY (webhook, place)
);

-- Log of attempts to deliver events. Ids sort by time.
CREATE TABLE webhook_attempts (
    id          TEXT   COLLATE "C" PRIMARY KEY,
    webhook     TEXT   COLLATE "C" NOT NULL,
    place       BIGINT NOT NULL,
    event       TEXT   COLLATE "C" NOT NULL,
    kind        TEXT   COLLATE "C" NOT NULL,
    campaign    TEXT   COLLATE "C" NOT NULL,
    number      BIGINT,
    at          BIGINT NOT NULL,
    duration_ms BIGINT NOT NULL,
    attempt     BIGINT NOT NULL,
    status      BIGINT,
    body        TEXT,
    error       TEXT,
    state       TEXT   COLLATE "C" NOT NULL,
    next_at     BIGINT
);

CREATE INDEX webhook_attempts_webhook ON webhook_attempts (webhook, id);
CREATE INDEX webhook_attempts_state ON webhook_attempts (webhook, state, id);
CREATE INDEX webhook_attempts_event ON webhook_attempts (event, webhook, id);
CREATE INDEX webhook_attempts_order ON webhook_attempts (campaign, number, webhook, id);

CREATE TABLE webhook_places (
    last_place BIGINT NOT NULL
);

INSERT INTO webhook_places (last_place) VALUES (0);

-- The engine whose entries the ledger takes: one row, written at the first start with an engine.
CREATE TABLE engine (
    id           BIGINT PRIMARY KEY CHECK (id = 1),
    installation TEXT   COLLATE "C" NOT NULL,
    engine       TEXT   COLLATE "C" NOT NULL,
    location     TEXT   NOT NULL,
    beats        BIGINT NOT NULL
);

-- Attempts at repairs: of each partition the last one. The ledger accepts the writes of no other.
CREATE TABLE repair_attempts (
    partition BIGINT NOT NULL PRIMARY KEY,
    number    BIGINT NOT NULL CHECK (number > 0),
    repairer  TEXT   COLLATE "C" NOT NULL
);
