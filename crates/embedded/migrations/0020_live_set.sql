-- What a start needs of the ledger is found without going through all that ever was: campaigns that time changes, and
-- orders that are held.
CREATE INDEX campaigns_live ON campaigns (ends_at, id) WHERE phase NOT IN ('draft', 'closed');
CREATE INDEX orders_held ON orders (campaign, number) WHERE state = 'held';

-- A campaign is read back from its rows. Orders of versions that did not keep the claim's key have it in the log.
UPDATE orders SET key = (SELECT e.note FROM events e
                         WHERE e.kind = 1 AND e.campaign = orders.campaign AND e.number = orders.number)
WHERE key IS NULL AND EXISTS (SELECT 1 FROM events WHERE kind = 1 AND note IS NOT NULL);
