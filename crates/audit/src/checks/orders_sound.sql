-- An order belongs to a sale, costs its units at the sale's price, is held as long as the sale says, and is not over
-- before that unless it was paid or given back.
SELECT orders FROM temp.totals;

SELECT format('campaign #%d: order %d (%s) is not sound', o.campaign, o.number, o.state)
FROM orders o
LEFT JOIN campaigns c ON c.ref = o.campaign
WHERE c.kind IS NOT 'sale'
   OR (o.amount, o.hold_until, o.one_per_user)
      IS NOT (o.quantity * c.unit_price, o.granted_at + c.hold_ms, c.per_user_limit = 1)
   OR o.state = 'held' AND o.updated_at <> o.granted_at
   OR o.state = 'expired' AND o.updated_at < o.hold_until;
