-- A change that stores an answer applies under the lease of its wait only.
where change.run_id not in (select run_id from answer except select run_id from fenced)
