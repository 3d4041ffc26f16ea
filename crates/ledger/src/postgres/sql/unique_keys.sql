-- Tables and the columns of their unique keys. One whose index is not valid does not hold.
SELECT c.relname::TEXT,
       (SELECT string_agg(a.attname::TEXT, ',' ORDER BY k.place)
        FROM unnest(i.indkey::INT2[]) WITH ORDINALITY k(attnum, place)
        JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
        WHERE k.place <= i.indnkeyatts)
FROM pg_index i
JOIN pg_class c ON c.oid = i.indrelid
WHERE i.indisunique AND i.indisvalid AND c.relkind IN ('r', 'p') AND pg_table_is_visible(c.oid)
  AND c.relnamespace <> 'pg_catalog'::REGNAMESPACE AND i.indexprs IS NULL
