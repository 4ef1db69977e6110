-- queues: outbox inbox timers
-- Operating a queue: counts, dead letters, paused topics, streams. queue.sql has the statements of
-- producers and workers, and the rules for both files.

-- name: {queue}_clock
select ?1;

-- name: {queue}_counts
-- returns: ready integer, scheduled integer, in_progress integer, done integer, failed integer
-- returns: paused integer
-- returns: oldest_due integer
-- Counts up to ?1 in each lane, so neither scheduled nor finished messages make it slow.
with lanes(lane) as (values (-5), (-4), (-3), (-2), (-1), (0), (1), (2), (3), (4), (5)),
counted(due, leased, scheduled, oldest) as materialized (
  select (select count(*) from (select 1 from {schema}_{queue}
                                 where status = 0 and lane = lanes.lane and ready_at <= ?2
                                 limit ?1)), (select count(*)
                                                from (select lease_until from {schema}_{queue}
                                 where status = 0 and lane = lanes.lane and ready_at <= ?2 limit ?1)
           where lease_until > 0),
         (select count(*) from (select 1 from {schema}_{queue}
                                 where status = 0 and lane = lanes.lane and ready_at > ?2
                                 limit ?1)), (select ready_at from {schema}_{queue}
           where status = 0 and lane = lanes.lane and lease_until < 0 and ready_at <= ?2
           order by ready_at limit 1)
    from lanes
),
-- Messages of streams: those behind a message that is not due yet count as ready.
streams(unsettled, scheduled, waiting) as materialized (
  select unsettled, scheduled, max(total - unsettled - scheduled, 0)
    from (select coalesce((select sum(unsettled) from {schema}_{queue}_stream), 0) as unsettled,
                 (select count(*) from (select 1 from {schema}_{queue}
                                         where status = 0 and lane between 15 and 25
                                           and ready_at > ?2 limit ?1)) as scheduled,
                                           (select count(*) from (select 1 from {schema}_{queue}
                                         where stream is not null and status = 0 and lane <> -100
                                         limit ?1)) as total)
)
select min((select sum(due - leased) from counted) + (select waiting from streams), ?1) as ready,
       min((select sum(scheduled) from counted) + (select scheduled from streams), ?1) as scheduled,
       min((select sum(leased) from counted) + (select unsettled from streams), ?1) as in_progress,
       (select count(*) from (select 1 from {schema}_{queue} where status = 1 limit ?1)) as done,
       (select count(*) from (select 1 from {schema}_{queue} where status = 3 limit ?1)) as failed,
       (select count(*) from (select 1 from {schema}_{queue} where lane = -100 limit ?1)) as paused,
       (select ?2 - min(oldest) from counted) as oldest_due;

-- name: {queue}_due_topics
-- returns: topic text, seen integer, oldest_wait integer
-- The topics of messages of one lane (?1) that became due by ?3 and that no worker holds at ?2,
-- among the first ?4 messages.
select topic, count(*) as seen, ?2 - min(ready_at) as oldest_wait
  from (select topic, ready_at, lease_until from {schema}_{queue}
         where status = 0 and lane = ?1 and ready_at <= ?3 order by ready_at, seq limit ?4)
 where lease_until <= ?2 and topic not in (select topic from {schema}_{queue}_paused)
 group by topic;

-- name: {queue}_has_work
select exists (select 1 from {schema}_{queue}
                where status = 0 and lane > -102 and lane <> -100 and ready_at <= ?1
                  and topic = ?2);

-- name: {queue}_find
-- returns: id uuid, topic text, payload text, correlation_id text, headers text, created_at time
-- returns: due_at time
-- returns: expires_at time, priority integer, attempts integer, claim_epoch integer, status integer
-- returns: processed_at time, processed_by uuid, last_error text, past_attempts integer
-- returns: unique_key text
-- returns: next_attempt_at time, stream text, stages integer, failures text
-- failures: a JSON array. Only this statement reads them.
select id, topic, payload, correlation_id, headers, created_at, due_time_utc as due_at, expires_at,
       priority, retry_count as attempts, claim_epoch, status, processed_at, processed_by,
       last_error, past_attempts, unique_key, next_attempt_at, stream, stages, failures
  from {schema}_{queue}_messages where id = ?1;

-- name: {queue}_dead_letters
-- returns: as {queue}_find
select id, topic, null as payload, correlation_id, headers, created_at, due_at, expires_at,
       priority, attempts, claim_epoch, status, processed_at,
       nullif(owner_token, zeroblob(16)) as processed_by, last_error, past_attempts, unique_key,
       null as next_attempt_at, stream, stages, null as failures
  from {schema}_{queue}
 where status = 3 and (?1 is null or topic = ?1) and (?2 is null or processed_at >= ?2)
   and (?3 is null or processed_at < ?3)
   and (?4 is null or id > ?4)
 order by id limit ?5;

-- name: {queue}_dead_letters_newest
-- returns: as {queue}_find
select id, topic, null as payload, correlation_id, headers, created_at, due_at, expires_at,
       priority, attempts, claim_epoch, status, processed_at,
       nullif(owner_token, zeroblob(16)) as processed_by, last_error, past_attempts, unique_key,
       null as next_attempt_at, stream, stages, null as failures
  from {schema}_{queue}
 where status = 3 and (?1 is null or topic = ?1) and (?2 is null or processed_at >= ?2)
   and (?3 is null or processed_at < ?3)
   and (?4 is null or id < ?4)
 order by id desc limit ?5;

-- name: {queue}_dead_letter_summary
-- returns: topic text, last_error text, letters integer, first_failed_at time, last_failed_at time
-- The last row has no topic: it counts the dead letters that were read. The filter comes after that
-- limit, so that a topic without dead letters does not read all those of the others.
with newest as materialized (
  select topic, last_error, processed_at from {schema}_{queue} where status = 3
    order by id desc limit ?4
)
select * from (
  select topic, last_error, count(*) as letters, min(processed_at) as first_failed_at,
         max(processed_at) as last_failed_at
    from newest
   where (?1 is null or topic = ?1) and (?2 is null or processed_at >= ?2)
     and (?3 is null or processed_at < ?3)
   group by topic, last_error order by count(*) desc, topic, last_error limit ?5)
union all
select null, null, count(*), null, null from newest;

-- name: {queue}_replay
-- Replays the next dead letters that match the filter, except those whose unique key is in use.
update or ignore {schema}_{queue}
   set status = 0, processed_at = -9000000000000000000, ready_at = ?5,
       past_attempts = past_attempts + attempts, attempts = 0, lost_leases = 0, expires_at = null
 where seq in (select seq from {schema}_{queue} as a
                where status = 3 and (?1 is null or topic = ?1)
                  and (?2 is null or processed_at >= ?2)
                  and (?3 is null or processed_at < ?3)
                  and (unique_key is null or not exists (
                         select 1 from {schema}_{queue} as o
                           where o.unique_key = a.unique_key and o.status = 0))
                order by id limit ?4)
returning id, stream;

-- name: {queue}_replay_step_one
update or ignore {schema}_{queue}
   set status = 0, processed_at = -9000000000000000000, ready_at = ?2,
       past_attempts = past_attempts + attempts, attempts = 0, lost_leases = 0, expires_at = null
 where id = ?1 and status = 3
returning id, stream;

-- name: {queue}_replay_step_tail
-- A replayed message goes to the end of its stream.
update {schema}_{queue} set seq = (select max(seq) + 1 from {schema}_{queue}), lane = -101
  where id = ?1;

-- name: {queue}_purge_failed
delete from {schema}_{queue}
 where seq in (select seq from {schema}_{queue}
                where status = 3 and (?1 is null or topic = ?1)
                  and (?2 is null or processed_at >= ?2)
                  and (?3 is null or processed_at < ?3)
                order by id limit ?4);

-- name: {queue}_purge_failed_step_one
delete from {schema}_{queue} where id = ?1 and status = 3;

-- name: {queue}_purge_done
delete from {schema}_{queue}
 where seq in (select seq from {schema}_{queue} where status = 1 and processed_at < ?1
                order by processed_at limit ?2);

-- name: {queue}_pause
insert into {schema}_{queue}_paused (topic, paused_at) values (?1, ?2) on conflict do nothing;

-- name: {queue}_resume
delete from {schema}_{queue}_paused where topic = ?1;

-- name: {queue}_unpark
-- The parked messages of one topic (?1), or of all topics that are not paused.
with recursive parked(topic) as (
  select min(topic) from {schema}_{queue} where lane = -100
  union all
  select (select min(topic) from {schema}_{queue} as o
           where o.lane = -100 and o.topic > parked.topic)
    from parked where topic is not null
)
update {schema}_{queue} set lane = case when stream is null then priority else priority + 20 end
 where seq in (select seq from {schema}_{queue}
                where lane = -100
                  and topic in (select topic from parked
                                 where topic is not null and (?1 is null or topic = ?1)
                                   and topic not in (select topic from {schema}_{queue}_paused))
                limit ?2);

-- name: {queue}_paused
-- returns: topic text, paused_at time
select topic, paused_at from {schema}_{queue}_paused order by topic;

-- name: {queue}_streams
-- returns: stream text, state integer, messages integer, head_id uuid, head_topic text
-- returns: head_attempts integer
-- returns: next_attempt_at time, last_error text, blocked_at time, owner_token uuid
-- returns: lease_until time
with found(stream) as (
  select stream from {schema}_{queue}_stream where blocked_at is not null or not ?2
  union
  select stream from (select stream from {schema}_{queue}
                       where status = 0 and lane between 15 and 25 and not ?2 limit 10000)
)
select found.stream,
       case when s.blocked_at is not null then 2 when s.lease_until > 0 then 1 else 0 end as state,
       (select count(*) from (select 1 from {schema}_{queue}
                               where stream = found.stream and status = 0 limit 1000)) as messages,
                               h.id as head_id, h.topic as head_topic,
                               coalesce(h.attempts, 0) as head_attempts,
                               h.ready_at as next_attempt_at, h.last_error, s.blocked_at,
                               case when s.lease_until > 0 then s.owner_token end as owner_token,
                               case when s.lease_until > 0 then s.lease_until end as lease_until
  from found
  left join {schema}_{queue}_stream as s on s.stream = found.stream
  left join {schema}_{queue} as h
    on h.seq = (select min(seq) from {schema}_{queue} where stream = found.stream and status = 0)
 where ?1 is null or found.stream > ?1
 order by found.stream limit ?3;

-- name: {queue}_stream_find
-- returns: as {queue}_streams
select h.stream,
       case when s.blocked_at is not null then 2 when s.lease_until > 0 then 1 else 0 end as state,
       (select count(*) from (select 1 from {schema}_{queue}
                               where stream = ?1 and status = 0 limit 1000)) as messages,
                               h.id as head_id, h.topic as head_topic, h.attempts as head_attempts,
                               h.ready_at as next_attempt_at, h.last_error, s.blocked_at,
                               case when s.lease_until > 0 then s.owner_token end as owner_token,
                               case when s.lease_until > 0 then s.lease_until end as lease_until
  from {schema}_{queue} as h
  left join {schema}_{queue}_stream as s on s.stream = ?1
 where h.seq = (select min(seq) from {schema}_{queue} where stream = ?1 and status = 0);

-- name: {queue}_stream_resume
-- The head of a blocked stream: its attempts start again.
update {schema}_{queue}
   set lane = -101, past_attempts = past_attempts + attempts, attempts = 0, lost_leases = 0,
       ready_at = ?2
 where stream = ?1 and status = 0 and lane = -102;

-- name: {queue}_stream_skip
select seq from {schema}_{queue} where stream = ?1 and status = 0 and lane = -102;

-- name: {queue}_stream_resume_step_unblock
update {schema}_{queue}_stream set blocked_at = null where stream = ?1 and blocked_at is not null;

-- name: {queue}_stream_resume_step_remove
delete from {schema}_{queue}_stream where stream = ?1 and lease_until < 0;
