-- For a ledger alone: the postings that follow from a log, where what they are for leads to them.
CREATE TEMP TABLE posted (
    source   INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    kind     TEXT,
    campaign INTEGER,
    number   INTEGER,
    amount   INTEGER,
    currency TEXT,     -- of the account that gave
    at       INTEGER,
    debtor   TEXT,
    debited  TEXT,
    creditor TEXT,
    credited TEXT
);

INSERT INTO temp.posted
SELECT p.source, p.seq, p.kind, p.campaign, p.number, p.amount, d.currency, p.at, d.owner, d.purpose, k.owner, k.purpose
FROM postings p
LEFT JOIN accounts d ON d.id = p.debit
LEFT JOIN accounts k ON k.id = p.credit
WHERE p.source <> -1;

CREATE INDEX temp.posted_for ON posted (campaign, kind, number);
