SELECT campaign, min(seq)
FROM set_aside
WHERE `partition` = ? AND campaign IN (/*rows , */?/*end*/)
GROUP BY campaign
