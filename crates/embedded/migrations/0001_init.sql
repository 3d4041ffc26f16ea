-- The embedded file: the partition's log, and the ledger that follows from it.
-- Times are milliseconds since the Unix epoch; money is minor units of the row's currency.

-- A campaign as created, and where it stands as far as it is settled.
CREATE TABLE campaigns (
    ref            INTEGER PRIMARY KEY,
    id             TEXT    NOT NULL UNIQUE,
    kind           TEXT    NOT NULL CHECK (kind IN ('red_packet', 'sale')),
    owner          TEXT    NOT NULL,
    title          TEXT    NOT NULL,
    currency       TEXT    NOT NULL,
    ack            TEXT    NOT NULL CHECK (ack IN ('memory', 'replica', 'fsync', 'ledger')),
    starts_at      INTEGER NOT NULL,
    ends_at        INTEGER NOT NULL CHECK (ends_at > starts_at),
    created_at     INTEGER NOT NULL,
    supply         INTEGER NOT NULL CHECK (supply > 0),
    per_user_limit INTEGER NOT NULL CHECK (per_user_limit BETWEEN 1 AND supply),
    -- red packets
    total          INTEGER CHECK (total > 0),
    split_rule     TEXT,
    split_min      INTEGER,
    split_max      INTEGER,
    split_version  INTEGER,
    seed           BLOB,
    commitment     BLOB,
    -- sales
    unit_price     INTEGER CHECK (unit_price >= 0),
    hold_ms        INTEGER CHECK (hold_ms > 0),
    -- as settled
    phase          TEXT    NOT NULL CHECK (phase IN ('draft', 'scheduled', 'paused', 'ended', 'closed')),
    granted        INTEGER NOT NULL DEFAULT 0 CHECK (granted >= 0),
    returned       INTEGER NOT NULL DEFAULT 0 CHECK (returned >= 0),
    refunded       INTEGER NOT NULL DEFAULT 0 CHECK (refunded >= 0),
    CHECK (granted + returned <= supply),
    CHECK (kind <> 'red_packet' OR (total IS NOT NULL AND split_rule IS NOT NULL AND seed IS NOT NULL)),
    CHECK (kind <> 'sale' OR (unit_price IS NOT NULL AND hold_ms IS NOT NULL))
) STRICT;

CREATE INDEX campaigns_unopened ON campaigns (ref) WHERE phase = 'draft';

-- A red packet's shares: made with the packet, without a user, and assigned when they are claimed. A lazy packet's
-- amounts are not known before the claim.
CREATE TABLE shares (
    campaign   INTEGER NOT NULL REFERENCES campaigns (ref),
    number     INTEGER NOT NULL CHECK (number > 0),
    amount     INTEGER CHECK (amount > 0),
    user       TEXT,
    granted_at INTEGER,
    PRIMARY KEY (campaign, number),
    CHECK ((user IS NULL) = (granted_at IS NULL)),
    CHECK (user IS NULL OR amount IS NOT NULL)
) STRICT, WITHOUT ROWID;

-- Behind the engine's own check: a user has one share of a packet, whatever happens in memory.
CREATE UNIQUE INDEX shares_once_per_user ON shares (campaign, user) WHERE user IS NOT NULL;

-- A sale's grants.
CREATE TABLE orders (
    campaign     INTEGER NOT NULL REFERENCES campaigns (ref),
    number       INTEGER NOT NULL CHECK (number > 0),
    user         TEXT    NOT NULL,
    quantity     INTEGER NOT NULL CHECK (quantity > 0),
    amount       INTEGER NOT NULL CHECK (amount >= 0),
    state        TEXT    NOT NULL CHECK (state IN ('held', 'paid', 'cancelled', 'expired')),
    one_per_user INTEGER NOT NULL CHECK (one_per_user IN (0, 1)),
    granted_at   INTEGER NOT NULL,
    hold_until   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    PRIMARY KEY (campaign, number)
) STRICT, WITHOUT ROWID;

-- Behind the engine's own check: where a user may have one unit, one order has it.
CREATE UNIQUE INDEX orders_once_per_user ON orders (campaign, user)
    WHERE one_per_user = 1 AND state IN ('held', 'paid');

-- Payments that arrived for orders, and what became of them.
CREATE TABLE payments (
    campaign INTEGER NOT NULL,
    number   INTEGER NOT NULL,
    payment  TEXT    NOT NULL,
    outcome  TEXT    NOT NULL CHECK (outcome IN ('paid', 'reinstated', 'refund_due')),
    amount   INTEGER NOT NULL CHECK (amount >= 0),
    at       INTEGER NOT NULL,
    PRIMARY KEY (campaign, number, payment),
    FOREIGN KEY (campaign, number) REFERENCES orders (campaign, number)
) STRICT, WITHOUT ROWID;

-- An order is paid by one payment.
CREATE UNIQUE INDEX payments_pay_once ON payments (campaign, number) WHERE outcome <> 'refund_due';

-- Accounts. Only the outside may be overdrawn: it is where deposits and payments come from.
CREATE TABLE accounts (
    id       INTEGER PRIMARY KEY,
    owner    TEXT    NOT NULL,
    purpose  TEXT    NOT NULL CHECK (purpose IN ('user', 'escrow', 'refunds_due', 'outside')),
    currency TEXT    NOT NULL,
    balance  INTEGER NOT NULL,
    UNIQUE (owner, purpose, currency),
    CHECK (purpose = 'outside' OR balance >= 0)
) STRICT;

-- Double entry: each row takes an amount from one account and gives it to another. Rows of source 0 and above carry
-- the place of the log entry they follow from in that partition; rows of source -1 are numbered one by one.
CREATE TABLE postings (
    source   INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    kind     TEXT    NOT NULL
        CHECK (kind IN ('deposit', 'fund', 'grant', 'refund', 'residue', 'payment', 'refund_due')),
    debit    INTEGER NOT NULL REFERENCES accounts (id),
    credit   INTEGER NOT NULL REFERENCES accounts (id),
    amount   INTEGER NOT NULL CHECK (amount > 0),
    campaign INTEGER REFERENCES campaigns (ref),
    number   INTEGER,
    at       INTEGER NOT NULL,
    PRIMARY KEY (source, seq),
    CHECK (debit <> credit)
) STRICT, WITHOUT ROWID;

-- What deposits were made, by their id, so that one repeated is one made.
CREATE TABLE deposits (
    id      TEXT    PRIMARY KEY,
    posting INTEGER NOT NULL UNIQUE
) STRICT, WITHOUT ROWID;

-- What an idempotency key stands for, durably.
CREATE TABLE idempotency_keys (
    scope       TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,
    id          TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;

-- The partition's log: appended in the same transaction as the decision, never changed.
CREATE TABLE event_kinds (
    kind INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

INSERT INTO event_kinds (kind, name) VALUES
    (0, 'opened'), (1, 'granted'), (2, 'paid'), (3, 'cancelled'), (4, 'expired'), (5, 'reinstated'),
    (6, 'refund_due'), (7, 'paused'), (8, 'resumed'), (9, 'ended'), (10, 'closed');

CREATE TABLE events (
    seq      INTEGER PRIMARY KEY,
    at       INTEGER NOT NULL,
    campaign INTEGER NOT NULL,
    kind     INTEGER NOT NULL,
    number   INTEGER,          -- the grant's number in its campaign
    user     TEXT,             -- granted
    quantity INTEGER,          -- granted: units; closed: units returned
    amount   INTEGER,          -- granted: minor units; closed: minor units refunded
    note     TEXT              -- granted: idempotency key; paid, reinstated, refund_due: payment
) STRICT;

-- How far each partition's log is carried into the tables above.
CREATE TABLE settled (
    partition INTEGER PRIMARY KEY,
    seq       INTEGER NOT NULL
) STRICT;

INSERT INTO settled (partition, seq) VALUES (0, 0);

-- Written by the readiness probe, which goes the way of a grant.
CREATE TABLE probe (
    id INTEGER PRIMARY KEY CHECK (id = 0),
    at INTEGER NOT NULL
) STRICT;
