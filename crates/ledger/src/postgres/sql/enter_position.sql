INSERT INTO settled (partition, seq) VALUES ($1, 0) ON CONFLICT DO NOTHING
