-- Every settled grant of a packet moves its amount from the packet's escrow to the user.
SELECT count(*) FROM temp.grants WHERE settled AND campaign IN (SELECT ref FROM campaigns WHERE kind = 'red_packet');

SELECT format('campaign #%d: the posting of grant %d (entry %d) is missing or wrong', g.campaign, g.number, g.seq)
FROM campaigns c
CROSS JOIN temp.grants g ON g.campaign = c.ref
LEFT JOIN postings p ON p.source = 0 AND p.seq = g.seq
LEFT JOIN accounts d ON d.id = p.debit
LEFT JOIN accounts k ON k.id = p.credit
WHERE c.kind = 'red_packet' AND g.settled
  AND ((p.kind, p.amount, p.campaign, p.number, p.at) IS NOT ('grant', g.amount, g.campaign, g.number, g.at)
       OR (d.owner, d.purpose, d.currency) IS NOT (c.id, 'escrow', c.currency)
       OR (k.owner, k.purpose, k.currency) IS NOT (g.user, 'user', c.currency));
