-- Who was ever owed a refund: what is owed is found without going through all accounts. What a broken migration left is
-- gone over again.
SET @add_key = (
    SELECT IF(count(*) = 0, 'CREATE INDEX accounts_owed ON accounts (purpose)', 'DO 0')
    FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'accounts' AND index_name = 'accounts_owed'
);
PREPARE add_key FROM @add_key;
EXECUTE add_key;
DEALLOCATE PREPARE add_key;
