INSERT INTO set_aside (partition, seq, campaign, entry, reason, waits_for, at)
SELECT *
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[])
