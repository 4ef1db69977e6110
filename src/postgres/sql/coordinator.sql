-- The work coordinator. The function contains the rules, and any language may call it.

-- name: work_process
select {schema}.process_work_batch($1::jsonb)::text;

-- name: work_leave
select {schema}.work_leave($1::uuid);
