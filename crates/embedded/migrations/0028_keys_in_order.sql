-- The key before its scope. With the scope first, as many pages grow at the same time as there are callers, and each
-- creation of another sender writes a page of its own to the log. Keys that grow with time, as UUIDs of version 7 and
-- numbers of orders do, now come one behind the other.
CREATE TABLE keys_in_order (
    scope       TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,
    id          TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    PRIMARY KEY (key, scope)
) STRICT, WITHOUT ROWID;

INSERT INTO keys_in_order SELECT scope, key, fingerprint, id, at FROM idempotency_keys ORDER BY key, scope;

DROP TABLE idempotency_keys;
ALTER TABLE keys_in_order RENAME TO idempotency_keys;

CREATE INDEX idempotency_keys_purge ON idempotency_keys (at) WHERE scope <> 'payment';
