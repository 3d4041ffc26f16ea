-- One row per migration that was applied to this database.
CREATE TABLE IF NOT EXISTS schema_version (
    version BIGINT NOT NULL PRIMARY KEY
) ENGINE = InnoDB
