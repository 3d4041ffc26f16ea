INSERT IGNORE INTO made_changes (id) VALUES (?)
