-- Packets whose shares are all claimed and that are not closed yet: looked for twice a second, and few. Before, all
-- packets that go on were gone through. And closed sales by the end of their last hold. Both are columns of their own:
-- an index that named `granted` itself would have every settlement of a campaign write to all its indexes (no
-- heap-only updates), and these change once in a campaign's life.
ALTER TABLE campaigns
    ADD COLUMN claimed SMALLINT GENERATED ALWAYS AS
        (CASE WHEN kind = 'red_packet' AND phase <> 'closed' AND granted = supply THEN 1 END) STORED,
    ADD COLUMN holds_end BIGINT GENERATED ALWAYS AS
        (CASE WHEN kind = 'sale' AND phase = 'closed' THEN ends_at + hold_ms END) STORED;

DROP INDEX campaigns_packets;
CREATE INDEX campaigns_claimed ON campaigns (ref) WHERE claimed = 1;
CREATE INDEX campaigns_holds_end ON campaigns (holds_end) WHERE holds_end IS NOT NULL;

-- What a repair looks at is found without going through all that ever was: campaigns that are not closed, and whether
-- one has orders that are held.
CREATE INDEX campaigns_not_closed ON campaigns (id) WHERE phase <> 'closed';
CREATE INDEX orders_held ON orders (campaign) WHERE state = 'held';
