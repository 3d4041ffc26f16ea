-- Entries that the books refuse, and those that have to wait for them: kept as text until somebody has mended what was
-- wrong and they are settled after all. The campaign may be one that the ledger does not have.
CREATE TABLE set_aside (
    partition INTEGER NOT NULL,
    seq       INTEGER NOT NULL,
    campaign  TEXT    NOT NULL,
    entry     TEXT    NOT NULL,
    reason    TEXT    NOT NULL,
    waits_for INTEGER,
    at        INTEGER NOT NULL,
    PRIMARY KEY (partition, seq),
    CHECK (waits_for < seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX set_aside_campaigns ON set_aside (campaign, partition);
