-- The queue of the inbox, and its hooks.

-- Stores a message in the queue of the inbox, unless it was seen before. outcome is stored,
-- duplicate or hash_mismatch. id is the id in the queue, also of an earlier message. A repeated
-- call with the same item_id returns stored.
create function {schema}.inbox_enqueue(
  topic          text,
  source         text,
  message_id     text,
  payload        text,
  hash           bytea       default null,
  correlation_id text        default null,
  due_at         timestamptz default null,
  headers        jsonb       default null,
  expires_at     timestamptz default null,
  priority       integer     default 0,
  item_id        uuid        default null,
  notify         boolean     default true,
  out outcome    text,
  out id         uuid
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_column
declare
  v_seen record;
  v_row record;
begin
  perform {schema}._queue_check(topic, payload, correlation_id, headers, priority, null);
  v_seen := {schema}._inbox_see(inbox_enqueue.source, inbox_enqueue.message_id, hash);
  select g.item_id, g.lease_until into v_row from {schema}.inbox_guard g
   where g.source = inbox_enqueue.source and g.message_id = inbox_enqueue.message_id;
  if not v_seen.matches then
    outcome := 'hash_mismatch';
    id := v_row.item_id;
  elsif v_seen.status = 0 or (v_seen.status = 1 and v_row.lease_until <= {schema}.clock()) then
    id := coalesce(inbox_enqueue.item_id, {schema}.uuid_v7());
    if not (select t.stored from {schema}.inbox_try_enqueue(
      topic, payload, id, correlation_id, due_at,
      coalesce(headers, '{}') || jsonb_build_object('dovetail-source', inbox_enqueue.source,
                                                    'dovetail-message-id',
                                                    inbox_enqueue.message_id),
      expires_at, priority, null, notify) t) then
      raise exception 'item_id % is taken', id using errcode = 'invalid_parameter_value';
    end if;
    update {schema}.inbox_guard g
       set status = 4, item_id = inbox_enqueue.id, lease_until = null, owner_token = null
     where g.source = inbox_enqueue.source and g.message_id = inbox_enqueue.message_id;
    outcome := 'stored';
  else
    outcome := case when v_row.item_id = inbox_enqueue.item_id then 'stored' else 'duplicate' end;
    id := v_row.item_id;
  end if;
end
$function$;
comment on function {schema}.inbox_enqueue is
  'Stores a received message for a handler, once per source and message id.';

-- The hooks of the inbox queue; see queue_hook. They keep the guard rows of its messages up to
-- date. Every function that locks several guard rows locks them in the order of their keys.
create function {schema}._inbox_guard_ended(ids uuid[], outcome integer) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
begin
  perform from {schema}.inbox_guard g where g.item_id = any (ids)
    order by g.source, g.message_id for no key update;
  update {schema}.inbox_guard g set status = outcome + 1, processed_at = {schema}.clock()
    where g.item_id = any (ids);
end
$function$;

create function {schema}._inbox_guard_lock_ends(ids uuid[], wait boolean) returns uuid[]
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
declare
  v_locked uuid[];
begin
  if wait then
    perform from {schema}.inbox_guard g where g.item_id = any (ids)
      order by g.source, g.message_id for no key update;
    return ids;
  end if;
  v_locked := array(select g.item_id from {schema}.inbox_guard g where g.item_id = any (ids)
                     order by g.source, g.message_id for no key update skip locked);
  return array(select u.id from unnest(ids) as u(id)
                where u.id = any (v_locked)
                  or not exists (select from {schema}.inbox_guard g where g.item_id = u.id));
end
$function$;

create function {schema}._inbox_guard_replayed(ids uuid[]) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  perform from {schema}.inbox_guard g where g.item_id = any (ids)
    order by g.source, g.message_id for no key update;
  update {schema}.inbox_guard g set status = 4, processed_at = null where g.item_id = any (ids);
end
$function$;

do $block$
begin
  perform {schema}._queue_add_hook('inbox', 'inbox_guard');
end
$block$;
