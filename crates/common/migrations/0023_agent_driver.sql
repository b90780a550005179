-- How the turns of an agent's tasks are decided: by the agent itself over the API, or by the model of the service.
alter table agent
    add column driver text not null default 'remote',
    add constraint agent_driver_known check (driver in ('remote', 'model'));
