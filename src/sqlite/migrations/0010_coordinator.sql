-- compatible-with: 9
-- The work coordinator. Instances that claim work have a row in the table of instances, with the
-- time after which they are stale, in microseconds. For other instances it is null.
alter table {schema}_instance add column stale_after integer;
