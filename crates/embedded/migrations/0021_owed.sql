-- Who was ever owed a refund: what is owed is found without going through all accounts.
CREATE INDEX accounts_owed ON accounts (id) WHERE purpose = 'refunds_due';
