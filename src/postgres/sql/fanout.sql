-- Fan-out on a schedule. The functions of the schema (migrations/) contain the rules.

-- name: fanout_register
select {schema}.fanout_register(topic => $1::text, work_key => nullif($2::text, ''),
                                every => $3::bigint * interval '1 millisecond',
                                jitter => $4::bigint * interval '1 millisecond', job => $5::text,
                                settle => $6::bigint * interval '1 millisecond');

-- name: fanout_set_cadence
select {schema}.fanout_set_cadence(topic => $1::text, work_key => nullif($2::text, ''),
                                   every => $3::bigint * interval '1 millisecond',
                                   jitter => $4::bigint * interval '1 millisecond');

-- name: fanout_reset_cadence
select {schema}.fanout_reset_cadence(topic => $1::text, work_key => nullif($2::text, ''));

-- name: fanout_remove
delete from {schema}.fanout_policy where topic = $1::text and work_key = $2::text;

-- name: fanout_policies
-- returns: topic text, work_key text, every integer, jitter integer, default_every integer
-- returns: default_jitter integer, settle integer
-- returns: set_by_operator boolean, job text, created_at time, updated_at time
-- The policies of one topic ($1), or of all.
select topic, work_key, (extract(epoch from every) * 1000)::bigint as every,
       (extract(epoch from jitter) * 1000)::bigint as jitter,
       (extract(epoch from default_every) * 1000)::bigint as default_every,
       (extract(epoch from default_jitter) * 1000)::bigint as default_jitter,
       (extract(epoch from settle) * 1000)::bigint as settle, set_by_operator, job, created_at,
       updated_at
  from {schema}.fanout_policies
 where $1::text is null or topic = $1
 order by topic, work_key nulls first;

-- name: fanout_plan
-- returns here: message_id uuid, replaced boolean
-- Enqueues the due slices among the candidates ($2, $3).
select message_id, replaced
  from {schema}._fanout_enqueue_due(topic => $1::text, shard_keys => $2::text[],
                                    work_keys => $3::text[], ids => $4::uuid[], notify => false);

-- name: fanout_last_completed
-- returns: last_completed_at time
select last_completed_at from {schema}.fanout_cursor
  where topic = $1::text and work_key = $2::text and shard_key = $3::text;

-- name: fanout_mark_completed
select {schema}.fanout_mark_completed(topic => $1::text, work_key => $2::text,
                                      shard_key => $3::text, window_start => $4::timestamptz,
                                      window_end => $5::timestamptz);

-- name: fanout_cursors
-- returns: topic text, work_key text, shard_key text, last_completed_at time, enqueued_at time
-- returns: message_id uuid
-- returns: status text, last_error text, created_at time, updated_at time
-- The cursors of a topic, of one work key ($2) or of all. The page begins after ($3, $4).
select topic, work_key, shard_key, last_completed_at, enqueued_at, message_id, status, last_error,
       created_at, updated_at
  from {schema}.fanout_cursors
 where topic = $1::text and ($2::text is null or work_key = $2)
   and ($3::text is null or (work_key, shard_key) > ($3, $4::text))
 order by work_key, shard_key limit $5::bigint;

-- name: fanout_purge_step_page
-- returns: work_key text, shard_key text
-- The last cursor of the page of $5 cursors after ($3, $4); no row when the page is not full.
select work_key, shard_key from {schema}.fanout_cursor
 where topic = $1::text and ($2::text is null or work_key = $2)
   and (work_key, shard_key) > ($3::text, $4::text)
 order by work_key, shard_key limit 1 offset $5::bigint - 1;

-- name: fanout_purge
-- Deletes the cursors after ($3, $4) and up to ($5, $6) that have been due for $7 microseconds and
-- have no message. A null $5: up to the last one.
delete from {schema}.fanout_cursor f
 where f.topic = $1::text and ($2::text is null or f.work_key = $2)
   and (f.work_key, f.shard_key) > ($3::text, $4::text)
   and ($5::text is null or (f.work_key, f.shard_key) <= ($5, $6::text))
   and greatest(f.last_completed_at, f.enqueued_at, f.created_at)
         + $7::bigint * interval '1 microsecond'
         + coalesce((select p.every + p.jitter + p.settle from {schema}.fanout_policies p
                      where p.topic = f.topic and (p.work_key = f.work_key or p.work_key is null)
                      order by p.work_key nulls last limit 1), interval '0') <= {schema}.clock()
   and not exists (select from {schema}.outbox o where o.id = f.message_id)
   and not exists (select from {schema}.outbox_archive a
                    where a.id = f.message_id and a.status = 3);
