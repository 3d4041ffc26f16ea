-- Tables, their unique keys, and the columns of these, in order. Only tables of InnoDB have transactions. A text that
-- does not compare byte by byte is another key. Each table of the schema is limited to this database by a constant:
-- otherwise MariaDB reads the files of all databases.
SELECT CAST(s.table_name AS CHAR), CAST(s.index_name AS CHAR), CAST(s.column_name AS CHAR)
FROM information_schema.statistics s
JOIN information_schema.tables t ON t.table_name = s.table_name
WHERE s.table_schema = DATABASE() AND t.table_schema = DATABASE() AND t.engine = 'InnoDB'
  AND s.non_unique = 0 AND s.sub_part IS NULL
  AND (s.collation IS NULL OR s.column_name IS NULL OR (s.table_name, s.column_name) NOT IN (
      SELECT c.table_name, c.column_name FROM information_schema.columns c
      WHERE c.table_schema = DATABASE() AND c.collation_name <> 'utf8mb4_bin'))
ORDER BY s.table_name, s.index_name, s.seq_in_index
