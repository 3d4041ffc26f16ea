-- The admission ratio of a sale in percent, 0 for none. Sales that were created before have the default.
ALTER TABLE campaigns ADD COLUMN admission BIGINT CHECK (admission >= 0);
