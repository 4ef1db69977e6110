-- Failures of subscriptions, and operation.

-- Records a failed call. The part should wait for `retry_in`. stop: until it is resumed. Returns
-- the number of failed calls since its position has moved; null if it is not held any more.
create function {schema}.event_subscription_fail(name text, part integer, epoch bigint, error text,
                                                 retry_in interval, stop boolean default false)
  returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $function$
declare
  v_attempts integer;
begin
  update {schema}.event_subscription_part p
     set attempts = p.attempts + 1, last_error = left(error, 2048),
         retry_at = {schema}.clock() + retry_in,
         stopped_at = case when stop then {schema}.clock() end,
         lease_until = case when not stop then p.lease_until end,
         owner_token = case when not stop then p.owner_token end
   where p.name = event_subscription_fail.name and p.part = event_subscription_fail.part
     and p.epoch = event_subscription_fail.epoch and p.owner_token is not null
  returning p.attempts into v_attempts;
  return v_attempts;
end
$function$;
comment on function {schema}.event_subscription_fail is
  'Records a failed call of a subscription; returns the number of failed calls.';

-- Parks an event, or its stream, and moves the position behind it. kind: 'event' or 'stream'.
-- Returns false if the part is not held any more.
create function {schema}.event_subscription_park(name text, part integer, epoch bigint,
                                                 from_position bigint, to_position bigint,
                                                 kind text, error text) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $function$
declare
  v_attempts integer := (select p.attempts from {schema}.event_subscription_part p
                          where p.name = event_subscription_park.name
                            and p.part = event_subscription_park.part);
begin
  if not {schema}.event_subscription_advance(name, part, epoch, from_position, to_position) then
    return false;
  end if;
  insert into {schema}.event_parked (name, position, version, stream_no, attempts, kind, stream,
                                     error)
  select event_subscription_park.name, to_position, e.version, e.stream, coalesce(v_attempts, 0),
         event_subscription_park.kind, e.key, left(event_subscription_park.error, 2048)
    from (select f.no + (to_position - f.position) as no from {schema}.event_feed f
           where f.position <= to_position order by f.position desc limit 1) n
    join {schema}.event e on e.no = n.no
  on conflict on constraint event_parked_pkey do nothing;
  return true;
end
$function$;
comment on function {schema}.event_subscription_park is
  'Parks an event of a subscription, or its stream, and moves the position behind it.';

-- Moves a parked stream to the event after the version `version`, or removes it (null): its
-- transaction has handled the events before. Returns false if the part is not held any more.
create function {schema}._event_parked_move(name text, part integer, epoch bigint,
                                            at_position bigint, version bigint) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $function$
begin
  perform from {schema}.event_subscription_part p
    where p.name = _event_parked_move.name and p.part = _event_parked_move.part
      and p.epoch = _event_parked_move.epoch and p.owner_token is not null for no key update;
  if not found then
    return false;
  end if;
  if _event_parked_move.version is null then
    delete from {schema}.event_parked k
     where k.name = _event_parked_move.name and k.position = at_position;
  else
    update {schema}.event_parked k set version = _event_parked_move.version + 1
     where k.name = _event_parked_move.name and k.position = at_position;
  end if;
  return found;
end
$function$;

-- Parks an event or a stream again: its event at `failed_position` has failed. Returns false if the
-- part is not held any more.
create function {schema}._event_parked_fail(name text, part integer, epoch bigint,
                                            at_position bigint, failed_position bigint, error text)
  returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $function$
begin
  perform from {schema}.event_subscription_part p
    where p.name = _event_parked_fail.name and p.part = _event_parked_fail.part
      and p.epoch = _event_parked_fail.epoch and p.owner_token is not null for no key update;
  if not found then
    return false;
  end if;
  update {schema}.event_parked k
     set resumed_at = null, attempts = k.attempts + 1,
         position = case when exists (select from {schema}.event_parked o
                                       where o.name = k.name and o.position = failed_position)
                         then k.position else failed_position end,
         error = left(_event_parked_fail.error, 2048)
   where k.name = _event_parked_fail.name and k.position = at_position
     and k.resumed_at is not null;
  return true;
end
$function$;

-- Internal. The owners of the parts lease them again after their running calls, within a second.
-- Then they know what an operator has changed.
create function {schema}._event_subscription_change(name text) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $function$
begin
  update {schema}.event_subscription s set changes = s.changes + 1
   where s.name = _event_subscription_change.name;
end
$function$;

-- Pauses a subscription: its parts are given back after their running calls. Returns whether it was
-- running.
create function {schema}.event_subscription_pause(name text) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  update {schema}.event_subscription s set paused_at = {schema}.clock()
   where s.name = event_subscription_pause.name and s.paused_at is null;
  return found;
end
$function$;
comment on function {schema}.event_subscription_pause is
  'Pauses a subscription; returns whether it was running.';

-- Continues a subscription that is paused, stopped, or waits after a failure. Returns whether there
-- was such a subscription.
create function {schema}.event_subscription_resume(name text) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $function$
declare
  v_paused boolean;
begin
  update {schema}.event_subscription s set paused_at = null
   where s.name = event_subscription_resume.name and s.paused_at is not null;
  v_paused := found;
  update {schema}.event_subscription_part p set stopped_at = null, retry_at = null
   where p.name = event_subscription_resume.name
     and (p.stopped_at is not null or p.retry_at is not null);
  if found or v_paused then
    perform {schema}._wake('event_feed');
    return true;
  end if;
  return false;
end
$function$;
comment on function {schema}.event_subscription_resume is
  'Continues a subscription that is paused or stopped; returns whether it was.';

-- The parked events of a subscription are handled again: of one stream, or of all (null). Returns
-- their number.
create function {schema}.event_subscription_resume_parked(name text, stream text default null)
  returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $function$
declare
  v_count integer;
begin
  update {schema}.event_parked k set resumed_at = {schema}.clock()
   where k.name = event_subscription_resume_parked.name and k.kind <> 'skipped'
     and k.resumed_at is null and (event_subscription_resume_parked.stream is null
                                   or k.stream = event_subscription_resume_parked.stream);
  get diagnostics v_count = row_count;
  if v_count > 0 then
    perform {schema}._event_subscription_change(name);
    perform {schema}._wake('event_feed');
  end if;
  return v_count;
end
$function$;
comment on function {schema}.event_subscription_resume_parked is
  'The parked events of a subscription, or of one stream, are handled again; returns how many.';

-- Skips an event: the subscription does not handle it. If the event is parked, it is given up; if
-- its stream is parked there, the stream continues with the next event. Returns false if there is
-- no such event or subscription, or if the subscription has handled the event.
create function {schema}.event_subscription_skip(name text, at_position bigint) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $function$
begin
  update {schema}.event_parked k
     set resumed_at = {schema}.clock(), version = k.version + 1
   where k.name = event_subscription_skip.name and k.position = at_position and k.kind = 'stream';
  if not found then
    update {schema}.event_parked k set kind = 'skipped', resumed_at = null
     where k.name = event_subscription_skip.name and k.position = at_position and k.kind = 'event';
  end if;
  if not found then
    insert into {schema}.event_parked (name, position, version, stream_no, attempts, kind, stream,
                                       error)
    select s.name, at_position, e.version, e.stream, 0, 'skipped', e.key, 'skipped'
      from (select f.no + (at_position - f.position) as no, f.position + f.n > at_position as inside
              from {schema}.event_feed f
             where f.position <= at_position order by f.position desc limit 1) n
      join {schema}.event e on e.no = n.no and n.inside
      join {schema}.event_subscription s on s.name = event_subscription_skip.name
     where at_position > (select p.position from {schema}.event_subscription_part p
                           where p.name = s.name and p.part = e.stream % s.parts)
        or exists (select from {schema}.event_parked k  -- it waits in a parked stream
                    where k.name = s.name and k.kind = 'stream' and k.stream_no = e.stream
                      and k.version <= e.version)
    on conflict on constraint event_parked_pkey do nothing;
  end if;
  if found then
    update {schema}.event_subscription_part p set stopped_at = null, retry_at = null
     where p.name = event_subscription_skip.name
       and (p.stopped_at is not null or p.retry_at is not null);
    perform {schema}._event_subscription_change(name);
    perform {schema}._wake('event_feed');
    return true;
  end if;
  return false;
end
$function$;
comment on function {schema}.event_subscription_skip is
  'A subscription does not handle the event at this position; returns whether there is one.';

-- The subscription handles all events after the position `start` again. Calls that run have no
-- effect. Parked events are forgotten. Returns whether the subscription exists.
create function {schema}.event_subscription_rebuild(name text, start bigint default 0)
  returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $function$
begin
  -- Locked first, as every call that changes parts does.
  perform {schema}._event_subscription_change(name);
  update {schema}.event_subscription_part p
     set position = start, epoch = p.epoch + 1, owner_token = null, lease_until = null,
         attempts = 0, retry_at = null, stopped_at = null, last_error = null,
         moved_at = {schema}.clock()
   where p.name = event_subscription_rebuild.name;
  if not found then
    return false;
  end if;
  update {schema}.event_subscription s set drain_to = start
   where s.name = event_subscription_rebuild.name and s.next_parts is not null;
  delete from {schema}.event_parked k where k.name = event_subscription_rebuild.name;
  perform {schema}._wake('event_feed');
  return true;
end
$function$;
comment on function {schema}.event_subscription_rebuild is
  'A subscription handles all events after a position again; returns whether it exists.';

-- Deletes a subscription. Returns whether it existed.
create function {schema}.event_subscription_remove(name text) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $function$
begin
  delete from {schema}.event_subscription s where s.name = event_subscription_remove.name;
  if not found then
    return false;
  end if;
  delete from {schema}.event_subscription_part p where p.name = event_subscription_remove.name;
  delete from {schema}.event_parked k where k.name = event_subscription_remove.name;
  return true;
end
$function$;
comment on function {schema}.event_subscription_remove is
  'Deletes a subscription; returns whether it existed.';
