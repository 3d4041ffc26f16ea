WHERE p.kind IN ('fund', 'return', 'refund_paid', 'withdrawal', 'reversal', 'transfer') AND p.debit = $1
