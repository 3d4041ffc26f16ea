SELECT outcome, amount FROM payments WHERE campaign = $1 AND number = $2 AND outcome = 'refund_due'
UNION ALL
SELECT kind, amount FROM payouts WHERE campaign = $3 AND number = $4
