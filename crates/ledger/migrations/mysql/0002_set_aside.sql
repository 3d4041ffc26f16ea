-- Entries that the books refuse, and those that have to wait for them: kept as text until somebody has mended what was
-- wrong and they are settled after all. The campaign may be one that the ledger does not have.
CREATE TABLE IF NOT EXISTS set_aside (
    `partition` BIGINT   NOT NULL,
    seq         BIGINT   NOT NULL,
    campaign    CHAR(36) NOT NULL,
    entry       TEXT     NOT NULL,
    reason      TEXT     NOT NULL,
    waits_for   BIGINT,
    at          BIGINT   NOT NULL,
    PRIMARY KEY (`partition`, seq),
    KEY set_aside_campaigns (`partition`, campaign, seq),
    CHECK (waits_for < seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
