-- supply = granted + remaining + returned: the close returns exactly the units that no user has. The supply includes
-- all its changes in the log.
SELECT campaigns FROM temp.totals;

SELECT format('campaign #%d: of %d units users had %d at the close, and %d were returned',
              c.ref, t.first_supply + t.added, t.units_at_close, t.closed_units)
FROM campaigns c
JOIN temp.tallies t ON t.campaign = c.ref
WHERE t.closes > 0 AND t.units_at_close + t.closed_units <> t.first_supply + t.added;
