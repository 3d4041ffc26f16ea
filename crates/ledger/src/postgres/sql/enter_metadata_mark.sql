INSERT INTO metadata (object, id, name, value) VALUES ($1, $2, $3, '') ON CONFLICT DO NOTHING
