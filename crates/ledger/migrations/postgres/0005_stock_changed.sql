-- The stock of a sale may be changed, which the log says by an entry. Programs that do not know it refuse the database.
COMMENT ON COLUMN campaigns.supply IS 'shares, or units for sale: of a sale as the settled entries have changed it';
