-- Indexes of lists match the rows: completely up to their recorded end, and possibly in part after it.
SELECT campaigns + direct FROM temp.totals;

SELECT format('%d rows say up to where lists are written', count(*)) FROM listed HAVING count(*) <> 1
UNION ALL
SELECT format('lists are written up to campaign #%d and posting -1/%d, which are not there', l.campaign, l.posting)
FROM listed l
WHERE l.campaign > (SELECT coalesce(max(ref), 0) FROM campaigns)
   OR l.posting > (SELECT coalesce(max(seq), 0) FROM postings WHERE source = -1)
UNION ALL
SELECT format('campaign #%d is listed %d times', campaign, count(*)) FROM owned GROUP BY campaign HAVING count(*) > 1
UNION ALL
SELECT format('posting -1/%d is listed %d times', seq, count(*)) FROM funds GROUP BY seq HAVING count(*) > 1
UNION ALL
SELECT format('campaign #%d is not among those of %s', c.ref, c.owner)
FROM campaigns c
LEFT JOIN owned o ON o.by = c.owner AND o.campaign_id = c.id AND o.campaign = c.ref
WHERE c.ref <= (SELECT campaign FROM listed) AND o.campaign IS NULL
UNION ALL
SELECT format('campaign #%d is listed as %s of %s', o.campaign, o.campaign_id, o.by)
FROM owned o
LEFT JOIN campaigns c ON c.ref = o.campaign
WHERE (c.owner, c.id) IS NOT (o.by, o.campaign_id)
UNION ALL
SELECT format('posting -1/%d is not among the funds of account %d', p.seq, p.debit)
FROM postings p
LEFT JOIN funds f ON f.account = p.debit AND f.at = p.at AND f.seq = p.seq
WHERE p.source = -1 AND p.kind = 'fund' AND p.seq <= (SELECT posting FROM listed) AND f.seq IS NULL
UNION ALL
SELECT format('posting -1/%d is listed among the funds of account %d', f.seq, f.account)
FROM funds f
LEFT JOIN postings p ON p.source = -1 AND p.seq = f.seq
WHERE (p.kind, p.debit, p.at) IS NOT ('fund', f.account, f.at);
