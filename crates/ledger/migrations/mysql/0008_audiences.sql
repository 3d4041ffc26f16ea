-- Who may take part in a campaign, and who may see its draws, as a JSON text: written with the campaign, and never
-- changed. Campaigns that are for everybody have none. Programs that do not know it would let everybody in.
CREATE TABLE IF NOT EXISTS audiences (
    campaign BIGINT     NOT NULL PRIMARY KEY,
    rules    MEDIUMTEXT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
