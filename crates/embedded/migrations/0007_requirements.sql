-- What a claim of a campaign needs before an engine is asked: words with blanks between, in the order of
-- docs/DATA_MODEL.md. Programs that do not know it refuse the file.
ALTER TABLE campaigns ADD COLUMN requirements TEXT NOT NULL DEFAULT '';
