select run_id from execution where wait_ids @> array[$1]
