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


-- Quarantined entries, with the fields of their text: `seq at campaign event …`. Fields end at the next space.
CREATE TEMP TABLE aside (
    partition INTEGER,
    seq       INTEGER,
    campaign  TEXT,
    told      TEXT,     -- the event with its fields
    kind      TEXT,
    number    INTEGER,  -- of the grant or the order; closed: units returned
    quantity  INTEGER,  -- granted: units
    reason    TEXT,
    waits_for INTEGER
);

INSERT INTO temp.aside
WITH events AS (
    SELECT *, substr(entry, instr(entry, campaign) + length(campaign) + 1) AS told FROM set_aside
), kinds AS (
    SELECT *, substr(told, 1, instr(told || ' ', ' ') - 1) AS kind FROM events
), fields AS (
    SELECT *, substr(told, length(kind) + 2) AS fields FROM kinds
), users AS (
    SELECT *, substr(fields, instr(fields || ' ', ' ') + 1) AS behind_number FROM fields
)
SELECT partition, seq, campaign, nullif(told, ''), nullif(kind, ''),
       CASE WHEN fields <> '' AND kind <> 'opened' THEN CAST(fields AS INTEGER) END,
       CASE kind WHEN 'granted' THEN CAST(substr(behind_number, instr(behind_number || ' ', ' ') + 1) AS INTEGER) END,
       reason, waits_for
FROM users;

CREATE INDEX temp.aside_of ON aside (campaign, kind, number);
