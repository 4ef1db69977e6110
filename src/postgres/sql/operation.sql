-- The audit, and replays of dead letters in the background.

-- name: audit_record
insert into {schema}.audit (actor, action, target, detail, count, result)
values ($1::text, $2::text, $3::text, $4::text, $5::bigint, $6::text);

-- name: audit_list
-- returns: id integer, at time, actor text, action text, target text, detail text, count integer
-- returns: result text
select id, at, actor, action, target, detail, count, result from {schema}.audit
 where id < coalesce($1::bigint, 9223372036854775807) order by id desc limit $2::bigint;

-- name: audit_purge
delete from {schema}.audit a
 where a.ctid = any (array(select o.ctid from {schema}.audit o
                            where o.at < {schema}.clock() - $1::bigint * interval '1 microsecond'
                            order by o.at limit $2::integer for update skip locked));

-- name: replay_add
insert into {schema}.replay (id, kind, queue, actor, topic, failed_after, failed_before, error,
                             most, rate)
values ($1::uuid, $2::text, $3::text, $4::text, $5::text, $6::timestamptz, $7::timestamptz,
        $8::text, $9::bigint, $10::integer)
returning started_at;

-- name: replay_advance
update {schema}.replay
   set examined = examined + $2::bigint, changed = changed + $3::bigint,
       updated_at = {schema}.clock()
 where id = $1::uuid and state = 'running';

-- name: replay_finish
update {schema}.replay
   set state = $2::text, failure = nullif($3::text, ''), updated_at = {schema}.clock(),
       finished_at = {schema}.clock()
 where id = $1::uuid and state = 'running';

-- name: replay_find
-- returns: id uuid, kind text, state text, queue text, actor text, topic text, failed_after time
-- returns: failed_before time, error text, most integer, rate integer, examined integer
-- returns: changed integer, started_at time, updated_at time, finished_at time, failure text
select id, kind,
       case when state = 'running' and updated_at < {schema}.clock() - interval '1 minute'
            then 'interrupted' else state end as state, queue, actor, topic, failed_after,
       failed_before, error, most, rate, examined, changed, started_at, updated_at, finished_at,
       failure
  from {schema}.replay where id = $1::uuid;

-- name: replay_list
-- returns: as replay_find
select id, kind,
       case when state = 'running' and updated_at < {schema}.clock() - interval '1 minute'
            then 'interrupted' else state end as state, queue, actor, topic, failed_after,
       failed_before, error, most, rate, examined, changed, started_at, updated_at, finished_at,
       failure
  from {schema}.replay
 where id < coalesce($1::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
 order by id desc limit $2::bigint;

-- name: replay_purge
delete from {schema}.replay
 where id = any (array(select r.id from {schema}.replay r
                        where r.updated_at < {schema}.clock()
                                               - $1::bigint * interval '1 microsecond'
                        order by r.id limit $2::integer for update skip locked));
