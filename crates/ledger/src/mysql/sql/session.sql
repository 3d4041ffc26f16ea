-- Settings of every connection of the ledger. The first ones replace shorter defaults for the following statements.
-- Nothing waits for ever: neither for rows nor for tables.
SET SESSION innodb_lock_wait_timeout = 20, SESSION lock_wait_timeout = 20
    /*M!100100 , SESSION max_statement_time = 60 */ /*!50708 , SESSION max_execution_time = 60000 */;
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
-- A number out of range is an error and is never changed. Names are in double quotes, as in standard SQL.
SET SESSION sql_mode =
    'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO,PIPES_AS_CONCAT,ANSI_QUOTES';
-- Otherwise MariaDB turns a long list of keys into a join.
SET SESSION autocommit = 1 /*M!100300 , SESSION in_predicate_conversion_threshold = 0 */;
-- The same statements for any defaults of the server.
SET SESSION sql_safe_updates = 0, SESSION sql_big_selects = 1, SESSION sql_select_limit = 18446744073709551615,
    SESSION unique_checks = 1, SESSION completion_type = 0;
-- A client that is gone without a word loses its transaction, and its locks, after two minutes. The pool closes its
-- own idle connections before.
SET SESSION wait_timeout = 120;
