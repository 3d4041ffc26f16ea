-- The key of the claim that an order was granted for. Orders that were settled before have none.
ALTER TABLE orders ADD COLUMN key TEXT COLLATE "C";

-- Repairs of partitions that had lost entries, each under the epoch that it begins, written down before it changes
-- anything. `upto` is the last entry of the log after it; null until all that it withholds is written down.
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

-- What a repair withholds of a campaign, or of a part of one: units, what they are worth where they are shares, and
-- since when they can be had again or are returned.
CREATE TABLE withheld (
    partition   BIGINT NOT NULL,
    epoch       TEXT   COLLATE "C" NOT NULL,
    campaign    BIGINT NOT NULL,
    units       BIGINT NOT NULL CHECK (units >= 0),
    amount      BIGINT NOT NULL CHECK (amount >= 0),
    released_at BIGINT,
    PRIMARY KEY (partition, epoch, campaign)
);

-- Numbers of grants that nobody can name: each `step`-th from the first to the last.
CREATE TABLE withheld_numbers (
    partition    BIGINT NOT NULL,
    epoch        TEXT   COLLATE "C" NOT NULL,
    campaign     BIGINT NOT NULL,
    first_number BIGINT NOT NULL CHECK (first_number > 0),
    last_number  BIGINT NOT NULL CHECK (last_number >= first_number),
    step         BIGINT NOT NULL CHECK (step > 0),
    PRIMARY KEY (partition, epoch, campaign, first_number)
);
