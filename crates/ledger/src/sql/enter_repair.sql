INSERT INTO repairs ("partition", epoch, follows, at, lost_from, lost_to, unnamed, reason)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
