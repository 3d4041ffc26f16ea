-- Money that leaves Qiang: refunds that were made, withdrawals, deposits that were reversed. A payout is known by its
-- reference, so that one repeated is one: the payment service's, or the deposit's id.
CREATE TABLE payouts (
    kind      TEXT   COLLATE "C" NOT NULL CHECK (kind IN ('refund_paid', 'withdrawal', 'reversal')),
    reference TEXT   COLLATE "C" NOT NULL,
    posting   BIGINT NOT NULL UNIQUE,
    campaign  BIGINT,
    number    BIGINT,
    amount    BIGINT NOT NULL CHECK (amount > 0),
    PRIMARY KEY (kind, reference),
    CHECK ((kind = 'refund_paid') = (campaign IS NOT NULL)),
    CHECK ((kind = 'refund_paid') = (number IS NOT NULL))
);

CREATE INDEX payouts_of ON payouts (campaign, number) WHERE campaign IS NOT NULL;

ALTER TABLE postings
    DROP CONSTRAINT postings_kind_check,
    ADD CONSTRAINT postings_kind_check CHECK
        (kind IN ('deposit', 'fund', 'grant', 'refund', 'residue', 'payment', 'refund_due', 'return', 'refund_paid',
            'withdrawal', 'reversal')) NOT VALID;
