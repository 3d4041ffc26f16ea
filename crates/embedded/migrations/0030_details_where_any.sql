-- A campaign has a row in `details` where there is something in it. Before, every campaign had one, and most of them,
-- which are packets, had nothing in it.
DELETE FROM details
WHERE product_id IS NULL AND description IS NULL AND image_url IS NULL AND archived_at IS NULL;
