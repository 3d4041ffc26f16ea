SELECT m.object, m.id, m.name, m.value
FROM unnest($1::text[], $2::text[]) AS w (object, id)
JOIN metadata m ON m.object = w.object AND m.id = w.id
