-- A packet's escrow holds the settled remainder, and nothing once the packet is closed. Only packets have an escrow.
SELECT packets FROM temp.totals;

SELECT format('campaign #%d: its escrow holds %s, and it should hold %d', ref, coalesce(balance, 'nothing'), expected)
FROM (
    SELECT c.ref, a.balance, CASE WHEN t.settled_closes > 0 THEN 0 ELSE c.total - t.settled_claimed END AS expected
    FROM campaigns c
    JOIN temp.tallies t ON t.campaign = c.ref
    LEFT JOIN accounts a ON a.owner = c.id AND a.purpose = 'escrow' AND a.currency = c.currency
    WHERE c.kind = 'red_packet'
)
WHERE balance IS NOT expected
UNION ALL
SELECT format('account %d is the escrow of no packet', a.id)
FROM accounts a
LEFT JOIN campaigns c ON c.id = a.owner AND c.kind = 'red_packet' AND c.currency = a.currency
WHERE a.purpose = 'escrow' AND c.ref IS NULL;
