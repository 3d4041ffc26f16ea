-- For a ledger alone: postings that follow from a log, indexed by their grant, payment or return.
CREATE TEMP TABLE posted AS
SELECT p.source, p.seq, p.kind, p.campaign, p.number, p.amount, p.at,
       d.currency AS currency, d.owner AS debtor, d.purpose AS debited, k.owner AS creditor, k.purpose AS credited
FROM postings p
LEFT JOIN accounts d ON d.id = p.debit
LEFT JOIN accounts k ON k.id = p.credit
WHERE p.source <> -1;

CREATE INDEX temp.posted_for ON posted (campaign, kind, number);

-- Numbers of grants that no repair could name, as runs that do not overlap. A restore skips up to 2^27 of them.
CREATE TEMP TABLE gaps AS
SELECT campaign, first_number, last_number
FROM (
    SELECT w.campaign, w.last_number,
           max(w.first_number, coalesce(max(w.last_number) OVER earlier + 1, 1)) AS first_number
    FROM withheld_numbers w
    JOIN repairs r ON r.partition = w.partition AND r.epoch = w.epoch
    JOIN campaigns c ON c.ref = w.campaign
    WHERE c.parts = 1 AND w.step = 1
    WINDOW earlier AS (
        PARTITION BY w.campaign ORDER BY w.first_number, w.last_number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
)
WHERE first_number <= last_number;

CREATE INDEX temp.gaps_of ON gaps (campaign, first_number);
