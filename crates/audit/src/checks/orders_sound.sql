-- An order belongs to a sale, its price follows from a price of the sale, and its hold is that of the sale, extended by
-- at most as much. It does not expire before the end of its hold.
SELECT orders FROM temp.totals;

SELECT format('campaign #%d: order %d (%s) is not sound', o.campaign, o.number, o.state)
FROM orders o
LEFT JOIN campaigns c ON c.ref = o.campaign
WHERE c.kind IS NOT 'sale'
   OR o.hold_until IS NOT o.granted_at + c.hold_ms + o.extension_ms
   OR o.extension_ms NOT BETWEEN 0 AND c.hold_ms
   OR o.amount IS NOT o.quantity * c.unit_price
      AND NOT EXISTS (SELECT 1 FROM sale_terms t
                      WHERE t.campaign = o.campaign AND o.amount = o.quantity * t.unit_price)
   OR c.terms_revision = 0 AND o.one_per_user IS NOT (c.per_user_limit = 1)
   OR c.terms_revision > 0 AND o.one_per_user IS NOT 0
      AND NOT EXISTS (SELECT 1 FROM sale_terms t WHERE t.campaign = o.campaign AND t.per_user_limit = 1)
   OR o.state = 'held' AND o.updated_at <> o.granted_at
   OR o.state = 'expired' AND o.updated_at < o.hold_until;
