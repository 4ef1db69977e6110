-- The guard of the inbox. The statements of its queue are in queue.sql.

-- name: inbox_see
-- returns here: status integer, matches boolean
select status, matches from {schema}._inbox_see($1::text, $2::text, $3::bytea);

-- name: inbox_try_begin
-- returns here: outcome text, claim_epoch integer, attempts integer, lease_until time, mine boolean
-- returns here: gave_up boolean, by_process boolean
-- If the server crashes right after a begin by process(), only the record of an attempt is lost. So
-- that commit does not have to be on disk ($8).
select outcome, claim_epoch, attempts, lease_until, mine, gave_up, by_process
  from {schema}._inbox_begin(source => $1::text, message_id => $2::text, owner_token => $3::uuid,
                             lease => $4::bigint * interval '1 microsecond', hash => $5::bytea,
                             max_attempts => $6::integer, counts => $7::boolean,
                             by_process => $8::boolean)
 where not $8 or set_config('synchronous_commit', 'off', true) is not null;

-- name: inbox_continue_try
select {schema}._inbox_continue_try($1::text, $2::text, $3::uuid, $4::bigint,
                                    $5::bigint * interval '1 microsecond');

-- name: inbox_mark_processing
select {schema}._inbox_mark_processing($1::text, $2::text, $3::bigint * interval '1 microsecond',
                                       $4::integer)::bigint;

-- name: inbox_mark_processed
select {schema}.inbox_mark_processed($1::text, $2::text, $3::uuid, $4::bigint);

-- name: inbox_mark_dead
select {schema}.inbox_mark_dead($1::text, $2::text, $3::text, $4::uuid, $5::bigint);

-- name: inbox_is_marked
-- Whether the message has this status, set by this owner. For a call that is repeated because its
-- result was lost.
select exists (select from {schema}.inbox_guard
                where source = $1::text and message_id = $2::text and status = $3::integer
                  and ($4::uuid is null or (owner_token = $4 and claim_epoch = $5::bigint)));

-- name: inbox_release
select {schema}.inbox_release($1::text, $2::text, $3::uuid, $4::bigint, $5::text,
                              charge => $6::integer);

-- name: inbox_renew_ticket
select {schema}.inbox_renew_ticket($1::text, $2::text, $3::uuid, $4::bigint,
                                   $5::bigint * interval '1 microsecond');

-- name: inbox_receive
-- returns here: outcome text, id uuid
select outcome, id
  from {schema}.inbox_enqueue(
         source => $1::text, message_id => $2::text, hash => $3::bytea, item_id => $4::uuid,
         topic => $5::text, payload => $6::text, correlation_id => $7::text,
         due_at => $8::timestamptz, headers => $9::jsonb, expires_at => $10::timestamptz,
         priority => $11::integer, notify => $12::boolean, stream => $13::text);

-- name: inbox_fail_stored
-- For a message without a stream that no worker holds.
select {schema}._inbox_finish(
         locked => array(select o.ctid from {schema}.inbox o where o.id = $1::uuid for update),
         status => 3::smallint, error => $2::text, processed_by => null, charge => 0);

-- name: inbox_replay_dead_letters
select {schema}.inbox_replay_dead_letters($1::text, $2::text, $3::text, $4::timestamptz,
                                          $5::timestamptz, $6::integer, reason => $7::text,
                                          delay => $8::bigint * interval '1 microsecond');

-- name: inbox_purge_old
select {schema}.inbox_purge_old({schema}.clock() - $1::bigint * interval '1 microsecond',
                                $2::integer);

-- name: inbox_purge_dead_letters
select {schema}.inbox_purge_dead_letters($1::text, $2::text, $3::text, $4::timestamptz,
                                         $5::timestamptz, $6::integer);

-- name: inbox_guard_find
-- returns: source text, message_id text, hash bytes, status text, first_seen_at time
-- returns: last_seen_at time
-- returns: processed_at time, sightings integer, attempts integer, last_error text, topic text
-- returns: item_id uuid
-- returns: lease_until time
select source, message_id, hash, status, first_seen_at, last_seen_at, processed_at, sightings,
       attempts, last_error, topic, item_id, lease_until
  from {schema}.inbox_seen where source = $1::text and message_id = $2::text;

-- name: inbox_list_dead_letters
-- returns: as inbox_guard_find
select source, message_id, hash, status, first_seen_at, last_seen_at, processed_at, sightings,
       attempts, last_error, topic, item_id, lease_until
  from {schema}.inbox_seen
 where (source, message_id) in (
         select g.source, g.message_id from {schema}.inbox_guard g
          where g.status = 3 and ($1::text is null or g.source = $1)
            and ($2::text is null or g.message_id = $2)
            and ($3::text is null or exists (
                  select from {schema}.inbox_archive a where a.id = g.item_id and a.topic = $3))
            and ($4::timestamptz is null or g.processed_at >= $4)
            and ($5::timestamptz is null or g.processed_at < $5)
            and ($6::text is null or (g.source, g.message_id) > ($6, $7::text))
          order by g.source, g.message_id limit $8::bigint)
 order by source, message_id;

-- name: inbox_list_stuck
-- returns: as inbox_guard_find
-- Messages in progress whose lease expired longer ago than $1.
select source, message_id, hash, status, first_seen_at, last_seen_at, processed_at, sightings,
       attempts, last_error, topic, item_id, lease_until
  from {schema}.inbox_seen
 where (source, message_id) in (
         select g.source, g.message_id from {schema}.inbox_guard g
          where g.status = 1
            and g.lease_until < (select {schema}.clock()) - $1::bigint * interval '1 microsecond'
          order by g.lease_until limit $2::bigint)
 order by lease_until, source, message_id;

-- name: inbox_guard_counts
-- returns: seen integer, processing integer, overdue integer, processed integer
-- returns: dead_letters integer
-- Counts up to $1.
select (select count(*) from (select from {schema}.inbox_guard
                               where status = 0 limit $1::bigint) seen) as seen,
       (select count(*) from (select from {schema}.inbox_guard
                               where status = 1 limit $1::bigint) processing) as processing,
       (select count(*) from (select from {schema}.inbox_guard
                               where status = 1 and lease_until < (select {schema}.clock())
                               limit $1::bigint) overdue) as overdue,
       (select count(*) from (select from {schema}.inbox_guard
                               where status = 2 limit $1::bigint) processed) as processed,
       (select count(*) from (select from {schema}.inbox_guard
                               where status = 3 limit $1::bigint) dead_letters) as dead_letters;
