-- Runs wait for larger budgets.
alter table wait drop constraint wait_kind_known;
alter table wait add constraint wait_kind_known check (kind in (
    'plan', 'decision', 'tool', 'question', 'confirmation', 'acceptance', 'resume', 'timer',
    'workspace', 'budget'));
