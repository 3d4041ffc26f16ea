-- The stock of a sale may be changed: an entry of the log says by how much. Programs that do not know it refuse
-- the file.
INSERT INTO event_kinds (kind, name) VALUES (11, 'stock_changed');
