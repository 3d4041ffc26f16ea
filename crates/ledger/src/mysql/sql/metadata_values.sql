SELECT m.object, m.id, m.name, m.value
FROM metadata m
WHERE (m.object, m.id) IN (/*rows , */(?, ?)/*end*/)
