SELECT seq FROM settled WHERE `partition` = ? FOR UPDATE
