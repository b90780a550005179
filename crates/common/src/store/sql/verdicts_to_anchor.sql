-- Signed verdicts that were decided at $1 or later and have no anchor, at most $2, the oldest first.
select run_id, sequence, decided_at, substring(signature from 1 for 64) as signature
from verdict
where decided_at >= $1
  and signature is not null
  and not exists (
      select from anchored_verdict as anchored
      where anchored.run_id = verdict.run_id and anchored.sequence = verdict.sequence)
order by decided_at, run_id, sequence
limit $2
