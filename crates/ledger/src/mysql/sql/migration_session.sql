-- Settings of a migration's connection, for any defaults of the server.
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
-- A number that does not fit is an error, never another number. Names are quoted with double quotes, as in SQL.
SET SESSION sql_mode =
    'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO,PIPES_AS_CONCAT,ANSI_QUOTES';
-- Tables of InnoDB alone have transactions.
SET SESSION autocommit = 1, SESSION default_storage_engine = InnoDB;
-- A change of a large table takes as long as it takes.
SET SESSION sql_safe_updates = 0, SESSION sql_big_selects = 1, SESSION sql_select_limit = 18446744073709551615,
    SESSION unique_checks = 1, SESSION completion_type = 0 /*M!100100 , SESSION max_statement_time = 0 */;
