-- Archive: a stretch of a log as it was in the ledger's file, with the ids of its campaigns.
CREATE TABLE archive (
    month TEXT    NOT NULL,
    first INTEGER NOT NULL,
    last  INTEGER NOT NULL
) STRICT;

CREATE TABLE campaigns (
    ref INTEGER PRIMARY KEY,
    id  TEXT    NOT NULL
) STRICT;

CREATE TABLE event_kinds (
    kind INTEGER PRIMARY KEY,
    name TEXT    NOT NULL
) STRICT;

CREATE TABLE events (
    seq      INTEGER PRIMARY KEY,
    at       INTEGER NOT NULL,
    campaign INTEGER NOT NULL,
    kind     INTEGER NOT NULL,
    number   INTEGER,
    user     TEXT,
    quantity INTEGER,
    amount   INTEGER,
    note     TEXT
) STRICT;

-- For manual queries.
CREATE VIEW log AS
SELECT e.seq, e.at, c.id AS campaign, k.name AS kind, e.number, e.user, e.quantity, e.amount, e.note
FROM events e
LEFT JOIN campaigns c ON c.ref = e.campaign
LEFT JOIN event_kinds k ON k.kind = e.kind;

INSERT INTO event_kinds SELECT kind, name FROM ledger.event_kinds;
