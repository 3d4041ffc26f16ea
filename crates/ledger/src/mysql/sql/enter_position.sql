INSERT INTO settled (`partition`, seq) VALUES (?, 0) ON DUPLICATE KEY UPDATE seq = seq
