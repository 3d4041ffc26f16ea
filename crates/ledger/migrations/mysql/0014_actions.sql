-- Who changed money or a campaign by the API: rows are only ever added. What the ledger changes itself is written in
-- the same transaction; what an engine decides is written before it is asked.
CREATE TABLE IF NOT EXISTS actions (
    id         CHAR(36)     NOT NULL PRIMARY KEY,
    at         BIGINT       NOT NULL,
    actor      VARCHAR(128) NOT NULL,
    kind       VARCHAR(16)  NOT NULL,
    subject    VARCHAR(128) NOT NULL,
    request_id VARCHAR(128) NOT NULL,
    detail     TEXT         NOT NULL,
    KEY actions_subject (subject, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
