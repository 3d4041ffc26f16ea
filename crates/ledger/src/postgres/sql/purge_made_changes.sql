DELETE FROM made_changes WHERE id IN (SELECT id FROM made_changes WHERE id < $1 ORDER BY id LIMIT $2)
