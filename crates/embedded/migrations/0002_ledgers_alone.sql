-- A file is an engine's, with its log, or a ledger alone, whose log is elsewhere. A ledger alone takes the logs of
-- several partitions, and campaigns that are spread over them.

-- One row, written when the file is made.
CREATE TABLE file_kind (
    kind TEXT PRIMARY KEY CHECK (kind IN ('engine', 'ledger'))
) STRICT, WITHOUT ROWID;

-- Over how many partitions a campaign is spread. Units that one part of a spread sale took back may be sold again by
-- another, and each part is settled for itself: for a while the ledger may know of the second sale alone. So more
-- units than there are is an error there once all parts are closed, and at any time everywhere else.
CREATE TABLE campaigns_2 (
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
    parts          INTEGER NOT NULL DEFAULT 1 CHECK (parts BETWEEN 1 AND 65535),
    phase          TEXT    NOT NULL CHECK (phase IN ('draft', 'scheduled', 'paused', 'ended', 'closed')),
    granted        INTEGER NOT NULL DEFAULT 0 CHECK (granted >= 0),
    returned       INTEGER NOT NULL DEFAULT 0 CHECK (returned >= 0),
    refunded       INTEGER NOT NULL DEFAULT 0 CHECK (refunded >= 0),
    CHECK (granted + returned <= supply OR kind = 'sale' AND parts > 1 AND phase <> 'closed'),
    CHECK (kind <> 'red_packet' OR (total IS NOT NULL AND split_rule IS NOT NULL AND seed IS NOT NULL)),
    CHECK (kind <> 'sale' OR (unit_price IS NOT NULL AND hold_ms IS NOT NULL))
) STRICT;

INSERT INTO campaigns_2
SELECT ref, id, kind, owner, title, currency, ack, starts_at, ends_at, created_at, supply, per_user_limit, total,
       split_rule, split_min, split_max, split_version, seed, commitment, unit_price, hold_ms, 1, phase, granted,
       returned, refunded
FROM campaigns;

DROP TABLE campaigns;
ALTER TABLE campaigns_2 RENAME TO campaigns;

CREATE INDEX campaigns_unopened ON campaigns (ref) WHERE phase = 'draft';

-- The parts of campaigns that are spread, as settled, each under the partition that has it. A part has no row before
-- it has opened; a campaign that is not spread has none.
CREATE TABLE parts (
    campaign  INTEGER NOT NULL REFERENCES campaigns (ref),
    partition INTEGER NOT NULL,
    phase     TEXT    NOT NULL CHECK (phase IN ('scheduled', 'paused', 'ended', 'closed')),
    granted   INTEGER NOT NULL DEFAULT 0 CHECK (granted >= 0),
    returned  INTEGER NOT NULL DEFAULT 0 CHECK (returned >= 0),
    refunded  INTEGER NOT NULL DEFAULT 0 CHECK (refunded >= 0),
    PRIMARY KEY (campaign, partition)
) STRICT, WITHOUT ROWID;

-- From here on a partition of which nothing is settled has no row.
DELETE FROM settled WHERE seq = 0;
