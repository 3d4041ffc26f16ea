INSERT INTO postings (source, seq, kind, debit, credit, amount, campaign, number, at)
VALUES /*rows , */(?, ?, ?, ?, ?, ?, ?, ?, ?)/*end*/
