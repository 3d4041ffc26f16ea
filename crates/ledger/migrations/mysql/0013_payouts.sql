-- Money that leaves Qiang: refunds that were made, withdrawals, deposits that were reversed. A payout is known by its
-- reference, so that one repeated is one: the payment service's, or the deposit's id. What a broken migration left is
-- gone over again.
CREATE TABLE IF NOT EXISTS payouts (
    kind      VARCHAR(16)  NOT NULL CHECK (kind IN ('refund_paid', 'withdrawal', 'reversal')),
    reference VARCHAR(128) NOT NULL,
    posting   BIGINT       NOT NULL,
    campaign  BIGINT,
    number    BIGINT,
    amount    BIGINT       NOT NULL CHECK (amount > 0),
    PRIMARY KEY (kind, reference),
    UNIQUE KEY payouts_posting (posting),
    KEY payouts_of (campaign, number),
    CHECK ((kind = 'refund_paid') = (campaign IS NOT NULL)),
    CHECK ((kind = 'refund_paid') = (number IS NOT NULL))
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

SET @change = (
    SELECT CASE
        WHEN coalesce(max(constraint_name = 'postings_payouts'), 0) THEN 'DO 0'
        ELSE concat('ALTER TABLE postings DROP ', IF(VERSION() LIKE '%MariaDB%', 'CONSTRAINT', 'CHECK'), ' `',
            max(constraint_name), '`, ADD CONSTRAINT postings_payouts ',
            'CHECK (kind IN (''deposit'', ''fund'', ''grant'', ''refund'', ''residue'', ''payment'', ''refund_due'', ',
            '''return'', ''refund_paid'', ''withdrawal'', ''reversal''))')
    END
    FROM information_schema.check_constraints
    WHERE constraint_schema = DATABASE() AND check_clause LIKE '%residue%' AND check_clause LIKE '%deposit%'
);
PREPARE change_checks FROM @change;
EXECUTE change_checks;
DEALLOCATE PREPARE change_checks;
