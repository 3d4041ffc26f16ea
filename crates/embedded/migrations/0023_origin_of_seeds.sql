-- What a packet's commitment binds (version 2: also its id and currency), and what its seed was made of where the
-- sender has added to it. Null in rows of earlier versions: version 1.
ALTER TABLE campaigns ADD COLUMN commitment_version INTEGER;
ALTER TABLE campaigns ADD COLUMN secret BLOB;
ALTER TABLE campaigns ADD COLUMN entropy BLOB;
