-- The data file: the log of partition 0, and the ledger that follows from it.
-- Times are milliseconds since the Unix epoch. Money is minor units of the row's currency.
--
-- A CHECK or a partial index lists more than two words as `x = 'a' OR x = 'b'`, the most frequent word first: for
-- `IN` with more than two words SQLite builds a temporary table at each run of a statement.

-- Campaigns as created, and their settled state.
CREATE TABLE campaigns (
    ref                INTEGER PRIMARY KEY,
    id                 TEXT    NOT NULL UNIQUE,
    kind               TEXT    NOT NULL CHECK (kind IN ('red_packet', 'sale')),
    owner              TEXT    NOT NULL,
    title              TEXT    NOT NULL,
    currency           TEXT    NOT NULL,
    ack                TEXT    NOT NULL
        CHECK (ack = 'fsync' OR ack = 'replica' OR ack = 'memory' OR ack = 'ledger'),
    starts_at          INTEGER NOT NULL,
    ends_at            INTEGER NOT NULL CHECK (ends_at > starts_at),
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL CHECK (updated_at >= 0),
    supply             INTEGER NOT NULL CHECK (supply > 0), -- shares, or units as settled changes of stock left them
    per_user_limit     INTEGER NOT NULL CHECK (per_user_limit >= 1),
    requirements       TEXT    NOT NULL DEFAULT '',
    admission          INTEGER CHECK (admission >= 0),
    -- red packets
    total              INTEGER CHECK (total > 0),
    split_rule         TEXT,
    split_min          INTEGER,
    split_max          INTEGER,
    split_version      INTEGER,
    seed               BLOB,
    commitment         BLOB,
    server_seed        BLOB,
    client_seed        BLOB,
    -- sales
    unit_price         INTEGER CHECK (unit_price >= 0),
    hold_ms            INTEGER CHECK (hold_ms > 0),
    payment_policy     TEXT,
    payment_tolerance  INTEGER,
    terms_revision     INTEGER NOT NULL DEFAULT 0,
    -- as settled
    parts              INTEGER NOT NULL DEFAULT 1 CHECK (parts BETWEEN 1 AND 65535),
    phase              TEXT    NOT NULL
        CHECK (phase = 'scheduled' OR phase = 'draft' OR phase = 'closed' OR phase = 'ended' OR phase = 'paused'),
    granted            INTEGER NOT NULL DEFAULT 0 CHECK (granted >= 0),
    returned           INTEGER NOT NULL DEFAULT 0 CHECK (returned >= 0),
    refunded           INTEGER NOT NULL DEFAULT 0 CHECK (refunded >= 0),
    -- Each shard of a spread sale settles for itself. A unit that one shard returned may be sold by another before the
    -- return is settled: the bound holds there once all shards are closed.
    CHECK (granted + returned <= supply OR kind = 'sale' AND parts > 1 AND phase <> 'closed'),
    CHECK (kind <> 'red_packet' OR (total IS NOT NULL AND split_rule IS NOT NULL AND seed IS NOT NULL)),
    CHECK (kind <> 'sale' OR (unit_price IS NOT NULL AND hold_ms IS NOT NULL))
) STRICT;

CREATE INDEX campaigns_unopened ON campaigns (ref) WHERE phase = 'draft';
-- Campaigns that time changes: a start reads these alone.
CREATE INDEX campaigns_live ON campaigns (ends_at, id) WHERE phase NOT IN ('draft', 'closed');
CREATE INDEX campaigns_not_closed ON campaigns (id) WHERE phase <> 'closed';
CREATE INDEX campaigns_claimed ON campaigns (ref)
    WHERE kind = 'red_packet' AND phase <> 'closed' AND granted = supply;
CREATE INDEX campaigns_holds_end ON campaigns (ends_at + 2 * hold_ms) WHERE kind = 'sale' AND phase = 'closed';

-- Shards of spread campaigns, as settled. A shard that has not opened has no row.
CREATE TABLE parts (
    campaign  INTEGER NOT NULL REFERENCES campaigns (ref),
    partition INTEGER NOT NULL,
    phase     TEXT    NOT NULL
        CHECK (phase = 'scheduled' OR phase = 'closed' OR phase = 'ended' OR phase = 'paused'),
    granted   INTEGER NOT NULL DEFAULT 0 CHECK (granted >= 0),
    returned  INTEGER NOT NULL DEFAULT 0 CHECK (returned >= 0),
    refunded  INTEGER NOT NULL DEFAULT 0 CHECK (refunded >= 0),
    PRIMARY KEY (campaign, partition)
) STRICT, WITHOUT ROWID;

-- Texts that users see beside a campaign's title, and when it was archived. Campaigns without any have no row. Nothing
-- is decided by them. A table of their own keeps them out of the rows that settlement writes.
CREATE TABLE details (
    campaign    INTEGER PRIMARY KEY REFERENCES campaigns (ref),
    product_id  TEXT CHECK (product_id <> ''),
    description TEXT CHECK (description <> ''),
    image_url   TEXT CHECK (image_url <> ''),
    gallery     TEXT CHECK (gallery <> ''),
    list_price  INTEGER CHECK (list_price > 0),
    cover       TEXT CHECK (cover <> ''),
    archived_at INTEGER
) STRICT;

CREATE INDEX details_product ON details (product_id) WHERE product_id IS NOT NULL;

-- Users that may claim from a campaign. A campaign without a row is open to all users.
CREATE TABLE audiences (
    campaign INTEGER PRIMARY KEY REFERENCES campaigns (ref),
    rules    TEXT NOT NULL
) STRICT;

-- Settings of a sale by revision: the first row and each change.
CREATE TABLE sale_terms (
    campaign       INTEGER NOT NULL REFERENCES campaigns (ref),
    revision       INTEGER NOT NULL,
    at             INTEGER NOT NULL,
    starts_at      INTEGER NOT NULL,
    ends_at        INTEGER NOT NULL,
    per_user_limit INTEGER NOT NULL,
    unit_price     INTEGER NOT NULL,
    admission      INTEGER NOT NULL CHECK (admission >= 0),
    PRIMARY KEY (campaign, revision)
) STRICT, WITHOUT ROWID;

-- Shares of a red packet: created with the packet, assigned at the claim. A lazy packet's amounts are null before.
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

-- A second check after the engine's: a user has one share of a packet.
CREATE UNIQUE INDEX shares_once_per_user ON shares (campaign, user) WHERE user IS NOT NULL;

-- Large packets whose shares are written in several transactions, before the packet's own row. `ref` is that row's.
-- The shares of a packet that is never completed are deleted.
CREATE TABLE preparations (
    ref INTEGER PRIMARY KEY
) STRICT;

-- Orders: the grants of sales. `key` is the idempotency key of the claim.
CREATE TABLE orders (
    campaign     INTEGER NOT NULL REFERENCES campaigns (ref),
    number       INTEGER NOT NULL CHECK (number > 0),
    user         TEXT    NOT NULL,
    quantity     INTEGER NOT NULL CHECK (quantity > 0),
    amount       INTEGER NOT NULL CHECK (amount >= 0),
    state        TEXT    NOT NULL
        CHECK (state = 'held' OR state = 'paid' OR state = 'cancelled' OR state = 'expired' OR state = 'returned'),
    one_per_user INTEGER NOT NULL CHECK (one_per_user IN (0, 1)),
    granted_at   INTEGER NOT NULL,
    hold_until   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    key          TEXT,
    -- The sum of its returns in order_returns.
    returned_in_parts INTEGER NOT NULL DEFAULT 0,
    -- The sum of its cancellations in order_returns. `quantity` and `amount` are without these units.
    cancelled_in_parts INTEGER NOT NULL DEFAULT 0,
    -- Milliseconds by which the seller extended the hold, within `hold_until`.
    extension_ms INTEGER NOT NULL DEFAULT 0 CHECK (extension_ms >= 0),
    PRIMARY KEY (campaign, number)
) STRICT, WITHOUT ROWID;

-- A second check after the engine's: a user with a limit of one unit has one order.
CREATE UNIQUE INDEX orders_once_per_user ON orders (campaign, user)
    WHERE one_per_user = 1 AND state IN ('held', 'paid');
CREATE INDEX orders_of_user ON orders (user, granted_at);
CREATE INDEX orders_of_sale ON orders (campaign, granted_at);
CREATE INDEX orders_by_time ON orders (granted_at);
CREATE INDEX orders_held ON orders (campaign, number) WHERE state = 'held';
CREATE INDEX orders_held_longer ON orders (campaign, number) WHERE state = 'held' AND extension_ms > 0;

-- Parts of orders that were restocked, once by key: cancelled while the order was held, or returned after it was paid.
-- The one that takes all that is left without a part has no row: the order is cancelled, or returned.
CREATE TABLE order_returns (
    campaign INTEGER NOT NULL,
    number   INTEGER NOT NULL,
    key      TEXT    NOT NULL,
    quantity INTEGER NOT NULL CHECK (quantity > 0),
    amount   INTEGER NOT NULL CHECK (amount >= 0),
    at       INTEGER NOT NULL,
    kind     TEXT    NOT NULL CHECK (kind = 'cancellation' OR kind = 'return'),
    PRIMARY KEY (campaign, number, key),
    FOREIGN KEY (campaign, number) REFERENCES orders (campaign, number)
) STRICT, WITHOUT ROWID;

-- Payments reported for orders, each with its outcome. `currency` is null if it is the sale's.
CREATE TABLE payments (
    campaign INTEGER NOT NULL,
    number   INTEGER NOT NULL,
    payment  TEXT    NOT NULL,
    outcome  TEXT    NOT NULL CHECK (outcome = 'paid' OR outcome = 'reinstated' OR outcome = 'refund_due'),
    amount   INTEGER NOT NULL CHECK (amount >= 0),
    at       INTEGER NOT NULL,
    currency TEXT,
    PRIMARY KEY (campaign, number, payment),
    FOREIGN KEY (campaign, number) REFERENCES orders (campaign, number)
) STRICT, WITHOUT ROWID;

-- One payment pays an order.
CREATE UNIQUE INDEX payments_pay_once ON payments (campaign, number) WHERE outcome <> 'refund_due';
CREATE INDEX payments_reference ON payments (payment);
CREATE INDEX payments_by_time ON payments (at);

-- Accounts. Only `outside`, the source of deposits and payments, and users' accounts may be overdrawn.
CREATE TABLE accounts (
    id       INTEGER PRIMARY KEY,
    owner    TEXT    NOT NULL,
    purpose  TEXT    NOT NULL
        CHECK (purpose = 'user' OR purpose = 'escrow' OR purpose = 'outside' OR purpose = 'refunds_due'),
    currency TEXT    NOT NULL,
    balance  INTEGER NOT NULL,
    UNIQUE (owner, purpose, currency),
    CHECK (purpose IN ('outside', 'user') OR balance >= 0)
) STRICT;

CREATE INDEX accounts_owed ON accounts (id) WHERE purpose = 'refunds_due';

-- Double-entry postings: each moves an amount from `debit` to `credit`. A posting that follows from a log entry has the
-- entry's partition as `source` and its position as `seq`. Others have source -1 and are numbered.
CREATE TABLE postings (
    source   INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    kind     TEXT    NOT NULL
        CHECK (kind = 'grant' OR kind = 'fund' OR kind = 'payment' OR kind = 'refund' OR kind = 'residue'
            OR kind = 'deposit' OR kind = 'refund_due' OR kind = 'return' OR kind = 'refund_paid'
            OR kind = 'withdrawal' OR kind = 'reversal' OR kind = 'refund_reversal'
            OR kind = 'transfer'),
    debit    INTEGER NOT NULL REFERENCES accounts (id),
    credit   INTEGER NOT NULL REFERENCES accounts (id),
    amount   INTEGER NOT NULL CHECK (amount > 0),
    campaign INTEGER REFERENCES campaigns (ref),
    number   INTEGER,
    at       INTEGER NOT NULL,
    PRIMARY KEY (source, seq),
    CHECK (debit <> credit)
) STRICT, WITHOUT ROWID;

CREATE INDEX postings_in ON postings (credit, at);
CREATE INDEX postings_out ON postings (debit, at)
    WHERE kind = 'return' OR kind = 'refund_paid' OR kind = 'withdrawal' OR kind = 'reversal' OR kind = 'transfer';
CREATE INDEX postings_listed ON postings (kind, at)
    WHERE kind = 'deposit' OR kind = 'withdrawal' OR kind = 'refund_paid';

-- The last number of a posting with source -1 that funds no packet. It shows if such postings were deleted by hand.
CREATE TABLE direct_postings (source INTEGER PRIMARY KEY CHECK (source = -1), seq INTEGER NOT NULL) STRICT;

INSERT INTO direct_postings (source, seq) VALUES (-1, 0);

-- Deposits by id, and by the payment service's reference: a repeated one changes nothing.
CREATE TABLE deposits (
    id        TEXT    PRIMARY KEY,
    posting   INTEGER NOT NULL UNIQUE,
    reference TEXT
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX deposits_reference ON deposits (reference) WHERE reference IS NOT NULL;

-- Money that left: refunds made, withdrawals, reversed deposits. Transfers stay, and move between users. A reversed
-- refund has its refund's reference and is due again. The reference is the payment service's, or the deposit's id: a
-- repeated one changes nothing.
CREATE TABLE payouts (
    kind      TEXT    NOT NULL
        CHECK (kind = 'refund_paid' OR kind = 'withdrawal' OR kind = 'reversal' OR kind = 'refund_reversal'
            OR kind = 'transfer'),
    reference TEXT    NOT NULL,
    posting   INTEGER NOT NULL UNIQUE,
    campaign  INTEGER REFERENCES campaigns (ref),
    number    INTEGER,
    amount    INTEGER NOT NULL CHECK (amount > 0),
    PRIMARY KEY (kind, reference),
    CHECK ((kind = 'refund_paid' OR kind = 'refund_reversal') = (campaign IS NOT NULL)),
    CHECK ((kind = 'refund_paid' OR kind = 'refund_reversal') = (number IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX payouts_of ON payouts (campaign, number) WHERE campaign IS NOT NULL;

-- Idempotency keys, each with its first request's fingerprint, the id it made, and its response. The key is the first
-- column, which spreads keys of one scope over the tree; keys that were made together are close.
CREATE TABLE idempotency_keys (
    scope       TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,
    id          TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    answer      TEXT,
    PRIMARY KEY (key, scope)
) STRICT, WITHOUT ROWID;

-- Keys are deleted after a while, the oldest first. References of payments are kept.
CREATE INDEX idempotency_keys_purge ON idempotency_keys (at) WHERE scope <> 'payment';

-- Changes of campaigns under idempotency keys that were carried out: the ids to which the keys were bound. Settling
-- enters them with the change's entries. They are deleted after their keys.
CREATE TABLE made_changes (
    id TEXT NOT NULL PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- The operation log: actions of operators and of owners, as far as they took effect.
CREATE TABLE actions (
    id         TEXT    NOT NULL PRIMARY KEY,
    at         INTEGER NOT NULL,
    actor      TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    subject    TEXT    NOT NULL,
    request_id TEXT    NOT NULL,
    detail     TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX actions_subject ON actions (subject, id);
CREATE INDEX actions_kind ON actions (kind, id);

-- Metadata of campaigns, orders and deposits: texts of the shop by name, and the shop's own number. Nothing is decided
-- by them. The object may not be settled yet. A row of metadata without a name says that some was stored.
CREATE TABLE metadata (
    object TEXT NOT NULL,
    id     TEXT NOT NULL,
    name   TEXT NOT NULL,
    value  TEXT NOT NULL,
    PRIMARY KEY (object, id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE shop_references (
    object    TEXT NOT NULL,
    id        TEXT NOT NULL,
    reference TEXT NOT NULL,
    owner     TEXT NOT NULL,
    -- The owner, if the reference is unique for it.
    unique_owner TEXT,
    PRIMARY KEY (object, id),
    UNIQUE (object, unique_owner, reference)
) STRICT, WITHOUT ROWID;

CREATE INDEX shop_references_reference ON shop_references (object, reference, id);
CREATE INDEX shop_references_owner ON shop_references (object, owner, reference, id);

-- Refused payment reports: their actions and the payments' references.
CREATE TABLE payment_refusals (
    action    TEXT NOT NULL PRIMARY KEY REFERENCES actions (id),
    reference TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX payment_refusals_reference ON payment_refusals (reference, action);

-- Indexes of campaigns by owner and of funding postings by account. Settlement writes them in batches, sorted: an index
-- of the table would cost two pages of the write-ahead log per creation. Rows after `listed` are read from the tables.
CREATE TABLE owned (
    by          TEXT    NOT NULL,
    campaign_id TEXT    NOT NULL,
    campaign    INTEGER NOT NULL REFERENCES campaigns (ref),
    PRIMARY KEY (by, campaign_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE funds (
    account INTEGER NOT NULL REFERENCES accounts (id),
    at      INTEGER NOT NULL,
    seq     INTEGER NOT NULL, -- of the posting, whose source is -1
    PRIMARY KEY (account, at, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE listed (
    campaign INTEGER NOT NULL, -- `ref` of the last campaign in `owned`
    posting  INTEGER NOT NULL  -- `seq` of the last posting in `funds`
) STRICT;

INSERT INTO listed (campaign, posting) VALUES (0, 0);

-- The log: entries are appended in the transaction of the decision and never changed. Their kinds are numbers.
CREATE TABLE event_kinds (
    kind INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

INSERT INTO event_kinds (kind, name) VALUES
    (0, 'opened'), (1, 'granted'), (2, 'paid'), (3, 'cancelled'), (4, 'expired'), (5, 'reinstated'),
    (6, 'refund_due'), (7, 'paused'), (8, 'resumed'), (9, 'ended'), (10, 'closed'), (11, 'stock_changed'),
    (12, 'terms_changed'), (16, 'returned'), (17, 'change_made'), (18, 'part_cancelled'),
    (19, 'hold_extended');

CREATE TABLE events (
    seq      INTEGER PRIMARY KEY,
    at       INTEGER NOT NULL,
    campaign INTEGER NOT NULL,
    kind     INTEGER NOT NULL,
    number   INTEGER,          -- of the grant in its campaign
    user     TEXT,             -- granted
    quantity INTEGER,          -- granted: units; closed: units returned
    amount   INTEGER,          -- granted: minor units; closed: minor units refunded
    note     TEXT              -- granted: idempotency key; paid, reinstated, refund_due: payment; change_made: id
) STRICT;

-- Entries of the log that were moved to a file per month: `first` to `last` are in `file` in `folder`, without gaps.
-- `sha256` is the digest of the whole file.
CREATE TABLE archives (
    first  INTEGER PRIMARY KEY CHECK (first > 0),
    last   INTEGER NOT NULL CHECK (last >= first),
    month  TEXT    NOT NULL,
    file   TEXT    NOT NULL,
    folder TEXT    NOT NULL,
    sha256 TEXT    NOT NULL,
    at     INTEGER NOT NULL
) STRICT;

-- Position of settlement in each partition's log.
CREATE TABLE settled (
    partition INTEGER PRIMARY KEY,
    seq       INTEGER NOT NULL
) STRICT;

-- Quarantine: entries that the ledger refused, and entries that wait for them (`waits_for`). They are kept as text
-- until the cause is repaired and they are settled. The ledger may not have the campaign.
CREATE TABLE set_aside (
    partition INTEGER NOT NULL,
    seq       INTEGER NOT NULL,
    campaign  TEXT    NOT NULL,
    entry     TEXT    NOT NULL,
    reason    TEXT    NOT NULL,
    waits_for INTEGER,
    at        INTEGER NOT NULL,
    discard   INTEGER NOT NULL DEFAULT 0 CHECK (discard BETWEEN 0 AND 3),
    PRIMARY KEY (partition, seq),
    CHECK (waits_for < seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX set_aside_campaigns ON set_aside (campaign, partition);
CREATE INDEX set_aside_discards ON set_aside (partition, seq) WHERE discard BETWEEN 1 AND 2;

-- Repairs of partitions that lost entries. A row is written under the epoch that the repair begins, before it changes
-- anything. `upto` is the log's last position after the repair, null until all that it withholds is recorded.
CREATE TABLE repairs (
    partition INTEGER NOT NULL,
    epoch     TEXT    NOT NULL,
    follows   TEXT    NOT NULL,
    at        INTEGER NOT NULL,
    lost_from INTEGER NOT NULL,
    lost_to   INTEGER NOT NULL,
    unnamed   INTEGER NOT NULL CHECK (unnamed >= 0),
    reason    TEXT    NOT NULL,
    upto      INTEGER,
    PRIMARY KEY (partition, epoch)
) STRICT, WITHOUT ROWID;

-- Units of a campaign, or of a shard, that a repair withholds; for shares also their amount. Released units are for
-- sale again or were refunded.
CREATE TABLE withheld (
    partition   INTEGER NOT NULL,
    epoch       TEXT    NOT NULL,
    campaign    INTEGER NOT NULL REFERENCES campaigns (ref),
    units       INTEGER NOT NULL CHECK (units >= 0),
    amount      INTEGER NOT NULL CHECK (amount >= 0),
    released_at INTEGER,
    PRIMARY KEY (partition, epoch, campaign)
) STRICT, WITHOUT ROWID;

-- Numbers that are never granted, since lost grants may have had them: each `step`-th from the first to the last.
CREATE TABLE withheld_numbers (
    partition    INTEGER NOT NULL,
    epoch        TEXT    NOT NULL,
    campaign     INTEGER NOT NULL REFERENCES campaigns (ref),
    first_number INTEGER NOT NULL CHECK (first_number > 0),
    last_number  INTEGER NOT NULL CHECK (last_number >= first_number),
    step         INTEGER NOT NULL CHECK (step > 0),
    PRIMARY KEY (partition, epoch, campaign, first_number)
) STRICT, WITHOUT ROWID;

CREATE INDEX withheld_numbers_of ON withheld_numbers (campaign);

-- Campaigns with a queue. In an engine's file `last` is the last queue number and `waiting` counts waiting entries. A
-- ledger's file has no queue entries.
CREATE TABLE waiting_rooms (
    campaign TEXT    NOT NULL PRIMARY KEY,
    last     INTEGER NOT NULL DEFAULT 0,
    waiting  INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE INDEX waiting_rooms_in_use ON waiting_rooms (campaign, waiting) WHERE waiting > 0;

-- Queue entries that wait, and recently decided ones.
CREATE TABLE queue_entries (
    campaign  TEXT    NOT NULL,
    number    INTEGER NOT NULL,
    user      TEXT    NOT NULL,
    place     TEXT    NOT NULL,
    decision  TEXT,
    forget_at INTEGER,
    PRIMARY KEY (campaign, number),
    UNIQUE (campaign, user)
) STRICT, WITHOUT ROWID;

CREATE INDEX queue_entries_line ON queue_entries (campaign, number) WHERE decision IS NULL;
CREATE INDEX queue_entries_decided ON queue_entries (forget_at) WHERE decision IS NOT NULL;

-- Webhook endpoints. `place` is the last event that was sent; `holder` delivers until `held_until`.
CREATE TABLE webhooks (
    id              TEXT    PRIMARY KEY,
    url             TEXT    NOT NULL,
    secret          TEXT    NOT NULL,
    previous_secret TEXT,
    previous_until  INTEGER,
    types           TEXT    NOT NULL,
    campaigns       TEXT    NOT NULL,
    owner           TEXT,
    managed_by      TEXT,
    created_at      INTEGER NOT NULL,
    place           INTEGER NOT NULL,
    failing_since   INTEGER,
    attempts        INTEGER NOT NULL DEFAULT 0,
    retry_at        INTEGER,
    last_error      TEXT,
    disabled_at     INTEGER,
    holder          TEXT,
    held_until      INTEGER
) STRICT, WITHOUT ROWID;

-- Events for webhooks, written with the settlement of their entries, and the last number given.
CREATE TABLE webhook_events (
    place     INTEGER PRIMARY KEY,
    partition INTEGER NOT NULL,
    seq       INTEGER NOT NULL,
    kind      TEXT    NOT NULL,
    at        INTEGER NOT NULL,
    campaign  INTEGER NOT NULL REFERENCES campaigns (ref),
    number    INTEGER,
    user      TEXT,
    quantity  INTEGER NOT NULL,
    amount    INTEGER NOT NULL,
    payment   TEXT,
    currency  TEXT
) STRICT;

CREATE INDEX webhook_events_at ON webhook_events (at);

-- Events up to an endpoint's place that wait for a retry, or for an earlier event of the same order.
CREATE TABLE webhook_retries (
    webhook       TEXT    NOT NULL,
    place         INTEGER NOT NULL,
    attempts      INTEGER NOT NULL,
    failing_since INTEGER,
    retry_at      INTEGER,
    PRIMARY KEY (webhook, place)
) STRICT, WITHOUT ROWID;

-- Log of attempts to deliver events. Ids sort by time.
CREATE TABLE webhook_attempts (
    id          TEXT    PRIMARY KEY,
    webhook     TEXT    NOT NULL,
    place       INTEGER NOT NULL,
    event       TEXT    NOT NULL,
    kind        TEXT    NOT NULL,
    campaign    TEXT    NOT NULL,
    number      INTEGER,
    at          INTEGER NOT NULL,
    duration_ms INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    status      INTEGER,
    body        TEXT,
    error       TEXT,
    state       TEXT    NOT NULL,
    next_at     INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX webhook_attempts_webhook ON webhook_attempts (webhook, id);
CREATE INDEX webhook_attempts_state ON webhook_attempts (webhook, state, id);
CREATE INDEX webhook_attempts_event ON webhook_attempts (event, webhook, id);
CREATE INDEX webhook_attempts_order ON webhook_attempts (campaign, number, webhook, id);

CREATE TABLE webhook_places (last_place INTEGER NOT NULL) STRICT;
INSERT INTO webhook_places (last_place) VALUES (0);

-- The engine whose entries the ledger takes: one row, written at the first start with an engine.
CREATE TABLE engine (
    id           INTEGER PRIMARY KEY CHECK (id = 1),
    installation TEXT    NOT NULL,
    engine       TEXT    NOT NULL,
    location     TEXT    NOT NULL,
    beats        INTEGER NOT NULL
) STRICT;

-- The file's kind. `open_as` names the writer, null after a clean close. It is in the file itself and not only in the
-- write-ahead log, so a copy that lacks that log is noticed. Each start of a writer raises `generation`, and each of
-- its transactions compares it: an earlier writer no longer commits. Each transaction changes `flips`, so that each
-- write-ahead log has the row.
CREATE TABLE file_kind (
    kind       TEXT PRIMARY KEY CHECK (kind IN ('engine', 'ledger')),
    open_as    TEXT,
    generation INTEGER NOT NULL DEFAULT 0,
    flips      INTEGER NOT NULL DEFAULT 0 CHECK (flips IN (0, 1))
) STRICT, WITHOUT ROWID;

-- Times without service: holds are extended by them.
CREATE TABLE downtimes (
    ended INTEGER PRIMARY KEY,
    began INTEGER NOT NULL
) STRICT;

-- Written by the readiness probe, on the path of a grant.
CREATE TABLE probe (
    id INTEGER PRIMARY KEY CHECK (id = 0),
    at INTEGER NOT NULL
) STRICT;

-- Attempts at repairs: of each partition the last one. The ledger accepts the writes of no other.
CREATE TABLE repair_attempts (
    partition INTEGER PRIMARY KEY,
    number    INTEGER NOT NULL CHECK (number > 0),
    repairer  TEXT    NOT NULL
) STRICT;
