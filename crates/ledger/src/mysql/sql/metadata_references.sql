SELECT r.object, r.id, r.reference
FROM shop_references r
WHERE (r.object, r.id) IN (/*rows , */(?, ?)/*end*/)
