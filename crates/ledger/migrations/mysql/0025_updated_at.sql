-- When phase, stock, terms or details of a campaign last changed, as settled, in milliseconds. It is null in rows that
-- an earlier version enters, and then `created_at` counts. Campaigns that were created before get the newest time that
-- the ledger has: of terms, archive, start or end.
SET @change = (
    SELECT IF(count(*) > 0, 'DO 0', 'ALTER TABLE campaigns ADD COLUMN updated_at BIGINT CHECK (updated_at >= 0)')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'campaigns' AND column_name = 'updated_at'
);
PREPARE add_column FROM @change;
EXECUTE add_column;
DEALLOCATE PREPARE add_column;

UPDATE campaigns SET updated_at = greatest(
    created_at,
    coalesce((SELECT max(at) FROM sale_terms t WHERE t.campaign = campaigns.ref), 0),
    coalesce((SELECT archived_at FROM details d WHERE d.campaign = campaigns.ref), 0),
    CASE WHEN phase <> 'draft' AND starts_at <= 1000 * unix_timestamp()
         THEN starts_at ELSE 0 END,
    CASE WHEN phase IN ('ended', 'closed') AND ends_at <= 1000 * unix_timestamp()
         THEN ends_at ELSE 0 END
)
WHERE updated_at IS NULL;
