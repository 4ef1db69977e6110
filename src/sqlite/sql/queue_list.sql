-- queues: outbox inbox timers
-- Lists of messages and topics. Each statement walks through up to ?1 messages of an index, and
-- returns those of them that match. `walked` is the number of messages that it read, and last_… is
-- the place of the last one: both are in every row. A row without an id is no message: none
-- matched. States: 0 ready, 1 scheduled, 2 in progress, 3 done, 4 failed, 5 paused.

-- name: {queue}_list_newest
-- returns: id uuid, topic text, payload text, correlation_id text, headers text, created_at time
-- returns: due_at time
-- returns: expires_at time, priority integer, attempts integer, claim_epoch integer, status integer
-- returns: processed_at time, processed_by uuid, last_error text, past_attempts integer
-- returns: unique_key text
-- returns: next_attempt_at time, stream text, stages integer
-- returns: state integer, place_lane integer, place_at integer, place_seq integer
-- returns: walked integer, last_id uuid, last_lane integer, last_at integer, last_seq integer
-- ?8: begins behind this id. ?9: now.
with walked as materialized (
  select seq, id, topic, correlation_id, stream, created_at from {schema}_{queue}
   where id < ?8 order by id desc limit ?1
),
matched as materialized (
  select seq from walked
   where (?3 is null or topic = ?3) and (?4 is null or correlation_id = ?4)
     and (?5 is null or stream = ?5) and (?6 is null or created_at >= ?6)
     and (?7 is null or created_at < ?7)
   order by id desc limit ?2
)
select m.id, m.topic, null as payload, m.correlation_id, m.headers, m.created_at, m.due_at,
       m.expires_at, m.priority, m.attempts, m.claim_epoch,
       case m.status when 0 then m.leased when 1 then 2 else 3 end as status,
       case when m.status > 0 then m.processed_at end as processed_at,
       case when m.status > 0 then nullif(m.owner_token, zeroblob(16)) end as processed_by,
       m.last_error, m.past_attempts, m.unique_key,
       case m.status when 0 then m.ready_at end as next_attempt_at, m.stream, m.stages,
       case when m.status = 1 then 3 when m.status = 3 then 4 when m.leased then 2
            when m.lane = -100 or m.topic in (select topic from {schema}_{queue}_paused) then 5
            when m.ready_at > ?9 then 1 else 0 end as state,
       0 as place_lane, 0 as place_at, 0 as place_seq, walk.walked, walk.last_id, 0 as last_lane,
       0 as last_at, 0 as last_seq
  from (select count(*) as walked, min(id) as last_id from walked) as walk
  left join (
    select q.*, q.lease_until > 0 or (q.status = 0 and s.stream is not null) as leased
      from matched
      join {schema}_{queue} as q on q.seq = matched.seq
      left join {schema}_{queue}_stream as s
             on s.stream = q.stream and q.status = 0 and s.lease_until > 0 and q.seq <= s.run_to
  ) as m
 order by m.id desc;

-- name: {queue}_list_failed
-- returns: as {queue}_list_newest
-- ?8, ?9: failed in this range. ?10: begins behind this id.
with walked as materialized (
  select seq, id, topic, correlation_id, stream, created_at, processed_at
    from {schema}_{queue} indexed by {schema}_{queue}_failed
   where status = 3 and id < ?10 order by id desc limit ?1
),
matched as materialized (
  select seq from walked
   where (?3 is null or topic = ?3) and (?4 is null or correlation_id = ?4)
     and (?5 is null or stream = ?5) and (?6 is null or created_at >= ?6)
     and (?7 is null or created_at < ?7) and (?8 is null or processed_at >= ?8)
     and (?9 is null or processed_at < ?9)
   order by id desc limit ?2
)
select m.id, m.topic, null as payload, m.correlation_id, m.headers, m.created_at, m.due_at,
       m.expires_at, m.priority, m.attempts, m.claim_epoch, m.status, m.processed_at,
       nullif(m.owner_token, zeroblob(16)) as processed_by, m.last_error, m.past_attempts,
       m.unique_key, null as next_attempt_at, m.stream, m.stages, 4 as state, 0 as place_lane,
       0 as place_at, 0 as place_seq, walk.walked, walk.last_id, 0 as last_lane, 0 as last_at,
       0 as last_seq
  from (select count(*) as walked, min(id) as last_id from walked) as walk
  left join (select q.* from matched join {schema}_{queue} as q on q.seq = matched.seq) as m
 order by m.id desc;

-- name: {queue}_list_done
-- returns: as {queue}_list_newest
-- ?8, ?9: done in this range. ?10, ?11: begins behind this time and this row.
with walked as materialized (
  select seq, topic, correlation_id, stream, created_at, processed_at
    from {schema}_{queue} indexed by {schema}_{queue}_done
   where status = 1 and processed_at >= coalesce(?8, -9000000000000000000)
     and processed_at < coalesce(?9, 9000000000000000000) and (processed_at, seq) < (?10, ?11)
   order by processed_at desc, seq desc limit ?1
),
matched as materialized (
  select seq from walked
   where (?3 is null or topic = ?3) and (?4 is null or correlation_id = ?4)
     and (?5 is null or stream = ?5) and (?6 is null or created_at >= ?6)
     and (?7 is null or created_at < ?7)
   order by processed_at desc, seq desc limit ?2
)
select m.id, m.topic, null as payload, m.correlation_id, m.headers, m.created_at, m.due_at,
       m.expires_at, m.priority, m.attempts, m.claim_epoch, 2 as status, m.processed_at,
       nullif(m.owner_token, zeroblob(16)) as processed_by, m.last_error, m.past_attempts,
       m.unique_key, null as next_attempt_at, m.stream, m.stages, 3 as state, 0 as place_lane,
       m.processed_at as place_at, m.seq as place_seq, walk.walked, null as last_id,
       0 as last_lane, last.processed_at as last_at, last.seq as last_seq
  from (select count(*) as walked from walked) as walk
  left join (select processed_at, seq from walked order by processed_at, seq limit 1) as last
  left join (select q.* from matched join {schema}_{queue} as q on q.seq = matched.seq) as m
 order by m.processed_at desc, m.seq desc;

-- name: {queue}_list_waiting
-- returns: as {queue}_list_newest
-- Messages that are not finished, in the order of the queue's index. ?8: the state, or null for all
-- of them. ?9, ?10, ?11: begins behind this lane, time and row. ?12: now.
with walked as materialized (
  select seq, lane, ready_at from {schema}_{queue} indexed by {schema}_{queue}_queue
   where status = 0 and (lane, ready_at, seq) > (?9, ?10, ?11)
   order by lane, ready_at, seq limit ?1
)
select m.id, m.topic, null as payload, m.correlation_id, m.headers, m.created_at, m.due_at,
       m.expires_at, m.priority, m.attempts, m.claim_epoch, m.leased as status,
       null as processed_at, null as processed_by, m.last_error, m.past_attempts, m.unique_key,
       m.ready_at as next_attempt_at, m.stream, m.stages, m.state, m.lane as place_lane,
       m.ready_at as place_at, m.seq as place_seq, walk.walked, null as last_id,
       last.lane as last_lane, last.ready_at as last_at, last.seq as last_seq
  from (select count(*) as walked from walked) as walk
  left join (select lane, ready_at, seq from walked
              order by lane desc, ready_at desc, seq desc limit 1) as last
  left join (
    select * from (
      select f.*,
             case when f.leased then 2
                  when f.lane = -100 or f.topic in (select topic from {schema}_{queue}_paused)
                  then 5 when f.ready_at > ?12 then 1 else 0 end as state
        from (select q.*, q.lease_until > 0 or s.stream is not null as leased
                from walked
                join {schema}_{queue} as q on q.seq = walked.seq
                left join {schema}_{queue}_stream as s
                       on s.stream = q.stream and s.lease_until > 0 and q.seq <= s.run_to
               where (?3 is null or q.topic = ?3) and (?4 is null or q.correlation_id = ?4)
                 and (?5 is null or q.stream = ?5) and (?6 is null or q.created_at >= ?6)
                 and (?7 is null or q.created_at < ?7)) as f)
     where ?8 is null or state = ?8
     order by lane, ready_at, seq limit ?2) as m
 order by m.lane, m.ready_at, m.seq;

-- name: {queue}_topics
-- returns: topic text, ready integer, scheduled integer, in_progress integer, done integer
-- returns: failed integer, paused integer
-- returns: walked integer
-- Counts up to ?1 unfinished, done and failed messages by topic. walked: the largest of the three
-- numbers of messages that were read. ?4: now.
with waiting as materialized (
  select q.seq, q.topic, q.ready_at, q.lane,
         q.lease_until > 0 or exists (select 1 from {schema}_{queue}_stream as s
                                       where s.stream = q.stream and s.lease_until > 0
                                         and q.seq <= s.run_to) as leased
    from {schema}_{queue} as q indexed by {schema}_{queue}_queue
   where q.status = 0 order by q.lane, q.ready_at, q.seq limit ?1
), done as materialized (
  select topic from {schema}_{queue} indexed by {schema}_{queue}_done
   where status = 1 order by processed_at desc limit ?1
), failed as materialized (
  select topic from {schema}_{queue} indexed by {schema}_{queue}_failed
   where status = 3 order by id desc limit ?1
), counted(topic, state, number) as (
  select topic,
         case when leased then 2
              when lane = -100 or topic in (select topic from {schema}_{queue}_paused) then 5
              when ready_at > ?4 then 1 else 0 end, count(*)
    from waiting group by 1, 2
  union all select topic, 3, count(*) from done group by topic
  union all select topic, 4, count(*) from failed group by topic
  union all select topic, 6, 0 from {schema}_{queue}_paused
)
select t.topic, t.ready, t.scheduled, t.in_progress, t.done, t.failed, t.paused, walk.walked
  from (select max((select count(*) from waiting), (select count(*) from done),
                   (select count(*) from failed)) as walked) as walk
  left join (
    select topic, coalesce(sum(number) filter (where state = 0), 0) as ready,
           coalesce(sum(number) filter (where state = 1), 0) as scheduled,
           coalesce(sum(number) filter (where state = 2), 0) as in_progress,
           coalesce(sum(number) filter (where state = 3), 0) as done,
           coalesce(sum(number) filter (where state = 4), 0) as failed,
           coalesce(sum(number) filter (where state = 5), 0) as paused
      from counted where ?2 is null or topic > ?2
     group by topic order by topic limit ?3) as t
 order by t.topic;
