-- Entries that the books refuse, and those that have to wait for them: kept as text until somebody has mended what was
-- wrong and they are settled after all. The campaign may be one that the ledger does not have.
CREATE TABLE set_aside (
    partition BIGINT NOT NULL,
    seq       BIGINT NOT NULL,
    campaign  TEXT   COLLATE "C" NOT NULL,
    entry     TEXT   COLLATE "C" NOT NULL,
    reason    TEXT   NOT NULL,
    waits_for BIGINT CHECK (waits_for < seq),
    at        BIGINT NOT NULL,
    PRIMARY KEY (partition, seq)
);

CREATE INDEX set_aside_campaigns ON set_aside (partition, campaign, seq);
