WHERE p.credit = $1
