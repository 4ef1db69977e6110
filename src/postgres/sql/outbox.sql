-- Messages of the outbox. What each statement does is decided by the functions of the schema, which any language may
-- call (migrations/): here they are only called; but for what is done so often that a function would be felt.

-- name: outbox_enqueue
select id, stored
  from {schema}.outbox_try_enqueue(
         message_id => $1::uuid, topic => $2::text, payload => $3::text, correlation_id => $4::text,
         due_at => $5::timestamptz, headers => $6::jsonb, expires_at => $7::timestamptz, priority => $8::integer,
         unique_key => $9::text, notify => $10::boolean);

-- name: outbox_enqueue_step_fresh
-- A message whose id was drawn for this call, and that has no unique key: nothing can stand in its way.
insert into {schema}.outbox (id, topic, payload, correlation_id, due_at, ready_at, headers, expires_at, lane, priority)
values ($1::uuid, $2::text, $3::text, $4::text, $5::timestamptz, greatest($5::timestamptz, {schema}.clock()), $6::jsonb,
        $7::timestamptz, $8::integer, $8::integer);

-- name: outbox_enqueue_step_fresh_aloud
-- The same, and workers are told by the commit.
insert into {schema}.outbox (id, topic, payload, correlation_id, due_at, ready_at, headers, expires_at, lane, priority)
values ($1::uuid, $2::text, $3::text, $4::text, $5::timestamptz, greatest($5::timestamptz, {schema}.clock()), $6::jsonb,
        $7::timestamptz, $8::integer, $8::integer)
returning pg_notify('dovetail:{schema}', '');

-- name: outbox_enqueue_many
select place, existing_id
  from {schema}.outbox_enqueue_many(
         ids => $1::uuid[], topics => $2::text[], payloads => $3::text[], correlation_ids => $4::text[],
         due_at => $5::timestamptz[], headers => $6::text[], expires_at => $7::timestamptz[], priorities => $8::bigint[],
         unique_keys => $9::text[], fresh => $10::boolean, notify => $11::boolean);

-- name: outbox_enqueue_many_step_copy
-- For many fresh messages that are no more than this. The times are given, because a default that is computed for each row
-- would keep COPY from writing whole pages.
copy {schema}.outbox (id, topic, payload, ready_at, created_at) from stdin (format binary);

-- name: outbox_claim
select id, topic, payload, correlation_id, headers::text, created_at, due_at, expires_at, priority, attempts, claim_epoch,
       lease_until, ready_at, lost_leases
  from {schema}.outbox_claim(owner_token => $1::uuid, batch_size => $2::integer,
                             lease => $3::bigint * interval '1 microsecond', max_attempts => $4::integer,
                             after => $5::timestamptz[], after_ids => $6::uuid[]);

-- name: outbox_ack
select {schema}.outbox_ack(owner_token => $1::uuid, ids => $2::uuid[], epochs => $3::bigint[], keep => $4::boolean);

-- name: outbox_ack_step_lock
-- Before claims are settled in more than one way: all of them, in the order of their ids, and then what their ends touch.
select cardinality({schema}.outbox_lock_claims(owner_token => $1::uuid, ids => $2::uuid[], epochs => $3::bigint[])),
       cardinality({schema}.outbox_lock_ends(ids => $2::uuid[], wait => true));

-- name: outbox_abandon
select {schema}.outbox_abandon(owner_token => $1::uuid, ids => $2::uuid[], epochs => $3::bigint[], error => $4::text,
                               delay => $5::bigint * interval '1 microsecond', max_attempts => $6::integer);

-- name: outbox_fail
select {schema}.outbox_fail(owner_token => $1::uuid, ids => $2::uuid[], epochs => $3::bigint[], error => $4::text,
                            charge => $5::integer);

-- name: outbox_snooze
select {schema}.outbox_snooze(owner_token => $1::uuid, ids => $2::uuid[], epochs => $3::bigint[],
                              delay => $4::bigint * interval '1 microsecond');

-- name: outbox_renew
select {schema}.outbox_renew(owner_token => $1::uuid, ids => $2::uuid[], epochs => $3::bigint[],
                             lease => $4::bigint * interval '1 microsecond');

-- name: outbox_reap_expired
select {schema}.outbox_reap_expired(max_attempts => $1::integer, most => $2::integer, look_at => $3::integer);

-- name: outbox_next_due
-- As a distance from the database's now: what waits for it has a clock of its own.
select (extract(epoch from {schema}.outbox_next_due() - {schema}.clock()) * 1000000)::bigint;

-- name: outbox_clock
select {schema}.clock();

-- name: outbox_counts
-- Never counts further than $1: neither the queue nor the archive makes it slow.
with clock as materialized (select {schema}.clock() as now),
due as materialized (
  select each.leased
    from clock, generate_series(-5, 5) as lanes(lane)
   cross join lateral (select o.lease_until is not null as leased from {schema}.outbox o
                        where o.lane = lanes.lane and o.ready_at <= now limit $1::bigint) each
   limit $1::bigint
)
select (select count(*) from due where not leased),
       (select count(*) from (
          select from clock, generate_series(-5, 5) as lanes(lane)
           cross join lateral (select from {schema}.outbox o
                                where o.lane = lanes.lane and o.ready_at > now limit $1::bigint) each
           limit $1::bigint) scheduled),
       (select count(*) from due where leased),
       (select count(*) from (select from {schema}.outbox_archive where status = 2 limit $1::bigint) done),
       (select count(*) from (select from {schema}.outbox_archive where status = 3 limit $1::bigint) failed),
       (select count(*) from (select from {schema}.outbox where lane = -100 limit $1::bigint) paused),
       (select (extract(epoch from now - min(oldest.ready_at)) * 1000000)::bigint
          from clock, generate_series(-5, 5) as lanes(lane)
         cross join lateral (select o.ready_at from {schema}.outbox o
                              where o.lane = lanes.lane and o.lease_until is null
                              order by o.ready_at limit 1) oldest
         where oldest.ready_at <= now
         group by now);

-- name: outbox_find
select id, topic, payload, correlation_id, headers::text, created_at, due_time_utc, expires_at, priority, retry_count,
       claim_epoch, status, processed_at, processed_by, last_error, past_attempts, unique_key, next_attempt_at
  from {schema}.outbox_messages where id = $1::uuid;

-- name: outbox_dead_letters
select id, topic, null::text, correlation_id, headers::text, created_at, due_at, expires_at, priority, attempts, claim_epoch,
       status, processed_at, processed_by, last_error, past_attempts, unique_key, null::timestamptz
  from {schema}.outbox_archive
 where status = 3 and ($1::text is null or topic = $1) and ($2::timestamptz is null or processed_at >= $2)
   and ($3::timestamptz is null or processed_at < $3) and ($4::uuid is null or id > $4)
 order by id limit $5::bigint;

-- name: outbox_replay
select {schema}.outbox_replay(ids => $1::uuid[], only_topic => $2::text, failed_after => $3::timestamptz,
                              failed_before => $4::timestamptz, most => $5::integer);

-- name: outbox_purge_failed
select {schema}.outbox_purge(with_status => 3, ids => $1::uuid[], only_topic => $2::text,
                             finished_after => $3::timestamptz, finished_before => $4::timestamptz, most => $5::integer);

-- name: outbox_purge_done
select {schema}.outbox_purge(with_status => 2, finished_before => {schema}.clock() - $1::bigint * interval '1 microsecond',
                             most => $2::integer);

-- name: outbox_pause
select {schema}.outbox_pause(topic => $1::text);

-- name: outbox_resume
select {schema}.outbox_resume(topic => $1::text);

-- name: outbox_unpark
select {schema}.outbox_unpark(topic => $1::text, most => $2::integer);

-- name: outbox_paused
select topic, paused_at from {schema}.outbox_paused order by topic;
