DELETE FROM made_changes WHERE id < ? ORDER BY id LIMIT ?
