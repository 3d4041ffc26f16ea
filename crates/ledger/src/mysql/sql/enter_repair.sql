INSERT INTO repairs (`partition`, epoch, follows, at, lost_from, lost_to, unnamed, reason)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
