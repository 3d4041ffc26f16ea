SELECT a.entry, a.discard, a.waits_for, b.discard
FROM set_aside a
LEFT JOIN set_aside b ON b."partition" = a."partition" AND b.seq = a.waits_for
WHERE a."partition" = $1 AND a.seq = $2
