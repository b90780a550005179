-- Webhooks also tell of plans that no agent makes.
drop index wait_of_people;
create index wait_of_people on wait (namespace, opened_at)
    where kind in ('question', 'confirmation', 'acceptance', 'budget', 'resume', 'plan');
