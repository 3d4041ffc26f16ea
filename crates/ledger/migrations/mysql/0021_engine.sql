-- The engine whose entries the ledger takes: one row, from the first start with an engine on.
CREATE TABLE IF NOT EXISTS engine (
    id           BIGINT        PRIMARY KEY CHECK (id = 1),
    installation VARCHAR(64)   NOT NULL,
    engine       VARCHAR(64)   NOT NULL,
    location     VARCHAR(1024) NOT NULL,
    beats        BIGINT        NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
