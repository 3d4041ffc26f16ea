-- The currency of a payment that was not the order's price, with the amount that arrived; null where the price arrived.
ALTER TABLE payments ADD COLUMN currency TEXT COLLATE "C";

-- The currency of an event's amount; null where it is the campaign's.
ALTER TABLE webhook_events ADD COLUMN currency TEXT COLLATE "C";
