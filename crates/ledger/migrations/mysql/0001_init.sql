-- The ledger on MySQL and MariaDB: the tables of the embedded file, without its log, which lives in the engine.
-- Times are milliseconds since the Unix epoch; money is minor units of the row's currency. Texts compare byte by byte.
-- No foreign keys: each would cost a lookup and a lock of a busy row for every row that settlement writes.
-- The server commits each of these statements by itself, so each of them can be repeated.

-- A campaign as created, and where it stands as far as it is settled. `parts` is over how many partitions it is
-- spread. Units that one part of a spread sale took back may be sold again by another, and each part is settled for
-- itself: for a while the ledger may know of the second sale alone. So more units than there are is an error there
-- once all parts are closed, and at any time everywhere else.
CREATE TABLE IF NOT EXISTS campaigns (
    ref            BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    id             CHAR(36)     NOT NULL,
    kind           VARCHAR(16)  NOT NULL CHECK (kind IN ('red_packet', 'sale')),
    owner          VARCHAR(128) NOT NULL,
    title          VARCHAR(200) NOT NULL,
    currency       CHAR(3)      NOT NULL,
    ack            VARCHAR(16)  NOT NULL CHECK (ack IN ('memory', 'replica', 'fsync', 'ledger')),
    starts_at      BIGINT       NOT NULL,
    ends_at        BIGINT       NOT NULL,
    created_at     BIGINT       NOT NULL,
    supply         BIGINT       NOT NULL CHECK (supply > 0),
    per_user_limit BIGINT       NOT NULL,
    -- red packets
    total          BIGINT       CHECK (total > 0),
    split_rule     VARCHAR(16),
    split_min      BIGINT,
    split_max      BIGINT,
    split_version  BIGINT,
    seed           BINARY(32),
    commitment     BINARY(32),
    -- sales
    unit_price     BIGINT       CHECK (unit_price >= 0),
    hold_ms        BIGINT       CHECK (hold_ms > 0),
    -- as settled
    phase          VARCHAR(16)  NOT NULL CHECK (phase IN ('draft', 'scheduled', 'paused', 'ended', 'closed')),
    parts          BIGINT       NOT NULL DEFAULT 1 CHECK (parts BETWEEN 1 AND 65535),
    granted        BIGINT       NOT NULL DEFAULT 0 CHECK (granted >= 0),
    returned       BIGINT       NOT NULL DEFAULT 0 CHECK (returned >= 0),
    refunded       BIGINT       NOT NULL DEFAULT 0 CHECK (refunded >= 0),
    UNIQUE KEY campaigns_id (id),
    KEY campaigns_phase (phase, ref),
    CHECK (ends_at > starts_at),
    CHECK (per_user_limit BETWEEN 1 AND supply),
    CHECK (granted + returned <= supply OR kind = 'sale' AND parts > 1 AND phase <> 'closed'),
    CHECK (kind <> 'red_packet' OR (total IS NOT NULL AND split_rule IS NOT NULL AND seed IS NOT NULL)),
    CHECK (kind <> 'sale' OR (unit_price IS NOT NULL AND hold_ms IS NOT NULL))
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- The parts of campaigns that are spread, as settled, each under the partition that has it. A part has no row before
-- it has opened; a campaign that is not spread has none.
CREATE TABLE IF NOT EXISTS parts (
    campaign    BIGINT      NOT NULL,
    `partition` BIGINT      NOT NULL,
    phase       VARCHAR(16) NOT NULL CHECK (phase IN ('scheduled', 'paused', 'ended', 'closed')),
    granted     BIGINT      NOT NULL DEFAULT 0 CHECK (granted >= 0),
    returned    BIGINT      NOT NULL DEFAULT 0 CHECK (returned >= 0),
    refunded    BIGINT      NOT NULL DEFAULT 0 CHECK (refunded >= 0),
    PRIMARY KEY (campaign, `partition`)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- A red packet's shares: made with the packet, without a user, and assigned when they are claimed. A lazy packet's
-- amounts are not known before the claim. A user has one share of a packet, whatever happens in memory.
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

-- A sale's grants. Where a user may have one unit, one order has it: `once_user` is the user of such an order, and
-- null for all others, which no unique key compares.
CREATE TABLE IF NOT EXISTS orders (
    campaign     BIGINT       NOT NULL,
    number       BIGINT       NOT NULL CHECK (number > 0),
    user         VARCHAR(128) NOT NULL,
    quantity     BIGINT       NOT NULL CHECK (quantity > 0),
    amount       BIGINT       NOT NULL CHECK (amount >= 0),
    state        VARCHAR(16)  NOT NULL CHECK (state IN ('held', 'paid', 'cancelled', 'expired')),
    one_per_user TINYINT      NOT NULL CHECK (one_per_user IN (0, 1)),
    granted_at   BIGINT       NOT NULL,
    hold_until   BIGINT       NOT NULL,
    updated_at   BIGINT       NOT NULL,
    once_user    VARCHAR(128)
        GENERATED ALWAYS AS (CASE WHEN one_per_user = 1 AND state IN ('held', 'paid') THEN user END) STORED,
    PRIMARY KEY (campaign, number),
    UNIQUE KEY orders_once_per_user (campaign, once_user)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Payments that arrived for orders, and what became of them. An order is paid by one payment: `pays` is 1 for that
-- one, and null for all others.
CREATE TABLE IF NOT EXISTS payments (
    campaign BIGINT       NOT NULL,
    number   BIGINT       NOT NULL,
    payment  VARCHAR(128) NOT NULL,
    outcome  VARCHAR(16)  NOT NULL CHECK (outcome IN ('paid', 'reinstated', 'refund_due')),
    amount   BIGINT       NOT NULL CHECK (amount >= 0),
    at       BIGINT       NOT NULL,
    pays     TINYINT      GENERATED ALWAYS AS (CASE WHEN outcome <> 'refund_due' THEN 1 END) STORED,
    PRIMARY KEY (campaign, number, payment),
    UNIQUE KEY payments_pay_once (campaign, number, pays)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Accounts. Only the outside may be overdrawn: it is where deposits and payments come from.
CREATE TABLE IF NOT EXISTS accounts (
    id       BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    owner    VARCHAR(128) NOT NULL,
    purpose  VARCHAR(16)  NOT NULL CHECK (purpose IN ('user', 'escrow', 'refunds_due', 'outside')),
    currency CHAR(3)      NOT NULL,
    balance  BIGINT       NOT NULL,
    UNIQUE KEY accounts_of_owner (owner, purpose, currency),
    CHECK (purpose = 'outside' OR balance >= 0)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Double entry: each row takes an amount from one account and gives it to another. Rows of source 0 and above carry
-- the place of the log entry they follow from in that partition; rows of source -1 are numbered one by one.
CREATE TABLE IF NOT EXISTS postings (
    source   BIGINT      NOT NULL,
    seq      BIGINT      NOT NULL,
    kind     VARCHAR(16) NOT NULL
        CHECK (kind IN ('deposit', 'fund', 'grant', 'refund', 'residue', 'payment', 'refund_due')),
    debit    BIGINT      NOT NULL,
    credit   BIGINT      NOT NULL,
    amount   BIGINT      NOT NULL CHECK (amount > 0),
    campaign BIGINT,
    number   BIGINT,
    at       BIGINT      NOT NULL,
    PRIMARY KEY (source, seq),
    CHECK (debit <> credit)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- The last number that was given to a posting of source -1.
CREATE TABLE IF NOT EXISTS direct_postings (
    source BIGINT NOT NULL PRIMARY KEY CHECK (source = -1),
    seq    BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

INSERT INTO direct_postings (source, seq) VALUES (-1, 0) ON DUPLICATE KEY UPDATE seq = seq;

-- What deposits were made, by their id, so that one repeated is one made.
CREATE TABLE IF NOT EXISTS deposits (
    id      CHAR(36) NOT NULL PRIMARY KEY,
    posting BIGINT   NOT NULL,
    UNIQUE KEY deposits_posting (posting)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- What an idempotency key stands for, durably.
CREATE TABLE IF NOT EXISTS idempotency_keys (
    scope       VARCHAR(512) NOT NULL,
    `key`       VARCHAR(128) NOT NULL,
    fingerprint BINARY(32)   NOT NULL,
    id          CHAR(36)     NOT NULL,
    at          BIGINT       NOT NULL,
    PRIMARY KEY (scope, `key`)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- How far each partition's log is carried into the tables above.
CREATE TABLE IF NOT EXISTS settled (
    `partition` BIGINT NOT NULL PRIMARY KEY,
    seq         BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
