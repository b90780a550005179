select id, run_id, progress, progress_percent
from wait
where run_id = any($1) and progress is not null
