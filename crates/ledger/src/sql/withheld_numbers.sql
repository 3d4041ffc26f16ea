SELECT n.epoch, c.id, n.first_number, n.last_number, n.step
FROM withheld_numbers n
JOIN campaigns c ON c.ref = n.campaign
WHERE n."partition" = $1
ORDER BY n.first_number
