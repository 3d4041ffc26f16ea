-- Settings of every connection of the ledger.
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
-- A number out of range is an error and is never changed. Names are in double quotes, as in standard SQL.
SET SESSION sql_mode =
    'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO,PIPES_AS_CONCAT,ANSI_QUOTES';
-- Otherwise MariaDB turns a long list of keys into a join.
SET SESSION autocommit = 1 /*M!100300 , SESSION in_predicate_conversion_threshold = 0 */;
-- Nothing waits for ever.
SET SESSION innodb_lock_wait_timeout = 20;
-- A client that is gone without a word loses its transaction, and its locks, after two minutes. The pool closes its
-- own idle connections before.
SET SESSION wait_timeout = 120;
