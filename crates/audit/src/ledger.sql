-- For a ledger alone: postings that follow from a log, indexed by their grant, payment or return.
CREATE TEMP TABLE posted AS
SELECT p.source, p.seq, p.kind, p.campaign, p.number, p.amount, p.at,
       d.currency AS currency, d.owner AS debtor, d.purpose AS debited, k.owner AS creditor, k.purpose AS credited
FROM postings p
LEFT JOIN accounts d ON d.id = p.debit
LEFT JOIN accounts k ON k.id = p.credit
WHERE p.source <> -1;

CREATE INDEX temp.posted_for ON posted (campaign, kind, number);

-- Numbers of grants that no repair could name, up to the last granted number.
CREATE TEMP TABLE gaps (
    campaign INTEGER NOT NULL,
    number   INTEGER NOT NULL,
    PRIMARY KEY (campaign, number)
) WITHOUT ROWID;

INSERT OR IGNORE INTO temp.gaps
WITH RECURSIVE granted AS (
    SELECT campaign, number FROM orders
    UNION ALL
    SELECT campaign, number FROM shares WHERE user IS NOT NULL
), lasts AS (
    SELECT campaign, max(number) AS last
    FROM granted
    WHERE campaign IN (SELECT campaign FROM withheld_numbers)
    GROUP BY campaign
), numbers AS (
    SELECT w.campaign, w.first_number AS number, min(w.last_number, l.last) AS last, w.step
    FROM withheld_numbers w
    JOIN repairs r ON r.partition = w.partition AND r.epoch = w.epoch
    JOIN lasts l ON l.campaign = w.campaign
    WHERE w.first_number BETWEEN 1 AND min(w.last_number, l.last) AND w.step > 0
    UNION ALL
    SELECT campaign, number + step, last, step FROM numbers WHERE number + step <= last
)
SELECT campaign, number FROM numbers;
