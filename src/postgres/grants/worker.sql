-- All that a started Platform needs. Run it as the role that migrates: default privileges cover the
-- objects that this role creates later.
grant usage on schema {schema} to {role};
grant select, insert, update, delete on all tables in schema {schema} to {role};
revoke insert, update, delete on {schema}.schema_migrations from {role};
grant usage, select on all sequences in schema {schema} to {role};
grant execute on all functions in schema {schema} to {role};
alter default privileges in schema {schema} grant select, insert, update,
delete on tables to {role};
alter default privileges in schema {schema} grant usage, select on sequences to {role};
alter default privileges in schema {schema} grant execute on functions to {role};
