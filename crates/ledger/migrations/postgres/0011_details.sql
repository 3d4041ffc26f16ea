-- What people see of a campaign beside its title, and since when it is archived. Nothing is decided by it, and
-- settlement touches none of it, so that it is not in the busy rows of `campaigns`. Every campaign has a row here.
CREATE TABLE details (
    campaign    BIGINT PRIMARY KEY,
    product_id  TEXT   COLLATE "C" CHECK (product_id <> ''),
    description TEXT   CHECK (description <> ''),
    image_url   TEXT   COLLATE "C" CHECK (image_url <> ''),
    archived_at BIGINT
);

INSERT INTO details (campaign) SELECT ref FROM campaigns;

-- The rounds of a product, and the campaigns of a sender or seller.
CREATE INDEX details_product ON details (product_id) WHERE product_id IS NOT NULL;
CREATE INDEX campaigns_owner ON campaigns (owner, id);
