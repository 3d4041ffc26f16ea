-- Who may take part in a campaign, and who may see its draws, as a JSON text: written with the campaign, and never
-- changed. Campaigns that are for everybody have none. Programs that do not know it would let everybody in.
CREATE TABLE audiences (
    campaign INTEGER PRIMARY KEY REFERENCES campaigns (ref),
    rules    TEXT NOT NULL
) STRICT;

-- Packets that go on: those whose shares are all claimed end at once.
CREATE INDEX campaigns_packets ON campaigns (ref) WHERE kind = 'red_packet' AND phase <> 'closed';
