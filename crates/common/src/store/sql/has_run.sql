select exists (select from run where id = $1)
