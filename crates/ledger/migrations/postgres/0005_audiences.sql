-- Who may take part in a campaign, and who may see its draws, as a JSON text: written before the campaign, once.
-- Campaigns that are for everybody have none.
CREATE TABLE audiences (
    campaign TEXT COLLATE "C" PRIMARY KEY,
    rules    TEXT NOT NULL
);
