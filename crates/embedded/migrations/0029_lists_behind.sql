-- What lists of an owner's campaigns and of an account's funds look for. An index would be written with each creation,
-- in a place of its own for each sender: two pages of the log. These are written behind that, thousands at a time, in
-- the order of owners and accounts; what is not in them yet is found by looking through the newest rows.
CREATE TABLE owned (
    by          TEXT    NOT NULL,
    campaign_id TEXT    NOT NULL,
    campaign    INTEGER NOT NULL REFERENCES campaigns (ref),
    PRIMARY KEY (by, campaign_id)
) STRICT, WITHOUT ROWID;
INSERT INTO owned SELECT owner, id, ref FROM campaigns ORDER BY owner, id;
DROP INDEX campaigns_owner;

CREATE TABLE funds (
    account INTEGER NOT NULL REFERENCES accounts (id),
    at      INTEGER NOT NULL,
    seq     INTEGER NOT NULL, -- of the posting, whose source is -1
    PRIMARY KEY (account, at, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO funds SELECT debit, at, seq FROM postings WHERE kind = 'fund' ORDER BY debit, at, seq;
DROP INDEX postings_out;
CREATE INDEX postings_out ON postings (debit, at)
    WHERE kind = 'return' OR kind = 'refund_paid' OR kind = 'withdrawal' OR kind = 'reversal';

-- Up to where they are written: a campaign's `ref`, and the `seq` of a posting of source -1.
CREATE TABLE listed (
    campaign INTEGER NOT NULL,
    posting  INTEGER NOT NULL
) STRICT;
INSERT INTO listed SELECT (SELECT coalesce(max(ref), 0) FROM campaigns),
                          (SELECT coalesce(max(seq), 0) FROM postings WHERE source = -1);
