UPDATE details
SET product_id = nullif(coalesce($1, product_id), ''), description = nullif(coalesce($2, description), ''),
    image_url = nullif(coalesce($3, image_url), '')
WHERE campaign = (SELECT ref FROM campaigns WHERE id = $4)
