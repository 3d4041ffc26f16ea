-- The engine whose entries the ledger takes: one row, from the first start with an engine on.
CREATE TABLE engine (
    id           BIGINT PRIMARY KEY CHECK (id = 1),
    installation TEXT   COLLATE "C" NOT NULL,
    engine       TEXT   COLLATE "C" NOT NULL,
    location     TEXT   NOT NULL,
    beats        BIGINT NOT NULL
);
