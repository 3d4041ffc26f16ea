-- Returns: paid orders that were taken back, and postings of what is owed for them. A seller's account may be overdrawn
-- by them. A CHECK is no part of what is stored, so its text is changed where it stands, as SQLite describes it
-- (lang_altertable.html, "Making Other Kinds Of Table Schema Changes"): no row is copied.
INSERT INTO event_kinds (kind, name) VALUES (16, 'returned');

PRAGMA writable_schema = ON;

UPDATE sqlite_schema SET sql = replace(sql, '''expired'')', '''expired'', ''returned'')')
WHERE type = 'table' AND name = 'orders';

UPDATE sqlite_schema SET sql = replace(sql, '''refund_due'')', '''refund_due'', ''return'')')
WHERE type = 'table' AND name = 'postings';

UPDATE sqlite_schema SET sql = replace(sql, 'purpose = ''outside'' OR', 'purpose IN (''outside'', ''user'') OR')
WHERE type = 'table' AND name = 'accounts';

PRAGMA writable_schema = RESET;

-- A change of the schema by its own statement gives it a new number, by which other connections notice.
CREATE TABLE returns_added (id INTEGER) STRICT;
DROP TABLE returns_added;
