-- The payment service's name for a deposit, kept for good. Deposits that were made before have none.
ALTER TABLE deposits ADD COLUMN reference TEXT COLLATE "C";

CREATE UNIQUE INDEX deposits_reference ON deposits (reference);
