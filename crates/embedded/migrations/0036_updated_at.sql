-- When phase, stock, terms or details of a campaign last changed, as settled, in milliseconds. Campaigns that were
-- created before get the newest time that the file has: of log, terms, archive, start or end.
ALTER TABLE campaigns ADD COLUMN updated_at INTEGER CHECK (updated_at >= 0);

UPDATE campaigns SET updated_at = max(
    created_at,
    coalesce((SELECT max(at) FROM sale_terms t WHERE t.campaign = campaigns.ref), 0),
    coalesce((SELECT archived_at FROM details d WHERE d.campaign = campaigns.ref), 0),
    CASE WHEN phase <> 'draft' AND starts_at <= 1000 * CAST(strftime('%s', 'now') AS INTEGER) THEN starts_at ELSE 0 END,
    CASE WHEN phase IN ('ended', 'closed') AND ends_at <= 1000 * CAST(strftime('%s', 'now') AS INTEGER)
         THEN ends_at ELSE 0 END
);

UPDATE campaigns SET updated_at = max(campaigns.updated_at, e.at)
FROM (SELECT campaign, max(at) AS at FROM events WHERE kind BETWEEN 7 AND 12 GROUP BY campaign) e
WHERE e.campaign = campaigns.ref;
