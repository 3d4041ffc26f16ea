-- The admission ratio is one of a sale's terms, in percent, 0 for none. Terms that were changed before have no value:
-- such a change kept the ratio.
ALTER TABLE sale_terms ADD COLUMN admission INTEGER CHECK (admission >= 0);
