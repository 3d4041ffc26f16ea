-- Packets whose shares are all claimed and that are not closed yet: looked for twice a second, and few. Before, all
-- packets that go on were gone through.
DROP INDEX campaigns_packets;
CREATE INDEX campaigns_claimed ON campaigns (ref)
    WHERE kind = 'red_packet' AND phase <> 'closed' AND granted = supply;

-- What a repair looks at is found without going through all that ever was: campaigns that are not closed by their ids,
-- closed sales by the end of their last hold.
CREATE INDEX campaigns_not_closed ON campaigns (id) WHERE phase <> 'closed';
CREATE INDEX campaigns_holds_end ON campaigns (ends_at + hold_ms) WHERE kind = 'sale' AND phase = 'closed';
