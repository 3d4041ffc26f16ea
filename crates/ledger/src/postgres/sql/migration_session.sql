-- Settings of a migration's connection, for any defaults of server, database and role. A change of a large table takes
-- as long as it takes.
SET statement_timeout = 0;
SET default_transaction_isolation = 'read committed';
SET idle_in_transaction_session_timeout = 0;
