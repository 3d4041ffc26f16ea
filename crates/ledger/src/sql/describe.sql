UPDATE details
SET product_id = nullif(coalesce($1, product_id), ''), description = nullif(coalesce($2, description), ''),
    image_url = nullif(coalesce($3, image_url), ''),
    gallery = nullif(coalesce($4, gallery), ''),
    list_price = nullif(coalesce($5, list_price), 0)
WHERE campaign = (SELECT ref FROM campaigns WHERE id = $6)
