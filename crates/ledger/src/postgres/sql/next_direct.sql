UPDATE direct_postings SET seq = seq + 1 RETURNING seq
