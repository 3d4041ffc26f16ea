-- The key of the claim that an order was granted for. Orders that were settled before have none. A column that is there
-- cannot be added again, and what a broken migration left is gone over again.
SET @add_key = (
    SELECT IF(count(*) = 0, 'ALTER TABLE orders ADD COLUMN `key` VARCHAR(128)', 'DO 0')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'orders' AND column_name = 'key'
);
PREPARE add_key FROM @add_key;
EXECUTE add_key;
DEALLOCATE PREPARE add_key;

-- Repairs of partitions that had lost entries, each under the epoch that it begins, written down before it changes
-- anything. `upto` is the last entry of the log after it; null until all that it withholds is written down.
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

-- What a repair withholds of a campaign, or of a part of one: units, what they are worth where they are shares, and
-- since when they can be had again or are returned.
CREATE TABLE IF NOT EXISTS withheld (
    `partition` BIGINT      NOT NULL,
    epoch       VARCHAR(64) NOT NULL,
    campaign    BIGINT      NOT NULL,
    units       BIGINT      NOT NULL CHECK (units >= 0),
    amount      BIGINT      NOT NULL CHECK (amount >= 0),
    released_at BIGINT,
    PRIMARY KEY (`partition`, epoch, campaign)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Numbers of grants that nobody can name: each `step`-th from the first to the last.
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
