-- What every connection of the ledger is set to.
SET default_transaction_isolation = 'read committed';
-- Every statement here finds its rows by a key. The planner must not come to think otherwise on the strength of
-- statistics from a time when the tables were small, nor plan each batch anew.
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET plan_cache_mode = force_generic_plan;
SET jit = off;
-- Nothing waits for ever.
SET lock_timeout = '20s';
SET statement_timeout = '60s';
SET idle_in_transaction_session_timeout = '60s';
-- A commit that is answered is kept.
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') = 'off';
