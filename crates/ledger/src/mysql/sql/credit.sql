-- Adds to accounts in the order given, opening those that are not there. MariaDB tells their ids in that order.
INSERT INTO accounts (owner, purpose, currency, balance)
VALUES /*rows , */(?, ?, ?, ?)/*end*/
ON DUPLICATE KEY UPDATE balance = balance + VALUES(balance)
/*M!100500 RETURNING id, owner */
