INSERT INTO engine (id, installation, engine, location, beats) VALUES (1, $1, $2, $3, 0) ON CONFLICT DO NOTHING
