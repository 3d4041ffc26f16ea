-- Returns: paid orders that were taken back, and postings of what is owed for them. A seller's account may be overdrawn
-- by them.
ALTER TABLE orders
    DROP CONSTRAINT orders_state_check,
    ADD CONSTRAINT orders_state_check CHECK (state IN ('held', 'paid', 'cancelled', 'expired', 'returned')) NOT VALID;

ALTER TABLE postings
    DROP CONSTRAINT postings_kind_check,
    ADD CONSTRAINT postings_kind_check CHECK
        (kind IN ('deposit', 'fund', 'grant', 'refund', 'residue', 'payment', 'refund_due', 'return')) NOT VALID;

ALTER TABLE accounts
    DROP CONSTRAINT accounts_check,
    ADD CONSTRAINT accounts_check CHECK (purpose IN ('outside', 'user') OR balance >= 0) NOT VALID;
