-- Adds amounts to accounts in the given order, and creates missing ones. MariaDB returns their ids in that order.
INSERT INTO accounts (owner, purpose, currency, balance)
VALUES /*rows , */(?, ?, ?, ?)/*end*/
ON DUPLICATE KEY UPDATE balance = balance + VALUES(balance)
/*M!100500 RETURNING id, owner */
