-- The ledger on MySQL and MariaDB: the tables of the data file without the log, which the engine has.
-- Times are milliseconds since the Unix epoch. Money is minor units of the row's currency. Texts compare byte by byte.
-- There are no foreign keys: each would cost a lookup and a lock of a busy row for every row that settlement writes.
-- The server commits after each statement, so each statement can be repeated.
-- A generated column that is null for all other rows stands in for a partial index.

-- Campaigns as created, and their settled state.
CREATE TABLE IF NOT EXISTS campaigns (
    ref                BIGINT        NOT NULL AUTO_INCREMENT PRIMARY KEY,
    id                 CHAR(36)      NOT NULL,
    kind               VARCHAR(16)   NOT NULL CHECK (kind IN ('red_packet', 'sale')),
    owner              VARCHAR(128)  NOT NULL,
    title              VARCHAR(1024) NOT NULL,
    currency           CHAR(3)       NOT NULL,
    ack                VARCHAR(16)   NOT NULL CHECK (ack IN ('memory', 'replica', 'fsync', 'ledger')),
    starts_at          BIGINT        NOT NULL,
    ends_at            BIGINT        NOT NULL,
    created_at         BIGINT        NOT NULL,
    updated_at         BIGINT        NOT NULL CHECK (updated_at >= 0),
    supply             BIGINT        NOT NULL CHECK (supply > 0), -- shares, or units after settled changes of stock
    per_user_limit     BIGINT        NOT NULL,
    requirements       VARCHAR(255)  NOT NULL DEFAULT '',
    admission          BIGINT        CHECK (admission >= 0),
    -- red packets
    total              BIGINT        CHECK (total > 0),
    split_rule         VARCHAR(16),
    split_min          BIGINT,
    split_max          BIGINT,
    split_version      BIGINT,
    seed               BINARY(32),
    commitment         BINARY(32),
    server_seed        BINARY(32),
    client_seed        BINARY(32),
    -- sales
    unit_price         BIGINT        CHECK (unit_price >= 0),
    hold_ms            BIGINT        CHECK (hold_ms > 0),
    payment_policy     VARCHAR(32),
    payment_tolerance  BIGINT,
    terms_revision     BIGINT        NOT NULL DEFAULT 0,
    -- as settled
    parts              BIGINT        NOT NULL DEFAULT 1 CHECK (parts BETWEEN 1 AND 65535),
    phase              VARCHAR(16)   NOT NULL CHECK (phase IN ('draft', 'scheduled', 'paused', 'ended', 'closed')),
    granted            BIGINT        NOT NULL DEFAULT 0 CHECK (granted >= 0),
    returned           BIGINT        NOT NULL DEFAULT 0 CHECK (returned >= 0),
    refunded           BIGINT        NOT NULL DEFAULT 0 CHECK (refunded >= 0),
    claimed            TINYINT GENERATED ALWAYS AS
        (CASE WHEN kind = 'red_packet' AND phase <> 'closed' AND granted = supply THEN 1 END) STORED,
    live               TINYINT GENERATED ALWAYS AS (CASE WHEN phase <> 'closed' THEN 1 END) STORED,
    holds_end          BIGINT GENERATED ALWAYS AS
        (CASE WHEN kind = 'sale' AND phase = 'closed' THEN ends_at + 2 * hold_ms END) STORED,
    UNIQUE KEY campaigns_id (id),
    KEY campaigns_phase (phase, ref),
    KEY campaigns_owner (owner, id),
    KEY campaigns_claimed (claimed, ref),
    KEY campaigns_not_closed (live, id),
    KEY campaigns_holds_end (holds_end),
    CHECK (ends_at > starts_at),
    CHECK (per_user_limit >= 1),
    -- Each shard of a spread sale settles for itself. A unit that one shard returned may be sold by another before the
    -- return is settled: the bound holds there once all shards are closed.
    CHECK (granted + returned <= supply OR kind = 'sale' AND parts > 1 AND phase <> 'closed'),
    CHECK (kind <> 'red_packet' OR (total IS NOT NULL AND split_rule IS NOT NULL AND seed IS NOT NULL)),
    CHECK (kind <> 'sale' OR (unit_price IS NOT NULL AND hold_ms IS NOT NULL))
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Shards of spread campaigns, as settled. A shard that has not opened has no row.
CREATE TABLE IF NOT EXISTS parts (
    campaign    BIGINT      NOT NULL,
    `partition` BIGINT      NOT NULL,
    phase       VARCHAR(16) NOT NULL CHECK (phase IN ('scheduled', 'paused', 'ended', 'closed')),
    granted     BIGINT      NOT NULL DEFAULT 0 CHECK (granted >= 0),
    returned    BIGINT      NOT NULL DEFAULT 0 CHECK (returned >= 0),
    refunded    BIGINT      NOT NULL DEFAULT 0 CHECK (refunded >= 0),
    PRIMARY KEY (campaign, `partition`)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Texts that users see beside a campaign's title, and when it was archived: one row per campaign. Nothing is decided
-- by them. A table of their own keeps them out of the rows that settlement writes.
CREATE TABLE IF NOT EXISTS details (
    campaign    BIGINT        NOT NULL PRIMARY KEY,
    product_id  VARCHAR(128)  CHECK (product_id <> ''),
    description VARCHAR(4096) CHECK (description <> ''),
    image_url   VARCHAR(2048) CHECK (image_url <> ''),
    gallery     TEXT          CHECK (gallery <> ''),
    list_price  BIGINT        CHECK (list_price > 0),
    cover       VARCHAR(32)   CHECK (cover <> ''),
    archived_at BIGINT,
    KEY details_product (product_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Users that may claim from a campaign. A campaign without a row is open to all users.
CREATE TABLE IF NOT EXISTS audiences (
    campaign BIGINT     NOT NULL PRIMARY KEY,
    rules    MEDIUMTEXT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Settings of a sale by revision: the first row and each change.
CREATE TABLE IF NOT EXISTS sale_terms (
    campaign       BIGINT NOT NULL,
    revision       BIGINT NOT NULL,
    at             BIGINT NOT NULL,
    starts_at      BIGINT NOT NULL,
    ends_at        BIGINT NOT NULL,
    per_user_limit BIGINT NOT NULL,
    unit_price     BIGINT NOT NULL,
    admission      BIGINT NOT NULL CHECK (admission >= 0),
    PRIMARY KEY (campaign, revision)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Shares of a red packet: created with the packet, assigned at the claim. A lazy packet's amounts are null before. The
-- unique key is a second check after the engine's: a user has one share of a packet.
CREATE TABLE IF NOT EXISTS shares (
    campaign   BIGINT NOT NULL,
    number     BIGINT NOT NULL CHECK (number > 0),
    amount     BIGINT CHECK (amount > 0),
    user       VARCHAR(128),
    granted_at BIGINT,
    PRIMARY KEY (campaign, number),
    UNIQUE KEY shares_once_per_user (campaign, user),
    CHECK ((user IS NULL) = (granted_at IS NULL)),
    CHECK (user IS NULL OR amount IS NOT NULL)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Orders: the grants of sales. `key` is the idempotency key of the claim. `once_user` is a second check after the
-- engine's: a user with a limit of one unit has one order.
CREATE TABLE IF NOT EXISTS orders (
    campaign     BIGINT       NOT NULL,
    number       BIGINT       NOT NULL CHECK (number > 0),
    user         VARCHAR(128) NOT NULL,
    quantity     BIGINT       NOT NULL CHECK (quantity > 0),
    amount       BIGINT       NOT NULL CHECK (amount >= 0),
    state        VARCHAR(16)  NOT NULL,
    one_per_user TINYINT      NOT NULL CHECK (one_per_user IN (0, 1)),
    granted_at   BIGINT       NOT NULL,
    hold_until   BIGINT       NOT NULL,
    updated_at   BIGINT       NOT NULL,
    `key`        VARCHAR(255),
    -- The sum of its returns in order_returns.
    returned_in_parts BIGINT NOT NULL DEFAULT 0,
    -- The sum of its cancellations in order_returns. `quantity` and `amount` are without these units.
    cancelled_in_parts BIGINT NOT NULL DEFAULT 0,
    -- Milliseconds by which the seller extended the hold, within `hold_until`.
    extension_ms BIGINT NOT NULL DEFAULT 0 CHECK (extension_ms >= 0),
    once_user    VARCHAR(128) GENERATED ALWAYS AS
        (CASE WHEN one_per_user = 1 AND state IN ('held', 'paid') THEN user END) STORED,
    PRIMARY KEY (campaign, number),
    UNIQUE KEY orders_once_per_user (campaign, once_user),
    KEY orders_of_user (user, granted_at),
    KEY orders_of_sale (campaign, granted_at),
    KEY orders_by_time (granted_at),
    KEY orders_held (campaign, state),
    CHECK (state IN ('held', 'paid', 'cancelled', 'expired', 'returned'))
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Parts of orders that were restocked, once by key: cancelled while the order was held, or returned after it was paid.
-- The one that takes all that is left without a part has no row: the order is cancelled, or returned.
CREATE TABLE IF NOT EXISTS order_returns (
    campaign BIGINT       NOT NULL,
    number   BIGINT       NOT NULL,
    `key`    VARCHAR(255) NOT NULL,
    quantity BIGINT       NOT NULL CHECK (quantity > 0),
    amount   BIGINT       NOT NULL CHECK (amount >= 0),
    at       BIGINT       NOT NULL,
    kind     VARCHAR(16)  NOT NULL CHECK (kind IN ('cancellation', 'return')),
    PRIMARY KEY (campaign, number, `key`)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Payments reported for orders, each with its outcome. `currency` is null if it is the sale's. One payment pays an
-- order: `pays` is 1 for that one.
CREATE TABLE IF NOT EXISTS payments (
    campaign BIGINT       NOT NULL,
    number   BIGINT       NOT NULL,
    payment  VARCHAR(128) NOT NULL,
    outcome  VARCHAR(16)  NOT NULL CHECK (outcome IN ('paid', 'reinstated', 'refund_due')),
    amount   BIGINT       NOT NULL CHECK (amount >= 0),
    at       BIGINT       NOT NULL,
    currency CHAR(3),
    pays     TINYINT GENERATED ALWAYS AS (CASE WHEN outcome <> 'refund_due' THEN 1 END) STORED,
    PRIMARY KEY (campaign, number, payment),
    UNIQUE KEY payments_pay_once (campaign, number, pays),
    KEY payments_reference (payment),
    KEY payments_by_time (at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Accounts. Only `outside`, the source of deposits and payments, and users' accounts may be overdrawn.
CREATE TABLE IF NOT EXISTS accounts (
    id       BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    owner    VARCHAR(128) NOT NULL,
    purpose  VARCHAR(16)  NOT NULL CHECK (purpose IN ('user', 'escrow', 'refunds_due', 'outside')),
    currency CHAR(3)      NOT NULL,
    balance  BIGINT       NOT NULL,
    UNIQUE KEY accounts_of_owner (owner, purpose, currency),
    KEY accounts_owed (purpose),
    CHECK (purpose IN ('outside', 'user') OR balance >= 0)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Double-entry postings: each moves an amount from `debit` to `credit`. A posting that follows from a log entry has the
-- entry's partition as `source` and its position as `seq`. Others have source -1 and are numbered.
CREATE TABLE IF NOT EXISTS postings (
    source   BIGINT      NOT NULL,
    seq      BIGINT      NOT NULL,
    kind     VARCHAR(16) NOT NULL,
    debit    BIGINT      NOT NULL,
    credit   BIGINT      NOT NULL,
    amount   BIGINT      NOT NULL CHECK (amount > 0),
    campaign BIGINT,
    number   BIGINT,
    at       BIGINT      NOT NULL,
    -- The kind of deposits, withdrawals and refunds paid, which have lists.
    listed   VARCHAR(16) GENERATED ALWAYS AS
        (CASE WHEN kind IN ('deposit', 'refund_paid', 'withdrawal') THEN kind END) STORED,
    PRIMARY KEY (source, seq),
    KEY postings_in (credit, at),
    KEY postings_out (debit, at),
    KEY postings_listed (listed, at),
    CHECK (kind IN ('deposit', 'fund', 'grant', 'refund', 'residue', 'payment', 'refund_due', 'return',
                    'refund_paid', 'withdrawal', 'reversal', 'refund_reversal', 'transfer')),
    CHECK (debit <> credit)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- The last number of a posting with source -1.
CREATE TABLE IF NOT EXISTS direct_postings (
    source BIGINT NOT NULL PRIMARY KEY CHECK (source = -1),
    seq    BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

INSERT INTO direct_postings (source, seq) VALUES (-1, 0) ON DUPLICATE KEY UPDATE seq = seq;

-- Deposits by id, and by the payment service's reference: a repeated one changes nothing.
CREATE TABLE IF NOT EXISTS deposits (
    id        CHAR(36)     NOT NULL PRIMARY KEY,
    posting   BIGINT       NOT NULL,
    reference VARCHAR(128),
    UNIQUE KEY deposits_posting (posting),
    UNIQUE KEY deposits_reference (reference)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Money that left: refunds made, withdrawals, reversed deposits. Transfers stay, and move between users. A reversed
-- refund has its refund's reference and is due again. The reference is the payment service's, or the deposit's id: a
-- repeated one changes nothing.
CREATE TABLE IF NOT EXISTS payouts (
    kind      VARCHAR(16)  NOT NULL
        CHECK (kind IN ('refund_paid', 'withdrawal', 'reversal', 'refund_reversal', 'transfer')),
    reference VARCHAR(128) NOT NULL,
    posting   BIGINT       NOT NULL,
    campaign  BIGINT,
    number    BIGINT,
    amount    BIGINT       NOT NULL CHECK (amount > 0),
    PRIMARY KEY (kind, reference),
    UNIQUE KEY payouts_posting (posting),
    KEY payouts_of (campaign, number),
    CHECK ((kind IN ('refund_paid', 'refund_reversal')) = (campaign IS NOT NULL)),
    CHECK ((kind IN ('refund_paid', 'refund_reversal')) = (number IS NOT NULL))
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Idempotency keys, each with its first request's fingerprint, the id it made, and the answer it got. Keys are deleted
-- after a while, the oldest first, but references of payments are kept: their `purged_by` is null.
CREATE TABLE IF NOT EXISTS idempotency_keys (
    scope       VARCHAR(512) NOT NULL,
    `key`       VARCHAR(255) NOT NULL,
    fingerprint BINARY(32)   NOT NULL,
    id          CHAR(36)     NOT NULL,
    at          BIGINT       NOT NULL,
    answer      MEDIUMTEXT,
    purged_by   BIGINT GENERATED ALWAYS AS (CASE WHEN scope <> 'payment' THEN at END) STORED,
    PRIMARY KEY (scope, `key`),
    KEY idempotency_keys_purge (purged_by)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Changes of campaigns under idempotency keys that were carried out: the ids to which the keys were bound. Settling
-- enters them with the change's entries. They are deleted after their keys.
CREATE TABLE IF NOT EXISTS made_changes (
    id CHAR(36) NOT NULL PRIMARY KEY
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- The operation log: actions of operators and of owners, as far as they took effect.
CREATE TABLE IF NOT EXISTS actions (
    id         CHAR(36)     NOT NULL PRIMARY KEY,
    at         BIGINT       NOT NULL,
    actor      VARCHAR(128) NOT NULL,
    kind       VARCHAR(16)  NOT NULL,
    subject    VARCHAR(128) NOT NULL,
    request_id VARCHAR(128) NOT NULL,
    detail     TEXT         NOT NULL,
    KEY actions_subject (subject, id),
    KEY actions_kind (kind, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Metadata of campaigns, orders and deposits: texts of the shop by name, and the shop's own number. Nothing is decided
-- by them. The object may not be settled yet. A row of metadata without a name says that some was stored.
CREATE TABLE IF NOT EXISTS metadata (
    object VARCHAR(16)  NOT NULL,
    id     VARCHAR(64)  NOT NULL,
    name   VARCHAR(40)  NOT NULL,
    value  VARCHAR(500) NOT NULL,
    PRIMARY KEY (object, id, name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS shop_references (
    object    VARCHAR(16)  NOT NULL,
    id        VARCHAR(64)  NOT NULL,
    reference VARCHAR(128) NOT NULL,
    owner     VARCHAR(128) NOT NULL,
    -- The owner, if the reference is unique for it.
    unique_owner VARCHAR(128),
    PRIMARY KEY (object, id),
    UNIQUE KEY shop_references_unique (object, unique_owner, reference),
    KEY shop_references_reference (object, reference, id),
    KEY shop_references_owner (object, owner, reference, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Refused payment reports: their actions and the payments' references.
CREATE TABLE IF NOT EXISTS payment_refusals (
    action    CHAR(36)     NOT NULL PRIMARY KEY,
    reference VARCHAR(128) NOT NULL,
    KEY payment_refusals_reference (reference, action)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Position of settlement in each partition's log.
CREATE TABLE IF NOT EXISTS settled (
    `partition` BIGINT NOT NULL PRIMARY KEY,
    seq         BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Quarantine: entries that the ledger refused, and entries that wait for them (`waits_for`). They are kept as text
-- until the cause is repaired and they are settled. The ledger may not have the campaign.
CREATE TABLE IF NOT EXISTS set_aside (
    `partition` BIGINT   NOT NULL,
    seq         BIGINT   NOT NULL,
    campaign    CHAR(36) NOT NULL,
    entry       TEXT     NOT NULL,
    reason      TEXT     NOT NULL,
    waits_for   BIGINT,
    at          BIGINT   NOT NULL,
    discard     BIGINT   NOT NULL DEFAULT 0 CHECK (discard BETWEEN 0 AND 3),
    PRIMARY KEY (`partition`, seq),
    KEY set_aside_campaigns (`partition`, campaign, seq),
    KEY set_aside_discards (discard),
    CHECK (waits_for < seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Repairs of partitions that lost entries. A row is written under the epoch that the repair begins, before it changes
-- anything. `upto` is the log's last position after the repair, null until all that it withholds is recorded.
CREATE TABLE IF NOT EXISTS repairs (
    `partition` BIGINT      NOT NULL,
    epoch       VARCHAR(64) NOT NULL,
    follows     VARCHAR(64) NOT NULL,
    at          BIGINT      NOT NULL,
    lost_from   BIGINT      NOT NULL,
    lost_to     BIGINT      NOT NULL,
    unnamed     BIGINT      NOT NULL CHECK (unnamed >= 0),
    reason      TEXT        NOT NULL,
    upto        BIGINT,
    PRIMARY KEY (`partition`, epoch)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Units of a campaign, or of a shard, that a repair withholds; for shares also their amount. Released units are for
-- sale again or were refunded.
CREATE TABLE IF NOT EXISTS withheld (
    `partition` BIGINT      NOT NULL,
    epoch       VARCHAR(64) NOT NULL,
    campaign    BIGINT      NOT NULL,
    units       BIGINT      NOT NULL CHECK (units >= 0),
    amount      BIGINT      NOT NULL CHECK (amount >= 0),
    released_at BIGINT,
    PRIMARY KEY (`partition`, epoch, campaign)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Numbers that are never granted, since lost grants may have had them: each `step`-th from the first to the last.
CREATE TABLE IF NOT EXISTS withheld_numbers (
    `partition`  BIGINT      NOT NULL,
    epoch        VARCHAR(64) NOT NULL,
    campaign     BIGINT      NOT NULL,
    first_number BIGINT      NOT NULL CHECK (first_number > 0),
    last_number  BIGINT      NOT NULL,
    step         BIGINT      NOT NULL CHECK (step > 0),
    PRIMARY KEY (`partition`, epoch, campaign, first_number),
    CHECK (last_number >= first_number)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Campaigns with a queue. The engine has the queue's entries.
CREATE TABLE IF NOT EXISTS waiting_rooms (
    campaign CHAR(36) NOT NULL PRIMARY KEY
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Webhook endpoints. `place` is the last event that was sent; `holder` delivers until `held_until`.
CREATE TABLE IF NOT EXISTS webhooks (
    id              CHAR(36)      NOT NULL PRIMARY KEY,
    url             VARCHAR(2048) NOT NULL,
    secret          VARCHAR(128)  NOT NULL,
    previous_secret VARCHAR(128),
    previous_until  BIGINT,
    types           VARCHAR(512)  NOT NULL,
    campaigns       VARCHAR(4096) NOT NULL,
    owner           VARCHAR(128),
    managed_by      VARCHAR(128),
    created_at      BIGINT        NOT NULL,
    place           BIGINT        NOT NULL,
    failing_since   BIGINT,
    attempts        BIGINT        NOT NULL DEFAULT 0,
    retry_at        BIGINT,
    last_error      VARCHAR(512),
    disabled_at     BIGINT,
    holder          CHAR(36),
    held_until      BIGINT
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Events for webhooks, written with the settlement of their entries, and the last number given.
CREATE TABLE IF NOT EXISTS webhook_events (
    place       BIGINT      NOT NULL PRIMARY KEY,
    `partition` BIGINT      NOT NULL,
    seq         BIGINT      NOT NULL,
    kind        VARCHAR(32) NOT NULL,
    at          BIGINT      NOT NULL,
    campaign    BIGINT      NOT NULL,
    number      BIGINT,
    user        VARCHAR(128),
    quantity    BIGINT      NOT NULL,
    amount      BIGINT      NOT NULL,
    payment     VARCHAR(128),
    currency    CHAR(3),
    KEY webhook_events_at (at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Events up to an endpoint's place that wait for a retry, or for an earlier event of the same order.
CREATE TABLE IF NOT EXISTS webhook_retries (
    webhook       CHAR(36) NOT NULL,
    place         BIGINT   NOT NULL,
    attempts      BIGINT   NOT NULL,
    failing_since BIGINT,
    retry_at      BIGINT,
    PRIMARY KEY (webhook, place)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Log of attempts to deliver events. Ids sort by time.
CREATE TABLE IF NOT EXISTS webhook_attempts (
    id          CHAR(36)    NOT NULL PRIMARY KEY,
    webhook     CHAR(36)    NOT NULL,
    place       BIGINT      NOT NULL,
    event       VARCHAR(96) NOT NULL,
    kind        VARCHAR(32) NOT NULL,
    campaign    CHAR(36)    NOT NULL,
    number      BIGINT,
    at          BIGINT      NOT NULL,
    duration_ms BIGINT      NOT NULL,
    attempt     BIGINT      NOT NULL,
    status      BIGINT,
    body        VARCHAR(512),
    error       VARCHAR(512),
    state       VARCHAR(16) NOT NULL,
    next_at     BIGINT,
    KEY webhook_attempts_webhook (webhook, id),
    KEY webhook_attempts_state (webhook, state, id),
    KEY webhook_attempts_event (event, webhook, id),
    KEY webhook_attempts_order (campaign, number, webhook, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS webhook_places (
    only_one   BIGINT NOT NULL DEFAULT 1 PRIMARY KEY CHECK (only_one = 1),
    last_place BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

INSERT INTO webhook_places (last_place) VALUES (0) ON DUPLICATE KEY UPDATE last_place = last_place;

-- The engine whose entries the ledger takes: one row, written at the first start with an engine.
CREATE TABLE IF NOT EXISTS engine (
    id           BIGINT        NOT NULL PRIMARY KEY CHECK (id = 1),
    installation VARCHAR(64)   NOT NULL,
    engine       VARCHAR(64)   NOT NULL,
    location     VARCHAR(1024) NOT NULL,
    beats        BIGINT        NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Attempts at repairs: of each partition the last one. The ledger accepts the writes of no other.
CREATE TABLE IF NOT EXISTS repair_attempts (
    `partition` BIGINT      NOT NULL PRIMARY KEY,
    number      BIGINT      NOT NULL CHECK (number > 0),
    repairer    VARCHAR(64) NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
