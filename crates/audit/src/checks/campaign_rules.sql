-- A campaign's row has the values that its kind needs, and no impossible ones.
SELECT campaigns FROM temp.totals;

SELECT format('campaign #%d is not sound', ref)
FROM campaigns
WHERE NOT CASE kind
    WHEN 'red_packet' THEN
        per_user_limit = 1 AND coalesce(total, 0) >= supply AND split_rule IS NOT NULL AND length(seed) IS 32
        AND length(commitment) IS 32 AND unit_price IS NULL AND hold_ms IS NULL
        AND payment_policy IS NULL AND payment_tolerance IS NULL
    WHEN 'sale' THEN
        per_user_limit >= 1 AND (per_user_limit <= supply OR terms_revision > 0 AND parts > 1 AND phase <> 'closed')
        AND coalesce(unit_price, -1) >= 0 AND coalesce(hold_ms, 0) > 0 AND admission IS NOT NULL
        AND total IS NULL AND split_rule IS NULL AND seed IS NULL
        AND (payment_policy IS NULL OR payment_policy IN ('owed', 'accept_over', 'accept_with_tolerance'))
        AND (payment_policy IS 'accept_with_tolerance') = (payment_tolerance IS NOT NULL)
        AND coalesce(payment_tolerance, 0) >= 0
        -- The tolerance may have been checked with a price of another part that is not settled yet.
        AND (coalesce(payment_policy, 'owed') = 'owed'
             OR coalesce((SELECT t.unit_price FROM sale_terms t WHERE t.campaign = campaigns.ref AND t.revision = 0),
                         unit_price) > coalesce(payment_tolerance, 0))
    ELSE 0
END
   OR supply < 1
   OR starts_at >= ends_at;
