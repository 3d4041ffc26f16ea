-- Endpoints of webhooks: what they are told, what that is signed with, and how far they have been told.
CREATE TABLE webhooks (
    id              TEXT COLLATE "C" PRIMARY KEY,
    url             TEXT   NOT NULL,
    secret          TEXT   NOT NULL,
    previous_secret TEXT,
    previous_until  BIGINT,
    types           TEXT   NOT NULL,
    campaigns       TEXT   COLLATE "C" NOT NULL,
    owner           TEXT   COLLATE "C",
    created_at      BIGINT NOT NULL,
    place           BIGINT NOT NULL,
    failing_since   BIGINT,
    attempts        BIGINT NOT NULL DEFAULT 0,
    retry_at        BIGINT,
    last_error      TEXT,
    disabled_at     BIGINT,
    holder          TEXT COLLATE "C",
    held_until      BIGINT
);

-- What they are told: written by settlement, in its own transaction, of campaigns whose events an endpoint may want.
CREATE TABLE webhook_events (
    place     BIGINT PRIMARY KEY,
    partition BIGINT NOT NULL,
    seq       BIGINT NOT NULL,
    kind      TEXT   COLLATE "C" NOT NULL,
    at        BIGINT NOT NULL,
    campaign  BIGINT NOT NULL,
    number    BIGINT,
    "user"    TEXT   COLLATE "C",
    quantity  BIGINT NOT NULL,
    amount    BIGINT NOT NULL,
    payment   TEXT   COLLATE "C"
);

CREATE INDEX webhook_events_at ON webhook_events (at);

-- One row: the last place that was given to an event.
CREATE TABLE webhook_places (last_place BIGINT NOT NULL);

INSERT INTO webhook_places VALUES (0);
