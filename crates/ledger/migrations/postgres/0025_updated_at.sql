-- When phase, stock, terms or details of a campaign last changed, as settled, in milliseconds. It is null in rows that
-- an earlier version enters, and then `created_at` counts. Campaigns that were created before get the newest time that
-- the ledger has: of terms, archive, start or end.
ALTER TABLE campaigns ADD COLUMN updated_at BIGINT CHECK (updated_at >= 0);

UPDATE campaigns SET updated_at = greatest(
    created_at,
    coalesce((SELECT max(at) FROM sale_terms t WHERE t.campaign = campaigns.ref), 0),
    coalesce((SELECT archived_at FROM details d WHERE d.campaign = campaigns.ref), 0),
    CASE WHEN phase <> 'draft' AND starts_at <= 1000 * CAST(extract(epoch FROM now()) AS BIGINT)
         THEN starts_at ELSE 0 END,
    CASE WHEN phase IN ('ended', 'closed') AND ends_at <= 1000 * CAST(extract(epoch FROM now()) AS BIGINT)
         THEN ends_at ELSE 0 END
)
WHERE updated_at IS NULL;
