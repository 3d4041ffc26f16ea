SELECT d.seq, (SELECT count(*) FROM postings WHERE source = -1)
FROM direct_postings d
