INSERT INTO withheld_numbers (`partition`, epoch, campaign, first_number, last_number, step)
VALUES /*rows , */(?, ?, ?, ?, ?, ?)/*end*/
