INSERT INTO withheld_numbers (partition, epoch, campaign, first_number, last_number, step)
SELECT *
FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
