-- Events. Times are microseconds since 1970. The store binds the current time. A block named
-- <statement>_step_<name> is a step of that statement. SQLite has one writer, so the statements of
-- a transaction need no locks, and the numbers of events are their positions.

-- name: event_append
insert into {schema}_event (stream, version, at, id, key, type, data, metadata, correlation_id,
                            causation_id)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10);

-- name: event_append_step_stream
-- returns here: no integer, version integer, closed_at time
select no, version, closed_at from {schema}_event_stream where key = ?1;

-- name: event_append_step_known
-- returns here: version integer, is_here boolean
-- An event with the same id. It was appended by an earlier run, or it is another event.
select version, key = ?2 as is_here from {schema}_event where id = ?1;

-- name: event_append_step_create
insert into {schema}_event_stream (key, version, first_version, created_at) values (?1, 0, 1, ?2)
returning no;

-- name: event_append_step_advance
update {schema}_event_stream set version = ?2 where no = ?1;

-- name: event_read_stream
-- returns: version integer, at time, id uuid, type text, data text, metadata text
-- returns: correlation_id text, causation_id text
-- Upwards from the version ?2.
select version, at, id, type, data, metadata, correlation_id, causation_id
  from {schema}_event
 where stream = (select no from {schema}_event_stream where key = ?1) and version >= ?2
 order by version limit ?3;

-- name: event_read_stream_step_backwards
-- returns: as event_read_stream
select version, at, id, type, data, metadata, correlation_id, causation_id
  from {schema}_event
 where stream = (select no from {schema}_event_stream where key = ?1) and version <= ?2
 order by version desc limit ?3;

-- name: event_read_all
-- returns: position integer, stream text, version integer, at time, id uuid, type text, data text
-- returns: metadata text, correlation_id text, causation_id text, upto integer
-- The positions after ?1 up to ?2, at most ?3 events. ?4 and ?5 are JSON arrays of types and of
-- prefixes of keys; null: all. ?6 is the number of parts, and ?7 the part.
select e.no as position, e.key as stream, e.version, e.at, e.id, e.type, e.data, e.metadata,
       e.correlation_id, e.causation_id, e.no as upto
  from {schema}_event e
 where e.no > ?1 and e.no <= ?2 and (?4 is null or e.type in (select value from json_each(?4)))
   and (?5 is null or exists (select 1 from json_each(?5) p
                               where substr(e.key, 1, length(p.value)) = p.value))
   and e.stream % ?6 = ?7
 order by e.no limit ?3;

-- name: event_stamp
-- returns: head integer, stamped integer
-- An event has its position when it is inserted.
select coalesce((select seq from sqlite_sequence where name = '{schema}_event'), 0) as head,
       0 as stamped;

-- name: event_position
select no from {schema}_event
 where stream = (select no from {schema}_event_stream where key = ?1) and version = ?2;

-- name: event_streams
-- returns: stream text, version integer, first_version integer, created_at time, closed_at time
-- returns: deleted_at time
-- The stream ?1, or the streams after the key ?2 that begin with ?3.
select key as stream, version, first_version, created_at, closed_at, deleted_at
  from {schema}_event_stream
 where (?1 is null or key = ?1) and (?2 is null or key > ?2) and substr(key, 1, length(?3)) = ?3
 order by key limit ?4;

-- name: event_close
insert into {schema}_event_stream as s (key, version, first_version, created_at, closed_at)
values (?1, 0, 1, ?2, ?2)
on conflict (key) do update set closed_at = excluded.closed_at where s.closed_at is null;

-- name: event_truncate
delete from {schema}_event
 where stream = (select no from {schema}_event_stream where key = ?1)
   and version < (select first_version from {schema}_event_stream where key = ?1);

-- name: event_truncate_step_stream
update {schema}_event_stream set first_version = max(first_version, min(?2, version))
 where key = ?1 and deleted_at is null and version > 0;

-- name: event_remove
delete from {schema}_event where stream = (select no from {schema}_event_stream where key = ?1);

-- name: event_remove_step_stream
update {schema}_event_stream
   set closed_at = coalesce(closed_at, ?2), deleted_at = ?2, first_version = version + 1
 where key = ?1 and deleted_at is null;

-- name: event_remove_step_snapshots
delete from {schema}_event_snapshot
 where stream = (select no from {schema}_event_stream where key = ?1);

-- name: event_snapshot_store
insert into {schema}_event_snapshot as p (stream, name, version, schema, at, data)
select no, ?2, ?3, ?4, ?6, ?5 from {schema}_event_stream
 where key = ?1 and deleted_at is null and ?3 between 1 and version
on conflict (stream, name) do update
   set version = excluded.version, schema = excluded.schema, at = excluded.at, data = excluded.data
 where (p.schema, p.version) < (excluded.schema, excluded.version);

-- name: event_snapshot_find
-- returns: version integer, data text
select version, data from {schema}_event_snapshot
 where stream = (select no from {schema}_event_stream where key = ?1) and name = ?2 and schema = ?3;
