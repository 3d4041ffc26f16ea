UPDATE settled SET seq = ? WHERE `partition` = ?
