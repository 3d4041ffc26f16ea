SELECT r.object, r.id, r.reference, r.unique_owner
FROM shop_references r
WHERE (r.object, r.id) IN (/*rows , */(?, ?)/*end*/)
