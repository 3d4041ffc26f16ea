-- Campaigns with a waiting room, and its places. Programs that do not know it would let everybody pass the line.
-- In an engine's file `last` is the number of the last place of a campaign and `waiting` how many wait; a ledger alone
-- has no lines.
CREATE TABLE waiting_rooms (
    campaign TEXT    NOT NULL PRIMARY KEY,
    last     INTEGER NOT NULL DEFAULT 0,
    waiting  INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE INDEX waiting_rooms_in_use ON waiting_rooms (campaign, waiting) WHERE waiting > 0;

-- The places of those who wait, and for a while of those who were decided.
CREATE TABLE waiting_places (
    campaign   TEXT    NOT NULL,
    number     INTEGER NOT NULL,
    user       TEXT    NOT NULL,
    place      TEXT    NOT NULL,
    decision   TEXT,
    forget_at  INTEGER,
    PRIMARY KEY (campaign, number),
    UNIQUE (campaign, user)
) STRICT, WITHOUT ROWID;

CREATE INDEX waiting_places_line ON waiting_places (campaign, number) WHERE decision IS NULL;
CREATE INDEX waiting_places_decided ON waiting_places (forget_at) WHERE decision IS NOT NULL;
