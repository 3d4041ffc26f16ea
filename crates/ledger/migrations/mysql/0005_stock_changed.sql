-- The stock of a sale may be changed, which the log says by an entry. Programs that do not know it refuse the database.
DO 0;
