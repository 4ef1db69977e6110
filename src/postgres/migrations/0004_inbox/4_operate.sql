-- Operating the inbox: dead letters and old messages.

-- Internal. Locks up to `most` dead letters in the order of their keys, and skips locked ones.
-- Each argument that is not null is a filter.
create function {schema}._inbox_lock_dead_letters(
  only_source     text,
  only_message_id text,
  only_topic      text,
  failed_after    timestamptz,
  failed_before   timestamptz,
  most            integer
) returns tid[]
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  return array(
    select g.ctid from {schema}.inbox_guard g
     where g.status = 3 and (only_source is null or g.source = only_source)
       and (only_message_id is null or g.message_id = only_message_id)
       and (failed_after is null or g.processed_at >= failed_after)
       and (failed_before is null or g.processed_at < failed_before)
       and (only_topic is null or exists (select from {schema}.inbox_archive a
                                           where a.id = g.item_id and a.topic = only_topic))
     order by g.source, g.message_id limit most
     for update skip locked);
end
$function$;

-- Replays up to `most` dead letters, in the order of their keys. Messages of the queue become
-- ready, after `delay` if it is given, with zero attempts. Other messages get the status seen.
-- reason replaces the last error if it is given. Returns their number. Each other argument that is
-- not null is a filter.
create function {schema}.inbox_replay_dead_letters(
  only_source     text        default null,
  only_message_id text        default null,
  only_topic      text        default null,
  failed_after    timestamptz default null,
  failed_before   timestamptz default null,
  most            integer     default 1000,
  reason          text        default null,
  delay           interval    default null
) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_rows tid[] := {schema}._inbox_lock_dead_letters(only_source, only_message_id, only_topic,
                                                    failed_after, failed_before, most);
  v_items uuid[];
  v_count integer;
begin
  if delay < interval '0' then
    raise exception 'delay must not be negative' using errcode = 'invalid_parameter_value';
  end if;
  v_items := array(select g.item_id from {schema}.inbox_guard g
                    where g.ctid = any (v_rows)
                      and exists (select from {schema}.inbox_archive a where a.id = g.item_id));
  -- This includes messages whose dead letter was purged.
  update {schema}.inbox_guard g
     set status = 0, attempts = 0, processed_at = null, item_id = null,
         last_error = coalesce(left(reason, 2048), g.last_error)
   where g.ctid = any (v_rows) and (g.item_id is null or g.item_id <> all (v_items));
  get diagnostics v_count = row_count;
  if v_items <> '{}' then
    v_count := v_count + {schema}.inbox_replay(ids => v_items, most => most);
    if coalesce(reason, delay::text) is not null then
      update {schema}.inbox q
         set ready_at = q.ready_at + coalesce(delay, interval '0'),
             last_error = coalesce(left(reason, 2048), q.last_error)
       where q.id = any (v_items);
    end if;
  end if;
  return v_count;
end
$function$;
comment on function {schema}.inbox_replay_dead_letters is
  'Replays dead letters; returns their number.';

-- Deletes up to `most` dead letters of the guard and of the queue. Returns their number. If a
-- deleted message is received again, it is a new one. Each argument that is not null is a filter.
create function {schema}.inbox_purge_dead_letters(
  only_source     text        default null,
  only_message_id text        default null,
  only_topic      text        default null,
  failed_after    timestamptz default null,
  failed_before   timestamptz default null,
  most            integer     default 1000
) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_rows tid[] := {schema}._inbox_lock_dead_letters(only_source, only_message_id, only_topic,
                                                    failed_after, failed_before, most);
  v_items uuid[];
  v_letters uuid[];
  v_count integer;
begin
  v_items := array(select g.item_id from {schema}.inbox_guard g
                    where g.ctid = any (v_rows) and g.item_id is not null);
  -- Skip a dead letter that another transaction is replaying: that transaction waits for our row.
  v_letters := array(select a.id from {schema}.inbox_archive a
                      where a.id = any (v_items) for update skip locked);
  delete from {schema}.inbox_guard g
   where g.ctid = any (v_rows)
     and (g.item_id is null or g.item_id = any (v_letters)
          or not exists (select from {schema}.inbox_archive a where a.id = g.item_id));
  get diagnostics v_count = row_count;
  delete from {schema}.inbox_archive a where a.id = any (v_letters);
  return v_count;
end
$function$;
comment on function {schema}.inbox_purge_dead_letters is
  'Deletes dead letters; returns their number.';

-- Deletes up to `most` messages that ended, or were seen and never begun, before a time. Returns
-- their number. If a deleted message is received again, it is a new one. Messages in the queue and
-- its dead letters are kept.
create function {schema}.inbox_purge_old(before timestamptz, most integer default 1000)
  returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set enable_seqscan = off
as $function$
declare
  v_rows tid[];
  v_count integer;
begin
  v_rows := array(
    select g.ctid from {schema}.inbox_guard g
     where g.status = 2 and g.processed_at < before
     order by g.processed_at limit most
     for update skip locked);
  v_rows := v_rows || array(
    select g.ctid from {schema}.inbox_guard g
     where g.status = 3 and g.processed_at < before
       and (g.item_id is null
            or not exists (select from {schema}.inbox_archive a where a.id = g.item_id))
     order by g.processed_at limit most - cardinality(v_rows)
     for update skip locked);
  delete from {schema}.inbox_guard g where g.ctid = any (v_rows);
  v_count := cardinality(v_rows);
  if v_count < most then
    v_rows := array(
      select g.ctid from {schema}.inbox_guard g
       where g.status in (0, 1) and g.first_seen_at < before and g.last_seen_at < before
         and (g.lease_until is null or g.lease_until < before)
       order by g.first_seen_at limit most - v_count
       for update skip locked);
    delete from {schema}.inbox_guard g where g.ctid = any (v_rows);
    v_count := v_count + cardinality(v_rows);
  end if;
  return v_count;
end
$function$;
comment on function {schema}.inbox_purge_old is
  'Deletes the records of messages that were last seen before a time; returns their number.';
