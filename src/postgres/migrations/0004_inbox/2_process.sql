-- Processing a message at once, without the queue.

-- Internal. Records a sighting of a message, and locks its row until the transaction ends. counts:
-- false does not increase the number of sightings. Returns the status, and whether the hash matches
-- the first one. It matches also if one of the two is missing.
create function {schema}._inbox_see(source text, message_id text, hash bytea,
                                    counts boolean default true, out status smallint,
                                    out matches boolean)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
begin
  perform {schema}._inbox_check(_inbox_see.source, _inbox_see.message_id, _inbox_see.hash);
  insert into {schema}.inbox_guard as g (source, message_id, hash, first_seen_at, last_seen_at)
  values (_inbox_see.source, _inbox_see.message_id, _inbox_see.hash, v_now, v_now)
  on conflict on constraint inbox_guard_pkey do update
     set last_seen_at = greatest(g.last_seen_at, excluded.last_seen_at),
         sightings = g.sightings + counts::integer, hash = coalesce(g.hash, excluded.hash)
  returning g.status, coalesce(g.hash = _inbox_see.hash, true) into status, matches;
end
$function$;

-- Records a sighting of a message, and returns whether it was processed before. Two concurrent
-- callers may both get false: use inbox_try_begin to select one. Raises an error if the hash
-- differs from the first one.
create function {schema}.inbox_already_processed(source text, message_id text,
                                                 hash bytea default null) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_seen record;
begin
  v_seen := {schema}._inbox_see(source, message_id, hash);
  if not v_seen.matches then
    raise exception 'message % of % was seen before with another content', message_id, source
      using errcode = 'data_exception';
  end if;
  return v_seen.status = 2;
end
$function$;
comment on function {schema}.inbox_already_processed is
  'Notes a message as seen and returns whether it was processed before.';

-- Internal. Does the work of inbox_try_begin and of Inbox::process(). by_process as an argument:
-- the caller is Inbox::process(). by_process as a result: the holder of the message is
-- Inbox::process(). counts: this call is a sighting. gave_up: this call made the message a dead
-- letter.
create function {schema}._inbox_begin(
  source           text,
  message_id       text,
  owner_token      uuid,
  lease            interval,
  hash             bytea,
  max_attempts     integer,
  counts           boolean,
  inout by_process boolean,
  out outcome      text,
  out claim_epoch  bigint,
  out attempts     integer,
  out lease_until  timestamptz,
  out mine         boolean,
  out gave_up      boolean
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_seen record;
  v_row record;
begin
  if _inbox_begin.owner_token is null then
    raise exception 'owner_token must not be null' using errcode = 'invalid_parameter_value';
  elsif lease is null or lease <= interval '0' then
    raise exception 'lease must be positive' using errcode = 'invalid_parameter_value';
  elsif max_attempts is null or max_attempts < 1 then
    raise exception 'max_attempts must be at least 1' using errcode = 'invalid_parameter_value';
  end if;
  v_seen := {schema}._inbox_see(_inbox_begin.source, _inbox_begin.message_id, _inbox_begin.hash,
                                counts);
  select g.claim_epoch, g.attempts, g.lease_until, g.owner_token, g.by_process into v_row
    from {schema}.inbox_guard g
   where g.source = _inbox_begin.source and g.message_id = _inbox_begin.message_id;
  claim_epoch := v_row.claim_epoch;
  attempts := v_row.attempts;
  mine := coalesce(v_row.owner_token = _inbox_begin.owner_token, false);
  gave_up := false;
  if not v_seen.matches then
    outcome := 'hash_mismatch';
  elsif v_seen.status in (2, 3) then
    outcome := case v_seen.status when 2 then 'processed' else 'dead_letter' end;
  elsif v_seen.status = 4 then
    outcome := 'in_progress';
    by_process := false;
  elsif v_seen.status = 1 and v_row.lease_until > {schema}.clock() then
    outcome := case when mine then 'started' else 'in_progress' end;
    lease_until := v_row.lease_until;
    by_process := v_row.by_process;
  elsif v_seen.status = 1 and v_row.attempts >= max_attempts then
    update {schema}.inbox_guard g
       set status = 3, processed_at = {schema}.clock(), lease_until = null,
           last_error = 'the lease expired on the last attempt'
     where g.source = _inbox_begin.source and g.message_id = _inbox_begin.message_id;
    outcome := 'dead_letter';
    gave_up := true;
  else
    update {schema}.inbox_guard g
       set status = 1, owner_token = _inbox_begin.owner_token, claim_epoch = g.claim_epoch + 1,
           attempts = g.attempts + 1, lease_until = {schema}.clock() + lease,
           by_process = _inbox_begin.by_process
     where g.source = _inbox_begin.source and g.message_id = _inbox_begin.message_id
    returning g.claim_epoch, g.attempts, g.lease_until into claim_epoch, attempts, lease_until;
    outcome := 'started';
    mine := true;
  end if;
end
$function$;

-- Records a sighting, and makes the caller the one that processes the message if it is free and not
-- processed yet. outcome is started, in_progress, processed, dead_letter or hash_mismatch. Until
-- the lease expires, only one caller gets started. A repeated call with the same owner_token gets
-- started again while its lease is valid. mine: this owner was the last one to begin.
--
-- Each begin counts as an attempt. A message whose lease expires on attempt max_attempts or later
-- becomes a dead letter.
create function {schema}.inbox_try_begin(
  source          text,
  message_id      text,
  owner_token     uuid,
  lease           interval default interval '5 minutes',
  hash            bytea    default null,
  max_attempts    integer  default 10,
  out outcome     text,
  out claim_epoch bigint,
  out attempts    integer,
  out lease_until timestamptz,
  out mine        boolean
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  select b.outcome, b.claim_epoch, b.attempts, b.lease_until, b.mine
    into outcome, claim_epoch, attempts, lease_until, mine
    from {schema}._inbox_begin(source, message_id, owner_token, lease, hash, max_attempts, true,
                               false) b;
end
$function$;
comment on function {schema}.inbox_try_begin is
  'Begins to process a received message; answers started to exactly one caller.';

-- Internal, for the transaction of Inbox::process() that follows its begin. Locks the message, and
-- renews its lease until `lease` from now. Returns whether no other caller has begun since; the
-- lease may have expired.
create function {schema}._inbox_continue_try(source text, message_id text, owner_token uuid,
                                             claim_epoch bigint, lease interval)
  returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_column
begin
  update {schema}.inbox_guard g set lease_until = greatest(g.lease_until, {schema}.clock() + lease)
   where g.source = _inbox_continue_try.source and g.message_id = _inbox_continue_try.message_id
     and g.status = 1
     and g.owner_token = _inbox_continue_try.owner_token
     and g.claim_epoch = _inbox_continue_try.claim_epoch;
  return found;
end
$function$;

-- Internal. Does the work of inbox_mark_processing. Returns the new status: 1, or 3 if the lease of
-- the last attempt has expired. Returns null if nothing changed.
create function {schema}._inbox_mark_processing(source text, message_id text, lease interval,
                                                max_attempts integer)
  returns smallint
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
  v_status smallint;
begin
  perform {schema}._inbox_check(_inbox_mark_processing.source, _inbox_mark_processing.message_id,
                                null);
  if lease is null or lease <= interval '0' then
    raise exception 'lease must be positive' using errcode = 'invalid_parameter_value';
  elsif max_attempts is null or max_attempts < 1 then
    raise exception 'max_attempts must be at least 1' using errcode = 'invalid_parameter_value';
  end if;
  update {schema}.inbox_guard g
     set status = 3, processed_at = {schema}.clock(), lease_until = null,
         last_error = 'the lease expired on the last attempt'
   where g.source = _inbox_mark_processing.source
     and g.message_id = _inbox_mark_processing.message_id
     and g.status = 1 and g.lease_until <= {schema}.clock() and g.attempts >= max_attempts
  returning g.status into v_status;
  if found then
    return v_status;
  end if;
  insert into {schema}.inbox_guard as g (source, message_id, first_seen_at, last_seen_at, status,
                                         attempts, claim_epoch, lease_until)
  values (_inbox_mark_processing.source, _inbox_mark_processing.message_id, v_now, v_now, 1, 1, 1,
          v_now + lease)
  on conflict on constraint inbox_guard_pkey do update
     set status = 1, attempts = g.attempts + 1, claim_epoch = g.claim_epoch + 1, owner_token = null,
         lease_until = {schema}.clock() + lease, by_process = false
   where g.status = 0
      or (g.status = 1 and g.attempts < max_attempts
          and (g.owner_token is null or g.lease_until <= {schema}.clock()))
  returning g.status into v_status;
  return v_status;
end
$function$;

-- Marks a message as being processed. This is one more attempt, and until `lease` from now
-- inbox_try_begin returns in_progress. Returns false if the message is processed, a dead letter, in
-- the queue, or held by a caller of inbox_try_begin. A message whose lease expires on attempt
-- max_attempts or later becomes a dead letter.
create function {schema}.inbox_mark_processing(source text, message_id text,
                                               lease interval default interval '5 minutes',
                                               max_attempts integer default 10)
  returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  return coalesce({schema}._inbox_mark_processing(source, message_id, lease, max_attempts) = 1,
                  false);
end
$function$;
comment on function {schema}.inbox_mark_processing is
  'Marks a received message as being processed.';

-- Marks a message as processed. Returns whether that changed anything. With owner_token and
-- claim_epoch of inbox_try_begin, it works only while that lease is valid. A message in the queue,
-- or among its dead letters, is not changed.
create function {schema}.inbox_mark_processed(
  source      text,
  message_id  text,
  owner_token uuid   default null,
  claim_epoch bigint default null
) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
begin
  perform {schema}._inbox_check(inbox_mark_processed.source, inbox_mark_processed.message_id, null);
  if inbox_mark_processed.owner_token is not null then
    update {schema}.inbox_guard g
       set status = 2, processed_at = {schema}.clock(), lease_until = null
     where g.source = inbox_mark_processed.source and g.message_id = inbox_mark_processed.message_id
       and g.status = 1
       and g.owner_token = inbox_mark_processed.owner_token
       and g.claim_epoch = inbox_mark_processed.claim_epoch
       and g.lease_until > {schema}.clock();
    return found;
  end if;
  insert into {schema}.inbox_guard as g (source, message_id, first_seen_at, last_seen_at, status,
                                         processed_at)
  values (inbox_mark_processed.source, inbox_mark_processed.message_id, v_now, v_now, 2, v_now)
  on conflict on constraint inbox_guard_pkey do update
     set status = 2, processed_at = {schema}.clock(), lease_until = null, owner_token = null
   where g.status in (0, 1) or (g.status = 3 and g.item_id is null);
  return found;
end
$function$;
comment on function {schema}.inbox_mark_processed is
  'Marks a received message as processed.';

-- Makes a message a dead letter. Returns whether that changed anything. The arguments are those of
-- inbox_mark_processed.
create function {schema}.inbox_mark_dead(
  source      text,
  message_id  text,
  reason      text   default null,
  owner_token uuid   default null,
  claim_epoch bigint default null
) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
begin
  perform {schema}._inbox_check(inbox_mark_dead.source, inbox_mark_dead.message_id, null);
  if inbox_mark_dead.owner_token is not null then
    update {schema}.inbox_guard g
       set status = 3, processed_at = {schema}.clock(), lease_until = null,
           last_error = coalesce(left(reason, 2048), g.last_error)
     where g.source = inbox_mark_dead.source and g.message_id = inbox_mark_dead.message_id
       and g.status = 1
       and g.owner_token = inbox_mark_dead.owner_token
       and g.claim_epoch = inbox_mark_dead.claim_epoch
       and g.lease_until > {schema}.clock();
    return found;
  end if;
  insert into {schema}.inbox_guard as g (source, message_id, first_seen_at, last_seen_at, status,
                                         processed_at, last_error)
  values (inbox_mark_dead.source, inbox_mark_dead.message_id, v_now, v_now, 3, v_now,
          left(reason, 2048))
  on conflict on constraint inbox_guard_pkey do update
     set status = 3, processed_at = {schema}.clock(), lease_until = null, owner_token = null,
         last_error = coalesce(left(reason, 2048), g.last_error)
   where g.status in (0, 1);
  return found;
end
$function$;
comment on function {schema}.inbox_mark_dead is
  'Makes a received message a dead letter: it is not processed again until it is replayed.';

-- Releases a message that inbox_try_begin started: another caller may begin at once. Returns
-- whether it was still held. charge: zero takes back the attempt that the begin counted.
create function {schema}.inbox_release(source text, message_id text, owner_token uuid,
                                       claim_epoch bigint, error text default null,
                                       charge integer default 1) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_column
begin
  update {schema}.inbox_guard g
     set status = 0, lease_until = null, last_error = coalesce(left(error, 2048), g.last_error),
         attempts = g.attempts - (case charge when 0 then 1 else 0 end)
   where g.source = inbox_release.source and g.message_id = inbox_release.message_id
     and g.status = 1
     and g.owner_token = inbox_release.owner_token and g.claim_epoch = inbox_release.claim_epoch
     and g.lease_until > {schema}.clock();
  return found;
end
$function$;
comment on function {schema}.inbox_release is
  'Gives a message whose processing has begun back, for another try.';

-- Renews the lease of inbox_try_begin until `lease` from now, but never shortens it. Returns the
-- new end, or null if it is not held any more.
create function {schema}.inbox_renew_ticket(source text, message_id text, owner_token uuid,
                                            claim_epoch bigint, lease interval)
  returns timestamptz
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_column
declare
  v_until timestamptz;
begin
  if lease is null or lease <= interval '0' then
    raise exception 'lease must be positive' using errcode = 'invalid_parameter_value';
  end if;
  update {schema}.inbox_guard g set lease_until = greatest(g.lease_until, {schema}.clock() + lease)
   where g.source = inbox_renew_ticket.source and g.message_id = inbox_renew_ticket.message_id
     and g.status = 1
     and g.owner_token = inbox_renew_ticket.owner_token
     and g.claim_epoch = inbox_renew_ticket.claim_epoch
     and g.lease_until > {schema}.clock()
  returning g.lease_until into v_until;
  return v_until;
end
$function$;
comment on function {schema}.inbox_renew_ticket is
  'Renews the lease of a message that is being processed; returns its new end, or null.';
