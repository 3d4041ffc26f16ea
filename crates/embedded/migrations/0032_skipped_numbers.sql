-- A campaign that is read needs the numbers that restores have skipped of it.
CREATE INDEX withheld_numbers_of ON withheld_numbers (campaign);
