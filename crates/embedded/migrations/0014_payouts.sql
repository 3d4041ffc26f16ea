-- Money that leaves Qiang: refunds that were made, withdrawals, deposits that were reversed. A payout is known by its
-- reference, so that one repeated is one: the payment service's, or the deposit's id. A CHECK is no part of what is
-- stored, so its text is changed where it stands: see 0005_returns.sql.
PRAGMA writable_schema = ON;

UPDATE sqlite_schema SET sql = replace(sql, '''return'')', '''return'', ''refund_paid'', ''withdrawal'', ''reversal'')')
WHERE type = 'table' AND name = 'postings';

PRAGMA writable_schema = RESET;

CREATE TABLE payouts (
    kind      TEXT    NOT NULL CHECK (kind IN ('refund_paid', 'withdrawal', 'reversal')),
    reference TEXT    NOT NULL,
    posting   INTEGER NOT NULL UNIQUE,
    campaign  INTEGER REFERENCES campaigns (ref),
    number    INTEGER,
    amount    INTEGER NOT NULL CHECK (amount > 0),
    PRIMARY KEY (kind, reference),
    CHECK ((kind = 'refund_paid') = (campaign IS NOT NULL)),
    CHECK ((kind = 'refund_paid') = (number IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX payouts_of ON payouts (campaign, number) WHERE campaign IS NOT NULL;
