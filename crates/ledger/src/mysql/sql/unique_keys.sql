-- Tables, their unique keys, and the columns of these, in order. Only tables of InnoDB have transactions. A text that
-- does not compare byte by byte is another key.
SELECT CAST(s.table_name AS CHAR), CAST(s.index_name AS CHAR), CAST(s.column_name AS CHAR)
FROM information_schema.statistics s
JOIN information_schema.tables t ON t.table_schema = s.table_schema AND t.table_name = s.table_name
WHERE s.table_schema = DATABASE() AND s.non_unique = 0 AND s.sub_part IS NULL AND t.engine = 'InnoDB'
  AND (s.collation IS NULL OR NOT EXISTS (
      SELECT 1 FROM information_schema.columns c
      WHERE c.table_schema = s.table_schema AND c.table_name = s.table_name AND c.column_name = s.column_name
        AND c.collation_name <> 'utf8mb4_bin'))
ORDER BY s.table_name, s.index_name, s.seq_in_index
