-- Every granted share has one posting of its amount from the packet's escrow to the user. No other posting is a grant.
SELECT count(user) FROM shares;

SELECT format('campaign #%d: the posting of share %d is missing or wrong', s.campaign, s.number)
FROM shares s
JOIN campaigns c ON c.ref = s.campaign
LEFT JOIN temp.posted p ON p.campaign = s.campaign AND p.number = s.number AND p.kind = 'grant'
WHERE s.user IS NOT NULL
  AND (p.amount, p.currency, p.at, p.debtor, p.debited, p.creditor, p.credited)
      IS NOT (s.amount, c.currency, s.granted_at, c.id, 'escrow', s.user, 'user')
UNION ALL
SELECT format('campaign #%d: share %d has %d postings', p.campaign, p.number, count(*))
FROM temp.posted p
LEFT JOIN shares s ON s.campaign = p.campaign AND s.number = p.number AND s.user IS NOT NULL
WHERE p.kind = 'grant'
GROUP BY p.campaign, p.number
HAVING count(*) <> count(s.number) OR count(*) > 1;
