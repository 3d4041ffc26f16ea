INSERT INTO order_returns (campaign, number, `key`, quantity, amount, at, kind)
VALUES /*rows , */(?, ?, ?, ?, ?, ?, ?)/*end*/
