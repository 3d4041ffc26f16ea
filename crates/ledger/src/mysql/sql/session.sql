-- What every connection of the ledger is set to.
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
-- A number that does not fit is an error, never another number. Names stand between double quotes, as in SQL.
SET SESSION sql_mode =
    'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO,PIPES_AS_CONCAT,ANSI_QUOTES';
-- MariaDB would make a join of a long list of keys.
SET SESSION autocommit = 1 /*M!100300 , SESSION in_predicate_conversion_threshold = 0 */;
-- Nothing waits for ever.
SET SESSION innodb_lock_wait_timeout = 20;
-- A client that is gone without a word loses its transaction, and its locks, after two minutes. The pool closes its
-- own idle connections before.
SET SESSION wait_timeout = 120;
