INSERT INTO withheld (`partition`, epoch, campaign, units, amount)
VALUES (?, ?, ?, ?, ?)
