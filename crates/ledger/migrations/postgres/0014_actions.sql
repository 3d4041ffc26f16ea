-- Who changed money or a campaign by the API: rows are only ever added. What the ledger changes itself is written in
-- the same transaction; what an engine decides is written before it is asked.
CREATE TABLE actions (
    id         TEXT   COLLATE "C" PRIMARY KEY,
    at         BIGINT NOT NULL,
    actor      TEXT   NOT NULL,
    kind       TEXT   NOT NULL,
    subject    TEXT   COLLATE "C" NOT NULL,
    request_id TEXT   NOT NULL,
    detail     TEXT   NOT NULL
);

CREATE INDEX actions_subject ON actions (subject, id);
