-- What people see of a campaign beside its title, and since when it is archived. Nothing is decided by it, and
-- settlement touches none of it, so that it is not in the busy rows of `campaigns`. Every campaign has a row here.
-- What a broken migration left is gone over again.
CREATE TABLE IF NOT EXISTS details (
    campaign    BIGINT        NOT NULL PRIMARY KEY,
    product_id  VARCHAR(128)  CHECK (product_id <> ''),
    description VARCHAR(4096) CHECK (description <> ''),
    image_url   VARCHAR(2048) CHECK (image_url <> ''),
    archived_at BIGINT,
    KEY details_product (product_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

INSERT IGNORE INTO details (campaign) SELECT ref FROM campaigns;

ALTER TABLE campaigns MODIFY title VARCHAR(1024) NOT NULL;

-- The campaigns of a sender or seller.
SET @add_key = (
    SELECT IF(count(*) = 0, 'CREATE INDEX campaigns_owner ON campaigns (owner, id)', 'DO 0')
    FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'campaigns' AND index_name = 'campaigns_owner'
);
PREPARE add_key FROM @add_key;
EXECUTE add_key;
DEALLOCATE PREPARE add_key;
