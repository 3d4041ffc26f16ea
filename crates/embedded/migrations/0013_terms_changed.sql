-- Window, limit and price of a sale may be changed: an entry of the log says what they are. Programs that do not know
-- it refuse the file. `terms_revision` is the place of the last such entry in the log of the sale's first part.
INSERT INTO event_kinds (kind, name) VALUES (12, 'terms_changed');

ALTER TABLE campaigns ADD COLUMN terms_revision INTEGER NOT NULL DEFAULT 0;

-- The terms that a sale has had, once they were changed: under revision 0 those with which it was created.
CREATE TABLE sale_terms (
    campaign       INTEGER NOT NULL REFERENCES campaigns (ref),
    revision       INTEGER NOT NULL,
    at             INTEGER NOT NULL,
    starts_at      INTEGER NOT NULL,
    ends_at        INTEGER NOT NULL,
    per_user_limit INTEGER NOT NULL,
    unit_price     INTEGER NOT NULL,
    PRIMARY KEY (campaign, revision)
) STRICT, WITHOUT ROWID;

-- A part of a spread sale may be settled before the stock is that a limit was checked with. A CHECK is no part of what
-- is stored, so its text is changed where it stands: see 0005_returns.sql.
PRAGMA writable_schema = ON;

UPDATE sqlite_schema SET sql = replace(sql, 'per_user_limit BETWEEN 1 AND supply', 'per_user_limit >= 1')
WHERE type = 'table' AND name = 'campaigns';

PRAGMA writable_schema = RESET;

CREATE TABLE terms_added (id INTEGER) STRICT;
DROP TABLE terms_added;
