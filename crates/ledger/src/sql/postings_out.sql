WHERE p.kind IN ('fund', 'return', 'refund_paid', 'withdrawal', 'reversal') AND p.debit = $1
