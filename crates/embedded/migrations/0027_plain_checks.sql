-- For a list of more than two words SQLite builds a temporary table, each time that a statement runs: of a posting's
-- costs that was two thirds, and there is one for each grant. A word compared with one after another costs next to
-- nothing, the most frequent one first. Nothing that is stored changes, neither in tables nor in the index, so their
-- texts are changed where they stand: see 0005_returns.sql.
PRAGMA writable_schema = ON;

UPDATE sqlite_schema SET sql = replace(sql,
    'kind IN (''deposit'', ''fund'', ''grant'', ''refund'', ''residue'', ''payment'', ''refund_due'', '
        || '''return'', ''refund_paid'', ''withdrawal'', ''reversal'')',
    'kind = ''grant'' OR kind = ''fund'' OR kind = ''payment'' OR kind = ''refund'' OR kind = ''residue''
            OR kind = ''deposit'' OR kind = ''refund_due'' OR kind = ''return'' OR kind = ''refund_paid''
            OR kind = ''withdrawal'' OR kind = ''reversal''')
WHERE type = 'table' AND name = 'postings';

UPDATE sqlite_schema SET sql = replace(sql,
    'kind IN (''fund'', ''return'', ''refund_paid'', ''withdrawal'', ''reversal'')',
    'kind = ''fund'' OR kind = ''return'' OR kind = ''refund_paid'' OR kind = ''withdrawal'' OR kind = ''reversal''')
WHERE type = 'index' AND name = 'postings_out';

UPDATE sqlite_schema SET sql = replace(sql,
    'purpose IN (''user'', ''escrow'', ''refunds_due'', ''outside'')',
    'purpose = ''user'' OR purpose = ''escrow'' OR purpose = ''outside'' OR purpose = ''refunds_due''')
WHERE type = 'table' AND name = 'accounts';

UPDATE sqlite_schema SET sql = replace(replace(sql,
    'ack IN (''memory'', ''replica'', ''fsync'', ''ledger'')',
    'ack = ''fsync'' OR ack = ''replica'' OR ack = ''memory'' OR ack = ''ledger'''),
    'phase IN (''draft'', ''scheduled'', ''paused'', ''ended'', ''closed'')',
    'phase = ''scheduled'' OR phase = ''draft'' OR phase = ''closed'' OR phase = ''ended'' OR phase = ''paused''')
WHERE type = 'table' AND name = 'campaigns';

UPDATE sqlite_schema SET sql = replace(sql,
    'state IN (''held'', ''paid'', ''cancelled'', ''expired'', ''returned'')',
    'state = ''held'' OR state = ''paid'' OR state = ''cancelled'' OR state = ''expired'' OR state = ''returned''')
WHERE type = 'table' AND name = 'orders';

UPDATE sqlite_schema SET sql = replace(sql,
    'outcome IN (''paid'', ''reinstated'', ''refund_due'')',
    'outcome = ''paid'' OR outcome = ''reinstated'' OR outcome = ''refund_due''')
WHERE type = 'table' AND name = 'payments';

UPDATE sqlite_schema SET sql = replace(sql,
    'phase IN (''scheduled'', ''paused'', ''ended'', ''closed'')',
    'phase = ''scheduled'' OR phase = ''closed'' OR phase = ''ended'' OR phase = ''paused''')
WHERE type = 'table' AND name = 'parts';

PRAGMA writable_schema = RESET;

-- A change of the schema by its own statement gives it a new number, by which other connections notice.
CREATE TABLE plain_checks (id INTEGER) STRICT;
DROP TABLE plain_checks;
