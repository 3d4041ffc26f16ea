-- The engine whose entries the ledger takes: one row, from the first start with an engine on.
CREATE TABLE engine (
    id           INTEGER PRIMARY KEY CHECK (id = 1),
    installation TEXT    NOT NULL,
    engine       TEXT    NOT NULL,
    location     TEXT    NOT NULL,
    beats        INTEGER NOT NULL
) STRICT;
