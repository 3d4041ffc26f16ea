-- supply = granted + remaining + returned: the close gives back exactly what no user has, of the supply as the log has
-- changed it.
SELECT campaigns FROM temp.totals;

SELECT format('campaign #%d: of %d units users had %d at the close, and %d were given back',
              c.ref, t.first_supply + t.added, t.units_at_close, t.closed_units)
FROM campaigns c
JOIN temp.tallies t ON t.campaign = c.ref
WHERE t.closes > 0 AND t.units_at_close + t.closed_units <> t.first_supply + t.added;
