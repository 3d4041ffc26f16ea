INSERT INTO engine (id, installation, engine, location, beats) VALUES (1, ?, ?, ?, 0) ON DUPLICATE KEY UPDATE id = id
