-- What a claim of a campaign needs before an engine is asked: words with blanks between. A column that is there cannot
-- be added again, and what a broken migration left is gone over again.
SET @add_requirements = (
    SELECT IF(count(*) = 0, 'ALTER TABLE campaigns ADD COLUMN requirements VARCHAR(255) NOT NULL DEFAULT ''''', 'DO 0')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'campaigns' AND column_name = 'requirements'
);
PREPARE add_requirements FROM @add_requirements;
EXECUTE add_requirements;
DEALLOCATE PREPARE add_requirements;
