-- As which file it is open for writing; none after a clean close. It is in the file itself, and not in the write-ahead
-- log alone, so that a copy of the file that lacks that log is noticed.
ALTER TABLE file_kind ADD COLUMN open_as TEXT;
