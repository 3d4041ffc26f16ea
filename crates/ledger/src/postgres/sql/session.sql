-- Settings of every connection of the ledger. The first one replaces a shorter default for the following statements.
SET statement_timeout = '60s';
SET default_transaction_isolation = 'read committed';
-- Every statement finds its rows by a key. The planner must neither choose another plan because of statistics from a
-- time of small tables, nor plan each batch again.
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET plan_cache_mode = force_generic_plan;
SET jit = off;
-- Every wait is bounded.
SET lock_timeout = '20s';
SET idle_in_transaction_session_timeout = '60s';
-- An answered commit is kept.
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') = 'off';
