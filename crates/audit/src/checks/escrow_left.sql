-- A packet's escrow holds the money that is neither claimed nor refunded, and nothing once all parts are closed. Only
-- packets have an escrow.
SELECT packets FROM temp.totals;

SELECT format('campaign #%d (%s): its escrow holds %s, and it should hold %d', ref, phase,
              coalesce(balance, 'nothing'), expected)
FROM (
    SELECT c.ref, c.phase, a.balance, CASE c.phase WHEN 'closed' THEN 0 ELSE
        c.total - c.refunded - (SELECT coalesce(sum(amount), 0) FROM shares WHERE campaign = c.ref AND user IS NOT NULL)
    END AS expected
    FROM campaigns c
    LEFT JOIN accounts a ON a.owner = c.id AND a.purpose = 'escrow' AND a.currency = c.currency
    WHERE c.kind = 'red_packet'
)
WHERE balance IS NOT expected
UNION ALL
SELECT format('account %d is the escrow of no packet', a.id)
FROM accounts a
LEFT JOIN campaigns c ON c.id = a.owner AND c.kind = 'red_packet' AND c.currency = a.currency
WHERE a.purpose = 'escrow' AND c.ref IS NULL;
