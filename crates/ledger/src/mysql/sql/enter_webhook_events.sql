INSERT INTO webhook_events (place, `partition`, seq, kind, at, campaign, number, user, quantity, amount, payment,
                            currency)
VALUES /*rows , */(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)/*end*/
