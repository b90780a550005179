-- The body of a plan is stored as the text that the planner wrote and that its digest and its signature stand for: the column's
-- type json made the server parse each plan once more as it was stored, a hundredth of the work on a short run. Readers parse it
-- in any case, and name a body that is no plan.
alter table plan alter column body type text using body::text;
