select namespace, submitter from run where id = $1
