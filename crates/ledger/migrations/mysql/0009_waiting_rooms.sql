-- Campaigns with a waiting room. Programs that do not know it would let everybody pass the line.
CREATE TABLE IF NOT EXISTS waiting_rooms (
    campaign CHAR(36) NOT NULL PRIMARY KEY
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
