-- Window, limit and price of a sale may be changed, which the log says by an entry. Programs that do not know it refuse
-- the database. `terms_revision` is the place of the last such entry in the log of the sale's first part.
ALTER TABLE campaigns ADD COLUMN terms_revision BIGINT NOT NULL DEFAULT 0;

-- The terms that a sale has had, once they were changed: under revision 0 those with which it was created.
CREATE TABLE sale_terms (
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
DO $$
DECLARE
    bound text;
BEGIN
    FOR bound IN SELECT conname FROM pg_constraint
        WHERE conrelid = 'campaigns'::regclass AND contype = 'c'
            AND pg_get_constraintdef(oid) LIKE '%per_user_limit%'
    LOOP
        EXECUTE format('ALTER TABLE campaigns DROP CONSTRAINT %I', bound);
    END LOOP;
END
$$;

ALTER TABLE campaigns ADD CONSTRAINT campaigns_limits CHECK (per_user_limit >= 1);
