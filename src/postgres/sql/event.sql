-- Events. The functions of the schema (migrations/) contain the rules. These statements call them.

-- name: event_append
-- returns here: outcome text, version integer
select outcome, version
  from {schema}.event_try_append(
         stream => $1::text, expected => $2::bigint, types => $3::text[], data => $4::text[],
         metadata => $5::text[], ids => $6::uuid[], correlation_ids => $7::text[],
         causation_ids => $8::text[], fresh => $9::boolean, notify => $10::boolean);

-- name: event_append_step_many
-- returns here: stream text, outcome text, version integer
select stream, outcome, version
  from {schema}.event_try_append_many(
         streams => $1::text[], expected => $2::bigint[], of => $3::bigint[], types => $4::text[],
         data => $5::text[], metadata => $6::text[], ids => $7::uuid[],
         correlation_ids => $8::text[], causation_ids => $9::text[], fresh => $10::boolean,
         notify => $11::boolean);

-- name: event_read_stream
-- returns: version integer, at time, id uuid, type text, data text, metadata text
-- returns: correlation_id text, causation_id text
select version, at, id, type, data, metadata, correlation_id, causation_id
  from {schema}.event_read_stream(stream => $1::text, from_version => $2::bigint,
                                  most => $3::integer, backwards => $4::boolean);

-- name: event_read_all
-- returns: position integer, stream text, version integer, at time, id uuid, type text, data text
-- returns: metadata text, correlation_id text, causation_id text, upto integer
-- The last row may have only upto.
select "position", stream, version, at, id, type, data, metadata, correlation_id, causation_id, upto
  from {schema}.event_read_all(after => $1::bigint, most => $2::integer, scan => $3::integer,
                               types => $4::text[], prefixes => $5::text[], parts => $6::integer,
                               part => $7::integer);

-- name: event_read_all_step_run
-- returns: as event_read_all
-- The same without filters, but the page ends with the run of positions in which it begins, or
-- after 1,000 events. $4 is the number of parts, and $5 the part. Each row has the position up to
-- which the page reaches unless it is full.
--
-- It takes less than half the time of event_read_all, because it is a plain query whose rows come
-- in the order of the index. Without an upper bound and with a constant limit, the planner chooses
-- that index also if it has no statistics; of a CASE it expects half of the rows. The store checks
-- the order of the rows.
select r.position + (e.no - r.no) as "position", e.key as stream, e.version, e.at, e.id,
       e.type::text as type, e.data, e.metadata, e.correlation_id::text as correlation_id,
       e.causation_id::text as causation_id, r.upto
  from (select f.position, f.no,
               greatest($1::bigint, least($1::bigint + $3::integer, s.head,
                                          f.position + f.n - 1)) as upto
          from (select s.head from {schema}.event_feed_state s limit 1) s
          left join lateral (select f.* from {schema}.event_feed f
                              where f.position <= $1::bigint + 1
                              order by f.position desc limit 1) f on true
        offset 0) r
  left join lateral (select e.*
                       from (select e.* from {schema}.event e
                              where e.no >= r.no + ($1::bigint + 1 - r.position)
                                and case when $4::integer is null then true
                                         else e.stream % $4 = $5::integer end
                              order by e.no limit 1000) e
                      order by e.no limit $2::integer) e on e.no <= r.no + (r.upto - r.position);

-- name: event_stamp
-- returns: head integer, stamped integer
select head, stamped
  from {schema}.event_stamp(most => $1::integer, wait => $2::boolean, durable => $3::boolean);

-- name: event_position
select {schema}.event_position(stream => $1::text, version => $2::bigint);

-- name: event_streams
-- returns: stream text, version integer, first_version integer, created_at time, closed_at time
-- returns: deleted_at time
-- The stream $1, or the streams after the key $2 that begin with $3.
select stream, version, first_version, created_at, closed_at, deleted_at
  from {schema}.event_streams
 where ($1::text is null or stream collate "C" = $1)
   and ($2::text is null or stream collate "C" > $2) and stream collate "C" >= $3::text
   and starts_with(stream, $3)
 order by stream collate "C" limit $4::bigint;

-- name: event_close
select {schema}.event_close(stream => $1::text);

-- name: event_truncate
select {schema}.event_truncate(stream => $1::text, before => $2::bigint);

-- name: event_remove
select {schema}.event_delete(stream => $1::text);

-- name: event_snapshot_store
select {schema}.event_snapshot_store(stream => $1::text, name => $2::text, version => $3::bigint,
                                     schema => $4::integer, data => $5::text);

-- name: event_snapshot_find
-- returns: version integer, data text
select version, data from {schema}.event_snapshots
 where stream collate "C" = $1::text and name collate "C" = $2::text and schema = $3::integer;
