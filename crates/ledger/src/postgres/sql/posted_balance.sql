-- The balance of an account, and what its postings make: owner, purpose, currency. Postings that leave an account of a
-- user are of few kinds, and have an index. Those of the account outside are most of all postings.
SELECT a.balance,
       CAST(coalesce((SELECT sum(amount) FROM postings WHERE credit = a.id), 0)
            - coalesce(CASE WHEN a.purpose IN ('user', 'refunds_due')
                            THEN (SELECT sum(amount) FROM postings
                                  WHERE debit = a.id
                                    AND kind IN ('fund', 'return', 'refund_paid', 'withdrawal', 'reversal',
                                                 'transfer'))
                            ELSE (SELECT sum(amount) FROM postings WHERE debit = a.id)
                       END, 0) AS BIGINT)
FROM accounts a
WHERE a.owner = $1 AND a.purpose = $2 AND a.currency = $3
