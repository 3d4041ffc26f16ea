-- For a ledger alone: the postings that follow from a log, where what they are for leads to them.
CREATE TEMP TABLE posted AS
SELECT p.source, p.seq, p.kind, p.campaign, p.number, p.amount, p.at,
       d.currency AS currency, d.owner AS debtor, d.purpose AS debited, k.owner AS creditor, k.purpose AS credited
FROM postings p
LEFT JOIN accounts d ON d.id = p.debit
LEFT JOIN accounts k ON k.id = p.credit
WHERE p.source <> -1;

CREATE INDEX temp.posted_for ON posted (campaign, kind, number);
