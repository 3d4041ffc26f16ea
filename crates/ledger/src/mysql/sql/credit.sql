-- Adds to accounts in the order given, opening those that are not there.
INSERT INTO accounts (owner, purpose, currency, balance)
VALUES /*rows , */(?, ?, ?, ?)/*end*/
ON DUPLICATE KEY UPDATE balance = balance + VALUES(balance)
