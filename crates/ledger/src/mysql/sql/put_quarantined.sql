INSERT INTO set_aside (`partition`, seq, campaign, entry, reason, waits_for, at)
VALUES /*rows , */(?, ?, ?, ?, ?, ?, ?)/*end*/
