-- One row for each migration that this database has.
CREATE TABLE IF NOT EXISTS schema_version (
    version BIGINT PRIMARY KEY
)
