SELECT r.object, r.id, r.reference, r.unique_owner
FROM unnest($1::text[], $2::text[]) AS w (object, id)
JOIN shop_references r ON r.object = w.object AND r.id = w.id
