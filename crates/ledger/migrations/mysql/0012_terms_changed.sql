-- Window, limit and price of a sale may be changed, which the log says by an entry. Programs that do not know it refuse
-- the database. `terms_revision` is the place of the last such entry in the log of the sale's first part. What a broken
-- migration left is gone over again.
SET @change = (
    SELECT IF(count(*) > 0, 'DO 0', 'ALTER TABLE campaigns ADD COLUMN terms_revision BIGINT NOT NULL DEFAULT 0')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'campaigns' AND column_name = 'terms_revision'
);
PREPARE add_column FROM @change;
EXECUTE add_column;
DEALLOCATE PREPARE add_column;

-- The terms that a sale has had, once they were changed: under revision 0 those with which it was created.
CREATE TABLE IF NOT EXISTS sale_terms (
    campaign       BIGINT NOT NULL,
    revision       BIGINT NOT NULL,
    at             BIGINT NOT NULL,
    starts_at      BIGINT NOT NULL,
    ends_at        BIGINT NOT NULL,
    per_user_limit BIGINT NOT NULL,
    unit_price     BIGINT NOT NULL,
    PRIMARY KEY (campaign, revision)
);

-- A part of a spread sale may be settled before the stock is that a limit was checked with.
SET @change = (
    SELECT CASE
        WHEN coalesce(max(constraint_name = 'campaigns_limits'), 0) THEN 'DO 0'
        ELSE concat('ALTER TABLE campaigns DROP ', IF(VERSION() LIKE '%MariaDB%', 'CONSTRAINT', 'CHECK'), ' `',
                    max(constraint_name), '`, ADD CONSTRAINT campaigns_limits CHECK (per_user_limit >= 1)')
    END
    FROM information_schema.check_constraints
    WHERE constraint_schema = DATABASE() AND check_clause LIKE '%per_user_limit%'
);
PREPARE change_checks FROM @change;
EXECUTE change_checks;
DEALLOCATE PREPARE change_checks;
