-- The ledger on PostgreSQL: the tables of the embedded file, without its log, which lives in the engine.
-- Times are milliseconds since the Unix epoch; money is minor units of the row's currency. Texts compare byte by byte.
-- No foreign keys: each would cost a lookup and a lock of a busy row for every row that settlement writes.

-- A campaign as created, and where it stands as far as it is settled. `parts` is over how many partitions it is
-- spread. Units that one part of a spread sale took back may be sold again by another, and each part is settled for
-- itself: for a while the ledger may know of the second sale alone. So more units than there are is an error there
-- once all parts are closed, and at any time everywhere else.
CREATE TABLE campaigns (
    ref            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id             TEXT   COLLATE "C" NOT NULL UNIQUE,
    kind           TEXT   COLLATE "C" NOT NULL CHECK (kind IN ('red_packet', 'sale')),
    owner          TEXT   COLLATE "C" NOT NULL,
    title          TEXT   NOT NULL,
    currency       TEXT   COLLATE "C" NOT NULL,
    ack            TEXT   COLLATE "C" NOT NULL CHECK (ack IN ('memory', 'replica', 'fsync', 'ledger')),
    starts_at      BIGINT NOT NULL,
    ends_at        BIGINT NOT NULL CHECK (ends_at > starts_at),
    created_at     BIGINT NOT NULL,
    supply         BIGINT NOT NULL CHECK (supply > 0),
    per_user_limit BIGINT NOT NULL CHECK (per_user_limit BETWEEN 1 AND supply),
    -- red packets
    total          BIGINT CHECK (total > 0),
    split_rule     TEXT   COLLATE "C",
    split_min      BIGINT,
    split_max      BIGINT,
    split_version  BIGINT,
    seed           BYTEA  CHECK (length(seed) = 32),
    commitment     BYTEA  CHECK (length(commitment) = 32),
    -- sales
    unit_price     BIGINT CHECK (unit_price >= 0),
    hold_ms        BIGINT CHECK (hold_ms > 0),
    -- as settled
    phase          TEXT   COLLATE "C" NOT NULL
        CHECK (phase IN ('draft', 'scheduled', 'paused', 'ended', 'closed')),
    parts          BIGINT NOT NULL DEFAULT 1 CHECK (parts BETWEEN 1 AND 65535),
    granted        BIGINT NOT NULL DEFAULT 0 CHECK (granted >= 0),
    returned       BIGINT NOT NULL DEFAULT 0 CHECK (returned >= 0),
    refunded       BIGINT NOT NULL DEFAULT 0 CHECK (refunded >= 0),
    CHECK (granted + returned <= supply OR kind = 'sale' AND parts > 1 AND phase <> 'closed'),
    CHECK (kind <> 'red_packet' OR (total IS NOT NULL AND split_rule IS NOT NULL AND seed IS NOT NULL)),
    CHECK (kind <> 'sale' OR (unit_price IS NOT NULL AND hold_ms IS NOT NULL))
) WITH (fillfactor = 50);

CREATE INDEX campaigns_unopened ON campaigns (ref) WHERE phase = 'draft';

-- The parts of campaigns that are spread, as settled, each under the partition that has it. A part has no row before
-- it has opened; a campaign that is not spread has none.
CREATE TABLE parts (
    campaign  BIGINT NOT NULL,
    partition BIGINT NOT NULL,
    phase     TEXT   COLLATE "C" NOT NULL CHECK (phase IN ('scheduled', 'paused', 'ended', 'closed')),
    granted   BIGINT NOT NULL DEFAULT 0 CHECK (granted >= 0),
    returned  BIGINT NOT NULL DEFAULT 0 CHECK (returned >= 0),
    refunded  BIGINT NOT NULL DEFAULT 0 CHECK (refunded >= 0),
    PRIMARY KEY (campaign, partition)
) WITH (fillfactor = 50);

-- A red packet's shares: made with the packet, without a user, and assigned when they are claimed. A lazy packet's
-- amounts are not known before the claim.
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

-- Behind the engine's own check: a user has one share of a packet, whatever happens in memory.
CREATE UNIQUE INDEX shares_once_per_user ON shares (campaign, "user") WHERE "user" IS NOT NULL;

-- A sale's grants.
CREATE TABLE orders (
    campaign     BIGINT   NOT NULL,
    number       BIGINT   NOT NULL CHECK (number > 0),
    "user"       TEXT     COLLATE "C" NOT NULL,
    quantity     BIGINT   NOT NULL CHECK (quantity > 0),
    amount       BIGINT   NOT NULL CHECK (amount >= 0),
    state        TEXT     COLLATE "C" NOT NULL CHECK (state IN ('held', 'paid', 'cancelled', 'expired')),
    one_per_user SMALLINT NOT NULL CHECK (one_per_user IN (0, 1)),
    granted_at   BIGINT   NOT NULL,
    hold_until   BIGINT   NOT NULL,
    updated_at   BIGINT   NOT NULL,
    PRIMARY KEY (campaign, number)
);

-- Behind the engine's own check: where a user may have one unit, one order has it.
CREATE UNIQUE INDEX orders_once_per_user ON orders (campaign, "user")
    WHERE one_per_user = 1 AND state IN ('held', 'paid');

-- Payments that arrived for orders, and what became of them.
CREATE TABLE payments (
    campaign BIGINT NOT NULL,
    number   BIGINT NOT NULL,
    payment  TEXT   COLLATE "C" NOT NULL,
    outcome  TEXT   COLLATE "C" NOT NULL CHECK (outcome IN ('paid', 'reinstated', 'refund_due')),
    amount   BIGINT NOT NULL CHECK (amount >= 0),
    at       BIGINT NOT NULL,
    PRIMARY KEY (campaign, number, payment)
);

-- An order is paid by one payment.
CREATE UNIQUE INDEX payments_pay_once ON payments (campaign, number) WHERE outcome <> 'refund_due';

-- Accounts. Only the outside may be overdrawn: it is where deposits and payments come from. Pages keep room, so that
-- a balance moves without touching an index.
CREATE TABLE accounts (
    id       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner    TEXT   COLLATE "C" NOT NULL,
    purpose  TEXT   COLLATE "C" NOT NULL CHECK (purpose IN ('user', 'escrow', 'refunds_due', 'outside')),
    currency TEXT   COLLATE "C" NOT NULL,
    balance  BIGINT NOT NULL,
    UNIQUE (owner, purpose, currency),
    CHECK (purpose = 'outside' OR balance >= 0)
) WITH (fillfactor = 80);

-- Double entry: each row takes an amount from one account and gives it to another. Rows of source 0 and above carry
-- the place of the log entry they follow from in that partition; rows of source -1 are numbered one by one.
CREATE TABLE postings (
    source   BIGINT NOT NULL,
    seq      BIGINT NOT NULL,
    kind     TEXT   COLLATE "C" NOT NULL
        CHECK (kind IN ('deposit', 'fund', 'grant', 'refund', 'residue', 'payment', 'refund_due')),
    debit    BIGINT NOT NULL,
    credit   BIGINT NOT NULL,
    amount   BIGINT NOT NULL CHECK (amount > 0),
    campaign BIGINT,
    number   BIGINT,
    at       BIGINT NOT NULL,
    PRIMARY KEY (source, seq),
    CHECK (debit <> credit)
);

-- The last number that was given to a posting of source -1.
CREATE TABLE direct_postings (
    source BIGINT PRIMARY KEY CHECK (source = -1),
    seq    BIGINT NOT NULL
) WITH (fillfactor = 10);

INSERT INTO direct_postings (source, seq) VALUES (-1, 0);

-- What deposits were made, by their id, so that one repeated is one made.
CREATE TABLE deposits (
    id      TEXT   COLLATE "C" PRIMARY KEY,
    posting BIGINT NOT NULL UNIQUE
);

-- What an idempotency key stands for, durably.
CREATE TABLE idempotency_keys (
    scope       TEXT   COLLATE "C" NOT NULL,
    key         TEXT   COLLATE "C" NOT NULL,
    fingerprint BYTEA  NOT NULL,
    id          TEXT   COLLATE "C" NOT NULL,
    at          BIGINT NOT NULL,
    PRIMARY KEY (scope, key)
);

-- How far each partition's log is carried into the tables above.
CREATE TABLE settled (
    partition BIGINT PRIMARY KEY,
    seq       BIGINT NOT NULL
) WITH (fillfactor = 10);
