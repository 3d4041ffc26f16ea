-- How far a grant in quarantine is discarded: 0 not at all, 1 its units are to come back, 2 they are back and what
-- waited for it is to be redriven, 3 done. A row of 2 or 3 is in nobody's way.
ALTER TABLE set_aside ADD COLUMN discard BIGINT NOT NULL DEFAULT 0 CHECK (discard BETWEEN 0 AND 3);

CREATE INDEX set_aside_discards ON set_aside (partition, seq) WHERE discard BETWEEN 1 AND 2;
