DELETE FROM withheld
WHERE `partition` = ? AND epoch IN (SELECT epoch FROM repairs WHERE `partition` = ? AND upto IS NULL)
