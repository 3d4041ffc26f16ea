-- Who may take part in a campaign, and who may see its draws, as a JSON text: written before the campaign, once.
-- Campaigns that are for everybody have none.
CREATE TABLE IF NOT EXISTS audiences (
    campaign CHAR(36)   NOT NULL PRIMARY KEY,
    rules    MEDIUMTEXT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
