INSERT IGNORE INTO metadata (object, id, name, value) VALUES (?, ?, ?, '')
