-- Subscriptions. The functions of the schema (migrations/) contain the rules. These statements call
-- them.

-- name: subscription_create
select {schema}.event_subscription_create(name => $1::text, parts => $2::integer,
                                          types => $3::text[], prefixes => $4::text[],
                                          start => $5::bigint, on_failure => $6::text);

-- name: subscription_acquire
-- returns: epoch integer, position integer, parts integer, drain_to integer, attempts integer
-- returns: retry_in integer, changes integer
-- retry_in is in microseconds.
select epoch, "position", parts, drain_to, attempts,
       (extract(epoch from retry_in) * 1000000)::bigint as retry_in, changes
  from {schema}.event_subscription_acquire(name => $1::text, part => $2::integer,
                                           owner => $3::uuid,
                                           lease => $4::bigint * interval '1 microsecond');

-- name: subscription_renew
select {schema}.event_subscription_renew(name => $1::text, part => $2::integer,
                                         epoch => $3::bigint,
                                         lease => $4::bigint * interval '1 microsecond');

-- name: subscription_release
select {schema}.event_subscription_release(name => $1::text, part => $2::integer,
                                           epoch => $3::bigint);

-- name: subscription_advance
select {schema}.event_subscription_advance(name => $1::text, part => $2::integer,
                                           epoch => $3::bigint, from_position => $4::bigint,
                                           to_position => $5::bigint, durable => $6::boolean);

-- name: subscription_fail
-- Null: the part is not held any more.
select {schema}.event_subscription_fail(name => $1::text, part => $2::integer, epoch => $3::bigint,
                                        error => $4::text,
                                        retry_in => $5::bigint * interval '1 microsecond',
                                        stop => $6::boolean);

-- name: subscription_park
select {schema}.event_subscription_park(name => $1::text, part => $2::integer, epoch => $3::bigint,
                                        from_position => $4::bigint, to_position => $5::bigint,
                                        kind => $6::text, error => $7::text);

-- name: subscription_move_parked
select {schema}._event_parked_move(name => $1::text, part => $2::integer, epoch => $3::bigint,
                                   at_position => $4::bigint, version => $5::bigint);

-- name: subscription_fail_parked
select {schema}._event_parked_fail(name => $1::text, part => $2::integer, epoch => $3::bigint,
                                   at_position => $4::bigint, failed_position => $5::bigint,
                                   error => $6::text);

-- name: subscription_parked
-- returns: position integer, stream text, version integer, kind text, attempts integer, error text
-- returns: parked_at time, resumed_at time
select k.position, k.stream, k.version, k.kind, k.attempts, k.error, k.parked_at, k.resumed_at
  from {schema}.event_parked k
 where k.name = $1::text and k.stream_no % $2::integer = $3::integer
 order by k.position;

-- name: subscription_list
-- returns: name text, parts integer, next_parts integer, types text, prefixes text
-- returns: on_failure text, created_at time, paused_at time, position integer, head integer
-- returns: lag integer, lag_time integer, stopped_at time, attempts integer, last_error text
-- returns: held_parts integer, parked integer
-- One subscription ($1), or all. types and prefixes are JSON arrays. lag_time is in microseconds.
select name, parts, next_parts, to_jsonb(types)::text as types,
       to_jsonb(prefixes)::text as prefixes, on_failure, created_at, paused_at, "position", head,
       lag,
       (extract(epoch from {schema}.clock() - waits_since) * 1000000)::bigint as lag_time,
       stopped_at, attempts, last_error, held_parts, parked
  from {schema}.event_subscriptions
 where $1::text is null or name collate "C" = $1
 order by name collate "C";

-- name: subscription_changes
-- returns here: name text, changes integer
select s.name::text as name, s.changes from {schema}.event_subscription s;

-- name: subscription_parts
-- returns: part integer, position integer, epoch integer, owner_token uuid, lease_until time
-- returns: attempts integer, retry_at time, stopped_at time, last_error text, moved_at time
select part, "position", epoch, owner_token, lease_until, attempts, retry_at, stopped_at,
       last_error, moved_at
  from {schema}.event_subscription_parts where name collate "C" = $1::text order by part;

-- name: subscription_pause
select {schema}.event_subscription_pause(name => $1::text);

-- name: subscription_resume
select {schema}.event_subscription_resume(name => $1::text);

-- name: subscription_resume_parked
select {schema}.event_subscription_resume_parked(name => $1::text, stream => $2::text);

-- name: subscription_skip
select {schema}.event_subscription_skip(name => $1::text, at_position => $2::bigint);

-- name: subscription_rebuild
select {schema}.event_subscription_rebuild(name => $1::text, start => $2::bigint);

-- name: subscription_remove
select {schema}.event_subscription_remove(name => $1::text);
