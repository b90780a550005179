-- When the newest anchored verdict was decided; before the first anchor, when anchoring began. The authority's time is
-- the limit: the clock of one gate may be ahead, and the verdicts of others would lie before the end.
select coalesce((select max(least(decided_through, anchored_at)) from anchor), (select started_at from anchoring))
