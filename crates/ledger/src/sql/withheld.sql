SELECT w."partition", w.epoch, c.id, w.units, w.amount, w.released_at
FROM withheld w
JOIN campaigns c ON c.ref = w.campaign
WHERE w."partition" = $1
ORDER BY c.id, w.epoch
