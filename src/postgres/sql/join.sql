-- Joins. The functions of the schema (migrations/) contain the rules. These statements call them.

-- name: join_start
select created
  from {schema}.outbox_join_try_start(join_id => $1::uuid, grouping_key => $2::text,
                                      expected_steps => $3::integer, metadata => $4::text,
                                      deadline => $5::timestamptz);

-- name: join_expect
-- For a join that this transaction has created.
update {schema}.outbox_join set expected_steps = $2::integer where join_id = $1::uuid;

-- name: join_grow
-- For a join that cannot end before this transaction does.
update {schema}.outbox_join set expected_steps = expected_steps + $2::integer
  where join_id = $1::uuid;

-- name: join_missing
-- The first of these joins that does not exist.
select u.id from unnest($1::uuid[]) as u(id)
 where not exists (select from {schema}.outbox_join j where j.join_id = u.id) limit 1;

-- name: join_attach
-- returns here: missing uuid, attached integer, unknown uuid
select missing, attached, unknown
  from {schema}.outbox_join_try_attach(joins => $1::uuid[], messages => $2::uuid[],
                                       known_only => $3::boolean);

-- name: join_report
select {schema}.outbox_join_report(join_id => $1::uuid, message_id => $2::uuid,
                                   status => $3::integer);

-- name: join_is_reported
-- Whether the step has this end. For a call that is repeated because its result was lost.
select exists (select from {schema}.outbox_join_member
                where join_id = $1::uuid and message_id = $2::uuid and status = $3::integer);

-- name: join_cancel
select {schema}.outbox_join_cancel(join_id => $1::uuid);

-- name: join_is_cancelled
-- Whether the join is cancelled. For a call that is repeated because its result was lost.
select exists (select from {schema}.outbox_join where join_id = $1::uuid and status = 3);

-- name: join_fail_overdue
select {schema}.outbox_join_fail_overdue(most => $1::integer);

-- name: join_await
select {schema}.outbox_join_await(join_id => $1::uuid, message_id => $2::uuid);

-- name: join_wait
-- returns here: join_id uuid, grouping_key text, expected_steps integer, completed_steps integer
-- returns here: failed_steps integer, status integer, created_at time, last_updated_at time
-- returns here: finished_at time
-- returns here: deadline time, reason text, metadata text, until_deadline integer
select join_id, grouping_key::text, expected_steps, completed_steps, failed_steps, status,
       created_at, last_updated_at, finished_at, deadline::timestamptz, reason, metadata,
       (extract(epoch from deadline - {schema}.clock()) * 1000000)::bigint as until_deadline
  from {schema}.outbox_join_wait(join_id => $1::uuid, message_id => $2::uuid);

-- name: join_wait_step_catch_up
-- returns: handled integer, waiting boolean
-- The number of handled rows, and whether any message waits for a join, or a step was uncounted
-- before this call.
select {schema}.outbox_join_catch_up(most => $1::integer) as handled,
       exists (select from {schema}.outbox_join_waiter)
         or exists (select from {schema}.outbox_join_uncounted) as waiting;

-- name: join_take_unlogged
-- returns: as join_find
select join_id, grouping_key::text, expected_steps, completed_steps, failed_steps, status,
       created_at, last_updated_at, finished_at, deadline::timestamptz, reason, metadata
  from {schema}._outbox_join_take_unlogged(most => $1::integer);

-- name: join_purge
select {schema}.outbox_join_purge(finished_before => {schema}.clock()
                                                     - $1::bigint * interval '1 microsecond',
                                  most => $2::integer);

-- name: join_find
-- returns: join_id uuid, grouping_key text, expected_steps integer, completed_steps integer
-- returns: failed_steps integer, status integer, created_at time, last_updated_at time
-- returns: finished_at time
-- returns: deadline time, reason text, metadata text
select join_id, grouping_key::text, expected_steps, completed_steps, failed_steps, status,
       created_at, last_updated_at, finished_at, deadline::timestamptz, reason, metadata
  from {schema}.outbox_join where join_id = $1::uuid;

-- name: join_list
-- returns: as join_find
select join_id, grouping_key::text, expected_steps, completed_steps, failed_steps, status,
       created_at, last_updated_at, finished_at, deadline::timestamptz, reason, metadata
  from {schema}.outbox_join
 where ($1::text is null or grouping_key = $1) and ($2::integer is null or status = $2)
   and ($3::timestamptz is null or created_at >= $3)
   and ($4::timestamptz is null or created_at < $4) and ($5::uuid is null or join_id > $5)
 order by join_id limit $6::bigint;

-- name: join_joins_of
-- returns: join_id uuid
select join_id from {schema}.outbox_join_member where message_id = $1::uuid limit $2::bigint;

-- name: join_waiting
-- returns: message_id uuid
select message_id from {schema}.outbox_join_waiter
 where join_id = $1::uuid order by message_id limit $2::bigint;

-- name: join_members
-- returns: message_id uuid, status integer, created_at time
select message_id, status, created_at from {schema}.outbox_join_member
 where join_id = $1::uuid and ($2::uuid is null or message_id > $2)
 order by message_id limit $3::bigint;
