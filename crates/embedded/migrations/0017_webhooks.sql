-- Endpoints of webhooks: what they are told, what that is signed with, and how far they have been told.
CREATE TABLE webhooks (
    id              TEXT    PRIMARY KEY,
    url             TEXT    NOT NULL,
    secret          TEXT    NOT NULL,
    previous_secret TEXT,
    previous_until  INTEGER,
    types           TEXT    NOT NULL,
    campaigns       TEXT    NOT NULL,
    owner           TEXT,
    created_at      INTEGER NOT NULL,
    place           INTEGER NOT NULL,
    failing_since   INTEGER,
    attempts        INTEGER NOT NULL DEFAULT 0,
    retry_at        INTEGER,
    last_error      TEXT,
    disabled_at     INTEGER,
    holder          TEXT,
    held_until      INTEGER
) STRICT, WITHOUT ROWID;

-- What they are told: written by settlement, in its own transaction, of campaigns whose events an endpoint may want.
CREATE TABLE webhook_events (
    place     INTEGER PRIMARY KEY,
    partition INTEGER NOT NULL,
    seq       INTEGER NOT NULL,
    kind      TEXT    NOT NULL,
    at        INTEGER NOT NULL,
    campaign  INTEGER NOT NULL REFERENCES campaigns (ref),
    number    INTEGER,
    user      TEXT,
    quantity  INTEGER NOT NULL,
    amount    INTEGER NOT NULL,
    payment   TEXT
) STRICT;

CREATE INDEX webhook_events_at ON webhook_events (at);

-- One row: the last place that was given to an event.
CREATE TABLE webhook_places (last_place INTEGER NOT NULL) STRICT;

INSERT INTO webhook_places VALUES (0);
