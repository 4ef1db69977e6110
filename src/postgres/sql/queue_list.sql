-- queues: outbox inbox timers
-- Lists of messages and topics. Each statement walks through up to $1 messages of an index, and
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
with walked as materialized (
  select * from (
    (select q.id, q.topic::text as topic, q.correlation_id::text as correlation_id, q.headers,
            q.created_at, q.due_at::timestamptz as due_at, q.expires_at::timestamptz as expires_at,
            q.priority::smallint as priority, q.attempts, q.claim_epoch, null::smallint as ended,
            null::timestamptz as processed_at, null::uuid as processed_by, q.last_error,
            q.past_attempts, q.unique_key::text as unique_key, q.ready_at,
            q.stream::text as stream, q.stages, q.lane, q.seq, q.lease_until
       from {schema}.{queue} q
      where q.id < coalesce($8::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
      order by q.id desc limit $1::bigint)
    union all
    (select a.id, a.topic, a.correlation_id, a.headers, a.created_at, a.due_at, a.expires_at,
            a.priority, a.attempts, a.claim_epoch, a.status, a.processed_at, a.processed_by,
            a.last_error, a.past_attempts, a.unique_key, null, a.stream, a.stages, null, null, null
       from {schema}.{queue}_archive a
      where a.id < coalesce($8::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
      order by a.id desc limit $1::bigint)) both_tables
  order by id desc limit $1::bigint
)
select m.id, m.topic, null::text as payload, m.correlation_id, m.headers::text, m.created_at,
       m.due_at, m.expires_at, m.priority, m.attempts, m.claim_epoch,
       coalesce(m.ended, (m.leased::integer)::smallint) as status, m.processed_at, m.processed_by,
       m.last_error, m.past_attempts, m.unique_key, m.ready_at as next_attempt_at, m.stream,
       m.stages,
       case when m.ended = 2 then 3 when m.ended = 3 then 4 when m.leased then 2
            when m.lane = -100 or m.topic in (select p.topic from {schema}.{queue}_paused p) then 5
            when m.ready_at > {schema}.clock() then 1 else 0 end as state,
       0 as place_lane, 0 as place_at, 0 as place_seq, walk.walked, walk.last_id, 0 as last_lane,
       0 as last_at, 0 as last_seq
  from (select (select count(*) from walked) as walked,
               (select w.id from walked w order by w.id limit 1) as last_id) walk
  left join (
    select f.*, coalesce(f.lease_until, s.lease_until, r.lease_until) is not null as leased
      from (select * from walked w
             where ($3::text is null or w.topic = $3)
               and ($4::text is null or w.correlation_id = $4)
               and ($5::text is null or w.stream = $5)
               and ($6::timestamptz is null or w.created_at >= $6)
               and ($7::timestamptz is null or w.created_at < $7)
             order by w.id desc limit $2::bigint) f
      left join {schema}.{queue}_stream s
             on f.ended is null and s.stream = f.stream and s.owner_token is not null
                and f.seq <= s.run_to
      left join lateral (select u.lease_until from {schema}.{queue}_run u
                          where f.ended is null and u.lane = f.lane and f.claim_epoch = 0
                            and f.lease_until is null
                            and (f.ready_at, f.id) > (u.from_at, u.from_id)
                            and (f.ready_at, f.id) <= (u.to_at, u.to_id)
                          limit 1) r on true) m on true
 order by m.id desc;

-- name: {queue}_list_failed
-- returns: as {queue}_list_newest
with walked as materialized (
  select * from {schema}.{queue}_archive a
   where a.status = 3 and a.id < coalesce($10::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
   order by a.id desc limit $1::bigint
)
select m.id, m.topic, null::text as payload, m.correlation_id, m.headers::text, m.created_at,
       m.due_at, m.expires_at, m.priority, m.attempts, m.claim_epoch, m.status, m.processed_at,
       m.processed_by, m.last_error, m.past_attempts, m.unique_key,
       null::timestamptz as next_attempt_at, m.stream, m.stages, 4 as state, 0 as place_lane,
       0 as place_at, 0 as place_seq, walk.walked, walk.last_id, 0 as last_lane, 0 as last_at,
       0 as last_seq
  from (select (select count(*) from walked) as walked,
               (select w.id from walked w order by w.id limit 1) as last_id) walk
  left join (
    select * from walked w
     where ($3::text is null or w.topic = $3) and ($4::text is null or w.correlation_id = $4)
       and ($5::text is null or w.stream = $5)
       and ($6::timestamptz is null or w.created_at >= $6)
       and ($7::timestamptz is null or w.created_at < $7)
       and ($8::timestamptz is null or w.processed_at >= $8)
       and ($9::timestamptz is null or w.processed_at < $9)
     order by w.id desc limit $2::bigint) m on true
 order by m.id desc;

-- name: {queue}_list_done
-- returns: as {queue}_list_newest
with walked as materialized (
  select * from {schema}.{queue}_archive a
   where a.status = 2 and a.processed_at >= coalesce($8::timestamptz, '-infinity')
     and a.processed_at < coalesce($9::timestamptz, 'infinity')
     and a.processed_at <= coalesce($10::timestamptz, 'infinity')
     and (a.processed_at, a.id) < (coalesce($10::timestamptz, 'infinity'),
                                   coalesce($11::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
   order by a.processed_at desc, a.id desc limit $1::bigint
)
select m.id, m.topic, null::text as payload, m.correlation_id, m.headers::text, m.created_at,
       m.due_at, m.expires_at, m.priority, m.attempts, m.claim_epoch, m.status, m.processed_at,
       m.processed_by, m.last_error, m.past_attempts, m.unique_key,
       null::timestamptz as next_attempt_at, m.stream, m.stages, 3 as state, 0 as place_lane,
       (extract(epoch from m.processed_at) * 1000000)::bigint as place_at, 0 as place_seq,
       walk.walked, last.id as last_id, 0 as last_lane,
       (extract(epoch from last.processed_at) * 1000000)::bigint as last_at, 0 as last_seq
  from (select count(*) as walked from walked) walk
  left join (select w.id, w.processed_at from walked w order by w.processed_at, w.id limit 1) last
         on true
  left join (
    select * from walked w
     where ($3::text is null or w.topic = $3) and ($4::text is null or w.correlation_id = $4)
       and ($5::text is null or w.stream = $5)
       and ($6::timestamptz is null or w.created_at >= $6)
       and ($7::timestamptz is null or w.created_at < $7)
     order by w.processed_at desc, w.id desc limit $2::bigint) m on true
 order by m.processed_at desc, m.id desc;

-- name: {queue}_list_waiting
-- returns: as {queue}_list_newest
-- Messages that are not finished, by ascending ids. $8: the state, or null for all of them.
with walked as materialized (
  select q.id, q.topic::text as topic, q.correlation_id::text as correlation_id, q.headers,
         q.created_at, q.due_at, q.expires_at, q.priority, q.attempts, q.claim_epoch, q.last_error,
         q.past_attempts, q.unique_key, q.ready_at, q.stream::text as stream, q.stages, q.lane,
         q.seq, q.lease_until
    from {schema}.{queue} q
   where q.id > coalesce($9::uuid, '00000000-0000-0000-0000-000000000000')
   order by q.id limit $1::bigint
)
select m.id, m.topic, null::text as payload, m.correlation_id, m.headers::text, m.created_at,
       m.due_at, m.expires_at, m.priority, m.attempts, m.claim_epoch,
       (m.leased::integer)::smallint as status, null::timestamptz as processed_at,
       null::uuid as processed_by, m.last_error, m.past_attempts, m.unique_key,
       m.ready_at as next_attempt_at, m.stream, m.stages, m.state, 0 as place_lane, 0 as place_at,
       0 as place_seq, walk.walked, walk.last_id, 0 as last_lane, 0 as last_at, 0 as last_seq
  from (select (select count(*) from walked) as walked,
               (select w.id from walked w order by w.id desc limit 1) as last_id) walk
  left join (
    select * from (
      select f.*, f.leased_now as leased,
             case when f.leased_now then 2
                  when f.lane = -100 or f.topic in (select p.topic from {schema}.{queue}_paused p)
                  then 5
                  when f.ready_at > {schema}.clock() then 1 else 0 end as state
        from (select w.*,
                     coalesce(w.lease_until, s.lease_until, r.lease_until) is not null as leased_now
                from walked w
                left join {schema}.{queue}_stream s
                       on s.stream = w.stream and s.owner_token is not null and w.seq <= s.run_to
                left join lateral (select u.lease_until from {schema}.{queue}_run u
                                    where u.lane = w.lane and w.claim_epoch = 0
                                      and w.lease_until is null
                                      and (w.ready_at, w.id) > (u.from_at, u.from_id)
                                      and (w.ready_at, w.id) <= (u.to_at, u.to_id)
                                    limit 1) r on true
               where ($3::text is null or w.topic = $3)
                 and ($4::text is null or w.correlation_id = $4)
                 and ($5::text is null or w.stream = $5)
                 and ($6::timestamptz is null or w.created_at >= $6)
                 and ($7::timestamptz is null or w.created_at < $7)) f) g
     where $8::bigint is null or g.state = $8
     order by g.id limit $2::bigint) m on true
 order by m.id;

-- name: {queue}_topics
-- returns: topic text, ready integer, scheduled integer, in_progress integer, done integer
-- returns: failed integer, paused integer
-- returns: walked integer
-- Counts up to $1 unfinished, done and failed messages by topic. walked: the largest of the three
-- numbers of messages that were read.
with waiting as materialized (
  select q.id, q.topic::text as topic, q.ready_at, q.lane, q.lease_until, q.claim_epoch, q.seq,
         q.stream::text as stream
    from {schema}.{queue} q order by q.id limit $1::bigint
), done as materialized (
  select a.topic from {schema}.{queue}_archive a where a.status = 2
   order by a.processed_at desc limit $1::bigint
), failed as materialized (
  select a.topic from {schema}.{queue}_archive a where a.status = 3
   order by a.id desc limit $1::bigint
), counted(topic, state, number) as (
  select f.topic,
         case when f.leased then 2
              when f.lane = -100 or f.topic in (select p.topic from {schema}.{queue}_paused p)
              then 5
              when f.ready_at > {schema}.clock() then 1 else 0 end, count(*)
    from (select w.*, coalesce(w.lease_until, s.lease_until, r.lease_until) is not null as leased
            from waiting w
            left join {schema}.{queue}_stream s
                   on s.stream = w.stream and s.owner_token is not null and w.seq <= s.run_to
            left join lateral (select u.lease_until from {schema}.{queue}_run u
                                where u.lane = w.lane and w.claim_epoch = 0
                                  and w.lease_until is null
                                  and (w.ready_at, w.id) > (u.from_at, u.from_id)
                                  and (w.ready_at, w.id) <= (u.to_at, u.to_id)
                                limit 1) r on true) f
   group by 1, 2
  union all select topic, 3, count(*) from done group by topic
  union all select topic, 4, count(*) from failed group by topic
  union all select topic, 6, 0 from {schema}.{queue}_paused
)
select t.topic, t.ready, t.scheduled, t.in_progress, t.done, t.failed, t.paused, walk.walked
  from (select greatest((select count(*) from waiting), (select count(*) from done),
                        (select count(*) from failed)) as walked) walk
  left join (
    select c.topic, coalesce(sum(number) filter (where state = 0), 0)::bigint as ready,
           coalesce(sum(number) filter (where state = 1), 0)::bigint as scheduled,
           coalesce(sum(number) filter (where state = 2), 0)::bigint as in_progress,
           coalesce(sum(number) filter (where state = 3), 0)::bigint as done,
           coalesce(sum(number) filter (where state = 4), 0)::bigint as failed,
           coalesce(sum(number) filter (where state = 5), 0)::bigint as paused
      from counted c
     where $2::text is null or c.topic > $2 collate "C"
     group by c.topic order by c.topic collate "C" limit $3::bigint) t on true
 order by t.topic collate "C";
