-- queues: outbox inbox timers
-- Messages of a queue, for each of the queues above. The functions of the schema (migrations/)
-- contain the rules, and any language may call them. These statements call them, except for inserts
-- that run so often that a function call would slow them down.

-- name: {queue}_enqueue
-- returns here: id uuid, stored boolean
select id, stored
  from {schema}.{queue}_try_enqueue(
         message_id => $1::uuid, topic => $2::text, payload => $3::text, correlation_id => $4::text,
         due_at => $5::timestamptz, headers => $6::jsonb, expires_at => $7::timestamptz,
         priority => $8::integer, unique_key => $9::text, notify => $10::boolean,
         delay => $11::bigint * interval '1 microsecond', stream => $12::text);

-- name: {queue}_enqueue_step_fresh
-- A message whose id was generated for this call, without a unique key: no conflict is possible.
insert into {schema}.{queue} (id, topic, payload, correlation_id, due_at, ready_at, headers,
                              expires_at, lane, priority)
values ($1::uuid, $2::text, $3::text, $4::text, $5::timestamptz,
        greatest($5::timestamptz, {schema}.clock()), $6::jsonb, $7::timestamptz, $8::integer,
        $8::integer);

-- name: {queue}_enqueue_step_fresh_aloud
-- The same, and the commit sends a NOTIFY.
insert into {schema}.{queue} (id, topic, payload, correlation_id, due_at, ready_at, headers,
                              expires_at, lane, priority)
values ($1::uuid, $2::text, $3::text, $4::text, $5::timestamptz,
        greatest($5::timestamptz, {schema}.clock()), $6::jsonb, $7::timestamptz, $8::integer,
        $8::integer)
returning {schema}._wake('{queue}');

-- name: {queue}_enqueue_many
-- returns here: place integer, existing_id uuid
select place, existing_id
  from {schema}.{queue}_enqueue_many(
         ids => $1::uuid[], topics => $2::text[], payloads => $3::text[],
         correlation_ids => $4::text[], due_at => $5::timestamptz[], headers => $6::text[],
         expires_at => $7::timestamptz[], priorities => $8::bigint[], unique_keys => $9::text[],
         fresh => $10::boolean, notify => $11::boolean, delays => $12::bigint[],
         streams => $13::text[]);

-- name: {queue}_enqueue_many_step_fresh
-- Fresh messages with these columns only, of callers that share a transaction. It is faster than
-- the function.
insert into {schema}.{queue} (id, topic, payload, ready_at, created_at)
select unnest($1::uuid[]), unnest($2::text[]), unnest($3::text[]), c.now, c.now
  from (select {schema}.clock() as now offset 0) as c;

-- name: {queue}_enqueue_many_step_copy
-- For many fresh messages with these columns only. The times are given, because COPY does not write
-- whole pages if a default is computed for each row.
copy {schema}.{queue} (id, topic, payload, ready_at, created_at) from stdin (format binary);

-- name: {queue}_claim
-- returns: id uuid, topic text, payload text, correlation_id text, headers text, created_at time
-- returns: due_at time
-- returns: expires_at time, priority integer, attempts integer, claim_epoch integer
-- returns: lease_until time
-- returns: ready_at time, lost_leases integer, row_at integer, cut boolean, stages integer
select id, topic, payload, correlation_id, headers::text, created_at, due_at, expires_at, priority,
       attempts, claim_epoch, lease_until, ready_at, lost_leases, row_at, cut, stages
  from {schema}.{queue}_claim(owner_token => $1::uuid, batch_size => $2::integer,
                             lease => $3::bigint * interval '1 microsecond',
                             max_attempts => $4::integer, after => $5::timestamptz[],
                             after_ids => $6::uuid[], topics => $7::text[],
                             except_topics => $8::text[], max_bytes => $9::bigint);

-- name: {queue}_claim_step_open_run
-- Leases many messages with one row. The next two statements read the messages. They follow in a
-- transaction of their own.
select {schema}._{queue}_open_run(
         owner_token => $1::uuid, run => $2::bigint, batch_size => $3::integer,
         lease => $4::bigint * interval '1 microsecond', after => $5::timestamptz[],
         after_ids => $6::uuid[], topics => $7::text[], except_topics => $8::text[],
         max_bytes => $9::bigint, at_least => $10::integer,
         min_age => $11::bigint * interval '1 microsecond');

-- name: {queue}_claim_step_run_settings
-- The plan is made once, often while the table is still small. It must use the index.
select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('enable_sort', 'off', true), set_config('jit', 'off', true),
       set_config('plan_cache_mode', 'force_generic_plan', true);

-- name: {queue}_claim_step_run
-- returns: as {queue}_claim
-- A function would need a microsecond more for each message.
with run as materialized (
  select * from {schema}.{queue}_run where owner_token = $1::uuid and run = $2::bigint)
select o.id, o.topic::text, o.payload, o.correlation_id::text, o.headers::text, o.created_at,
       o.due_at::timestamptz, o.expires_at::timestamptz, o.priority::smallint, o.attempts,
       1::bigint as claim_epoch, (select lease_until from run) as lease_until,
       o.ready_at, o.lost_leases, o.ctid as row_at, false as cut, o.stages
  from {schema}.{queue} o
 where o.lane = (select lane from run)
   and (o.ready_at, o.id) > ((select from_at from run), (select from_id from run))
   and (o.ready_at, o.id) <= ((select to_at from run), (select to_id from run))
   and o.claim_epoch = 0 and o.lease_until is null
   and (o.expires_at is null or o.expires_at > (select {schema}.clock()))
   and o.topic <> all (array(select topic from {schema}.{queue}_paused))
   and ($4::text[] is null or o.topic = any ($4::text[]))
   and ($5::text[] is null or o.topic <> all ($5::text[]))
 order by o.ready_at, o.id limit $3::integer;

-- name: {queue}_claim_streams
-- returns: id uuid, topic text, payload text, correlation_id text, headers text, created_at time
-- returns: due_at time
-- returns: expires_at time, priority integer, attempts integer, claim_epoch integer
-- returns: lease_until time
-- returns: ready_at time, lost_leases integer, cut boolean, stream text, seq integer
-- returns: stages integer
-- The worker applies the limit of attempts of each handler itself.
select id, topic, payload, correlation_id, headers::text, created_at, due_at, expires_at, priority,
       attempts, claim_epoch, lease_until, ready_at, lost_leases, cut, stream, seq, stages
  from {schema}.{queue}_claim_streams(
         owner_token => $1::uuid, batch_size => $2::integer,
         lease => $3::bigint * interval '1 microsecond', max_attempts => $4::integer,
         after => $5::timestamptz[], after_ids => $6::uuid[], topics => $7::text[],
         except_topics => $8::text[], max_bytes => $9::bigint);

-- name: {queue}_ack
select {schema}.{queue}_ack(owner_token => $1::uuid, ids => $2::uuid[], epochs => $3::bigint[],
                            keep => $4::boolean, rows => $5::tid[]);

-- name: {queue}_ack_step_patient
-- The same, with a time limit for locks, which applies until the transaction ends.
select {schema}.{queue}_ack(owner_token => $1::uuid, ids => $2::uuid[], epochs => $3::bigint[],
                            keep => $4::boolean, rows => $5::tid[])
  from set_config('lock_timeout', $6::text, true);

-- name: {queue}_ack_step_streams
-- Claims that belong to streams.
select {schema}._{queue}_ack_streams(owner_token => $1::uuid, ids => $2::uuid[],
                                     epochs => $3::bigint[], keep => $4::boolean);

-- name: {queue}_ack_step_run
-- Claims that belong to the run $2.
select {schema}._{queue}_ack_run(owner_token => $1::uuid, run => $2::bigint, ids => $3::uuid[],
                                 rows => $4::tid[], keep => $5::boolean);

-- name: {queue}_ack_step_spread_run
-- Gives claims of a run leases of their own.
select {schema}._{queue}_spread_run(owner_token => $1::uuid, run => $2::bigint,
                                    ids => $3::uuid[], wait => $4::boolean);

-- name: {queue}_ack_step_close_runs
select {schema}._{queue}_close_runs(owner_token => $1::uuid, runs => $2::bigint[]);

-- name: {queue}_ack_step_lock
-- Runs before claims are settled in several ways. Locks all their messages in the order of the ids,
-- and then the rows that their ends change.
select cardinality({schema}._{queue}_lock_claims(owner_token => $1::uuid, ids => $2::uuid[],
                                                 epochs => $3::bigint[])),
       cardinality({schema}._{queue}_lock_stream_claims(owner_token => $1::uuid,
                                                        ids => $2::uuid[], epochs => $3::bigint[])),
       cardinality({schema}._{queue}_lock_ends(ids => $2::uuid[], wait => true)),
       {schema}._{queue}_lock_streams_of(ids => $2::uuid[]);

-- name: {queue}_ack_step_lock_timeout
-- The time limit for locks of this transaction.
select set_config('lock_timeout', $1::text, true);

-- name: {queue}_ack_step_settleable
select unnest({schema}._{queue}_settleable(owner_token => $1::uuid, ids => $2::uuid[],
                                           epochs => $3::bigint[]));

-- name: {queue}_absolve
select {schema}._{queue}_absolve(ids => $1::uuid[]);

-- name: {queue}_uncharge
select {schema}._{queue}_uncharge(ids => $1::uuid[]);

-- name: {queue}_abandon
select {schema}.{queue}_abandon(owner_token => $1::uuid, ids => $2::uuid[], epochs => $3::bigint[],
                                error => $4::text, delay => $5::bigint * interval '1 microsecond',
                                max_attempts => $6::integer, on_stream_failure => $7::text);

-- name: {queue}_fail
select {schema}.{queue}_fail(owner_token => $1::uuid, ids => $2::uuid[], epochs => $3::bigint[],
                             error => $4::text, charge => $5::integer,
                             on_stream_failure => $6::text);

-- name: {queue}_snooze
select {schema}.{queue}_snooze(owner_token => $1::uuid, ids => $2::uuid[], epochs => $3::bigint[],
                              delay => $4::bigint * interval '1 microsecond');

-- name: {queue}_renew
select {schema}.{queue}_renew(owner_token => $1::uuid, ids => $2::uuid[], epochs => $3::bigint[],
                             lease => $4::bigint * interval '1 microsecond');

-- name: {queue}_set_stages
-- Returns how many of the claims are still held.
select {schema}._{queue}_set_stages(owner_token => $1::uuid, ids => $2::uuid[],
                                    epochs => $3::bigint[], stages => $4::bigint[]::integer[]);

-- name: {queue}_reap_expired
select {schema}.{queue}_reap_expired(max_attempts => $1::integer, most => $2::integer,
                                     look_at => $3::integer);

-- name: {queue}_next_due
-- returns here: due_in integer, passed_to time, has_streams boolean
-- due_in is the time from now, because the worker has a clock of its own. passed_to: the next claim
-- may begin there. Transactions that commit later than three seconds after their enqueue are found
-- by the next claim from the start of the queue. It is null while a topic is paused: the claim may
-- have parked messages only. has_streams: a stream is leased, or may be claimed.
select (extract(epoch from {schema}.{queue}_next_due(topics => $1::text[],
                                                     except_topics => $2::text[],
                                                     streams => $3::boolean)
                             - {schema}.clock()) * 1000000)::bigint as due_in,
       case when not exists (select from {schema}.{queue}_paused)
            then {schema}.clock() - interval '3 seconds' end as passed_to,
       {schema}._{queue}_has_streams() as has_streams;

-- name: {queue}_clock
select {schema}.clock();

-- name: {queue}_counts
-- returns: ready integer, scheduled integer, in_progress integer, done integer, failed integer
-- returns: paused integer
-- returns: oldest_due integer
select ready, scheduled, in_progress, done, failed, paused,
       (extract(epoch from oldest_due) * 1000000)::bigint as oldest_due
  from {schema}.{queue}_counts($1::bigint);

-- name: {queue}_due_topics
-- returns: topic text, seen integer, oldest_wait integer
select topic, seen, (extract(epoch from oldest_wait) * 1000000)::bigint as oldest_wait
  from {schema}._{queue}_due_topics(waiting => $1::bigint * interval '1 microsecond',
                                    look_at => $2::integer);

-- name: {queue}_has_work
select exists (
  select from generate_series(5, -5, -1) as lanes(lane)
   cross join lateral (select from {schema}.{queue} o
                        where o.lane = lanes.lane and o.ready_at <= (select {schema}.clock())
                          and o.topic = any ($1::text[])
                        limit 1) found);

-- name: {queue}_find
-- returns: id uuid, topic text, payload text, correlation_id text, headers text, created_at time
-- returns: due_at time
-- returns: expires_at time, priority integer, attempts integer, claim_epoch integer, status integer
-- returns: processed_at time, processed_by uuid, last_error text, past_attempts integer
-- returns: unique_key text
-- returns: next_attempt_at time, stream text, stages integer, failures text
-- failures: a JSON array. Only this statement reads them.
select id, topic, payload, correlation_id, headers::text, created_at, due_time_utc as due_at,
       expires_at, priority, retry_count as attempts, claim_epoch, status, processed_at,
       processed_by, last_error, past_attempts, unique_key, next_attempt_at, stream, stages,
       failures::text
  from {schema}.{queue}_messages where id = $1::uuid;

-- name: {queue}_dead_letters
-- returns: as {queue}_find
select id, topic, null::text as payload, correlation_id, headers::text, created_at, due_at,
       expires_at, priority, attempts, claim_epoch, status, processed_at, processed_by, last_error,
       past_attempts, unique_key, null::timestamptz as next_attempt_at, stream, stages,
       null::text as failures
  from {schema}.{queue}_archive
 where status = 3 and ($1::text is null or topic = $1)
   and ($2::timestamptz is null or processed_at >= $2)
   and ($3::timestamptz is null or processed_at < $3) and ($4::uuid is null or id > $4)
 order by id limit $5::bigint;

-- name: {queue}_dead_letters_newest
-- returns: as {queue}_find
select id, topic, null::text as payload, correlation_id, headers::text, created_at, due_at,
       expires_at, priority, attempts, claim_epoch, status, processed_at, processed_by, last_error,
       past_attempts, unique_key, null::timestamptz as next_attempt_at, stream, stages,
       null::text as failures
  from {schema}.{queue}_archive
 where status = 3 and ($1::text is null or topic = $1)
   and ($2::timestamptz is null or processed_at >= $2)
   and ($3::timestamptz is null or processed_at < $3) and ($4::uuid is null or id < $4)
 order by id desc limit $5::bigint;

-- name: {queue}_dead_letter_summary
-- returns: topic text, last_error text, letters integer, first_failed_at time, last_failed_at time
-- The last row has no topic: it counts the dead letters that were read. The filter comes after that
-- limit, so that a topic without dead letters does not read all those of the others.
with newest as materialized (
  select topic, last_error, processed_at from {schema}.{queue}_archive where status = 3
    order by id desc limit $4::bigint
)
(select topic, last_error, count(*) as letters, min(processed_at) as first_failed_at,
        max(processed_at) as last_failed_at
   from newest
  where ($1::text is null or topic = $1) and ($2::timestamptz is null or processed_at >= $2)
    and ($3::timestamptz is null or processed_at < $3)
  group by topic, last_error order by count(*) desc, topic, last_error limit $5::bigint)
union all
select null, null, count(*), null, null from newest;

-- name: {queue}_replay
select {schema}.{queue}_replay(ids => $1::uuid[], only_topic => $2::text,
                               failed_after => $3::timestamptz, failed_before => $4::timestamptz,
                               most => $5::integer);

-- name: {queue}_purge_failed
select {schema}.{queue}_purge(with_status => 3, ids => $1::uuid[], only_topic => $2::text,
                             finished_after => $3::timestamptz, finished_before => $4::timestamptz,
                             most => $5::integer);

-- name: {queue}_purge_done
select {schema}.{queue}_purge(
         with_status => 2,
         finished_before => {schema}.clock() - $1::bigint * interval '1 microsecond',
         most => $2::integer);

-- name: {queue}_pause
select {schema}.{queue}_pause(topic => $1::text);

-- name: {queue}_resume
select {schema}.{queue}_resume(topic => $1::text);

-- name: {queue}_unpark
select {schema}.{queue}_unpark(topic => $1::text, most => $2::integer);

-- name: {queue}_paused
-- returns: topic text, paused_at time
select topic, paused_at from {schema}.{queue}_paused order by topic;

-- name: {queue}_streams
-- returns: stream text, state integer, messages integer, head_id uuid, head_topic text
-- returns: head_attempts integer
-- returns: next_attempt_at time, last_error text, blocked_at time, owner_token uuid
-- returns: lease_until time
select stream, case state when 'ready' then 0 when 'leased' then 1 else 2 end as state, messages,
       head_id, head_topic, coalesce(head_attempts, 0) as head_attempts, next_attempt_at,
       last_error, blocked_at, owner_token, lease_until
  from {schema}.{queue}_streams
 where ($1::text is null or stream > $1 collate "C") and (not $2::boolean or state = 'blocked')
 order by stream collate "C" limit $3::bigint;

-- name: {queue}_stream_find
-- returns: as {queue}_streams
select $1::text as stream,
       case when s.blocked_at is not null then 2
            when s.owner_token is not null then 1 else 0 end as state,
       (select count(*) from (select from {schema}.{queue} o
                               where o.stream = $1::text limit 1000) found) as messages,
                               f.id as head_id, f.topic as head_topic, f.attempts as head_attempts,
                               f.ready_at as next_attempt_at, f.last_error, s.blocked_at,
                               s.owner_token, s.lease_until
  from (select o.id, o.topic, o.attempts, o.ready_at, o.last_error from {schema}.{queue} o
         where o.stream = $1::text order by o.seq limit 1) f
  left join {schema}.{queue}_stream s on s.stream = $1::text;

-- name: {queue}_stream_resume
select {schema}.{queue}_stream_resume(stream => $1::text);

-- name: {queue}_stream_skip
select {schema}.{queue}_stream_skip(stream => $1::text);
