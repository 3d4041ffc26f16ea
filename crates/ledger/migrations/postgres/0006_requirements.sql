-- What a claim of a campaign needs before an engine is asked: words with blanks between.
ALTER TABLE campaigns ADD COLUMN requirements TEXT COLLATE "C" NOT NULL DEFAULT '';
