UPDATE parts
SET phase = coalesce(?, phase), granted = granted + ?, returned = returned + ?, refunded = refunded + ?
WHERE campaign = ? AND `partition` = ?
