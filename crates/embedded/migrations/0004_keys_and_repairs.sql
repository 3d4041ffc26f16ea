-- The key of the claim that an order was granted for. Orders that were settled before have none.
ALTER TABLE orders ADD COLUMN key TEXT;

-- Repairs of partitions that had lost entries, each under the epoch that it begins, written down before it changes
-- anything. `upto` is the last entry of the log after it; null until all that it withholds is written down.
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

-- What a repair withholds of a campaign, or of a part of one: units, what they are worth where they are shares, and
-- since when they can be had again or are returned.
CREATE TABLE withheld (
    partition   INTEGER NOT NULL,
    epoch       TEXT    NOT NULL,
    campaign    INTEGER NOT NULL REFERENCES campaigns (ref),
    units       INTEGER NOT NULL CHECK (units >= 0),
    amount      INTEGER NOT NULL CHECK (amount >= 0),
    released_at INTEGER,
    PRIMARY KEY (partition, epoch, campaign)
) STRICT, WITHOUT ROWID;

-- Numbers of grants that nobody can name: each `step`-th from the first to the last.
CREATE TABLE withheld_numbers (
    partition    INTEGER NOT NULL,
    epoch        TEXT    NOT NULL,
    campaign     INTEGER NOT NULL REFERENCES campaigns (ref),
    first_number INTEGER NOT NULL CHECK (first_number > 0),
    last_number  INTEGER NOT NULL CHECK (last_number >= first_number),
    step         INTEGER NOT NULL CHECK (step > 0),
    PRIMARY KEY (partition, epoch, campaign, first_number)
) STRICT, WITHOUT ROWID;
