-- Deletes anchors whose verdicts are all deleted. The newest says where the next one begins, and stays.
delete from anchor
where anchored_at < $1
  and anchor_id <> (select anchor_id from anchor order by decided_through desc, anchor_id limit 1)
  and not exists (select from anchored_verdict as anchored where anchored.anchor_id = anchor.anchor_id)
