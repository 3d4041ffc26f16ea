INSERT INTO postings (source, seq, kind, debit, credit, amount, campaign, number, at)
SELECT *
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
            $8::bigint[], $9::bigint[])
