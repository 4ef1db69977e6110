-- The outbox: a queue table, and the functions that are its contract. Tables are private; functions may be called by
-- any language inside any transaction.

-- The database's time, by which everything durable is decided. now() would be frozen at the transaction's start.
-- Tests replace this function to move the time.
create function {schema}.clock() returns timestamptz
  language sql volatile parallel safe
  return clock_timestamp();

-- A time-ordered UUID (version 7) for callers who bring none: 48 bits of milliseconds, then random bits.
create function {schema}.uuid_v7() returns uuid
  language sql volatile parallel safe
  return encode(
           set_bit(set_bit(
             overlay(uuid_send(gen_random_uuid())
                     placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
                     from 1 for 6),
             52, 1), 53, 1), 'hex')::uuid;

create table {schema}.outbox (
  id             uuid        not null default {schema}.uuid_v7(),
  status         smallint    not null default 0,   -- 0 ready, 1 in_progress, 2 done, 3 failed
  attempts       integer     not null default 0,
  claim_epoch    bigint      not null default 0,
  due_at         timestamptz not null default {schema}.clock(),
  lease_until    timestamptz,
  owner_token    uuid,
  created_at     timestamptz not null default {schema}.clock(),
  processed_at   timestamptz,
  processed_by   uuid,
  topic          text        not null,
  correlation_id text,
  payload        text        not null,
  last_error     text,
  constraint outbox_pkey primary key (id),
  constraint outbox_status check (status between 0 and 3),
  constraint outbox_topic check (char_length(topic) between 1 and 255),
  constraint outbox_correlation_id check (char_length(correlation_id) between 1 and 255),
  constraint outbox_lease check ((status = 1) = (owner_token is not null) and (status = 1) = (lease_until is not null))
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

create index outbox_ready  on {schema}.outbox (due_at, id) where status = 0;
create index outbox_leased on {schema}.outbox (lease_until) where status = 1;
create index outbox_failed on {schema}.outbox (id) where status = 3;

-- Stores a message and answers its id. With an id that is there already nothing is stored: safe to repeat.
create function {schema}.outbox_enqueue(
  topic          text,
  payload        text,
  message_id     uuid        default null,
  correlation_id text        default null,
  due_at         timestamptz default null
) returns uuid
  language plpgsql volatile
as $function$
declare
  v_id uuid := coalesce(message_id, {schema}.uuid_v7());
  v_now timestamptz := {schema}.clock();
begin
  if topic is null or topic = '' then
    raise exception 'topic must not be null or empty' using errcode = 'invalid_parameter_value';
  end if;
  if payload is null then
    raise exception 'payload must not be null' using errcode = 'invalid_parameter_value';
  end if;
  insert into {schema}.outbox (id, topic, payload, correlation_id, due_at, created_at)
  values (v_id, outbox_enqueue.topic, outbox_enqueue.payload, nullif(outbox_enqueue.correlation_id, ''),
          coalesce(outbox_enqueue.due_at, v_now), v_now)
  on conflict (id) do nothing;
  return v_id;
end
$function$;

-- Leases up to batch_size messages that are due, or whose lease ran out: those are charged an attempt.
-- Exactly what is returned is leased. The sub-select that locks stands in an array, which is computed once: joined in
-- directly, the planner may choose to run it again, and it would lock more rows than were asked for.
create function {schema}.outbox_claim(
  owner_token uuid,
  batch_size  integer  default 50,
  lease       interval default interval '30 seconds'
) returns table (
  id uuid, topic text, payload text, correlation_id text, created_at timestamptz, due_at timestamptz,
  attempts integer, claim_epoch bigint, lease_until timestamptz
)
  language plpgsql volatile
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
  v_taken integer;
begin
  if outbox_claim.owner_token is null then
    raise exception 'owner_token must not be null' using errcode = 'invalid_parameter_value';
  end if;
  if batch_size is null or batch_size < 1 then
    raise exception 'batch_size must be at least 1' using errcode = 'invalid_parameter_value';
  end if;
  if lease is null or lease <= interval '0' then
    raise exception 'lease must be positive' using errcode = 'invalid_parameter_value';
  end if;

  return query
  update {schema}.outbox o
     set owner_token = outbox_claim.owner_token, claim_epoch = o.claim_epoch + 1, attempts = o.attempts + 1,
         lease_until = {schema}.clock() + lease
   where o.ctid = any (array(
           select e.ctid from {schema}.outbox e
            where e.status = 1 and e.lease_until <= v_now
            order by e.lease_until
            limit batch_size
            for no key update skip locked))
  returning o.id, o.topic, o.payload, o.correlation_id, o.created_at, o.due_at, o.attempts, o.claim_epoch,
            o.lease_until;
  get diagnostics v_taken = row_count;

  return query
  update {schema}.outbox o
     set status = 1, owner_token = outbox_claim.owner_token, claim_epoch = o.claim_epoch + 1,
         lease_until = {schema}.clock() + lease
   where o.ctid = any (array(
           select r.ctid from {schema}.outbox r
            where r.status = 0 and r.due_at <= v_now
            order by r.due_at, r.id
            limit batch_size - v_taken
            for no key update skip locked))
  returning o.id, o.topic, o.payload, o.correlation_id, o.created_at, o.due_at, o.attempts, o.claim_epoch,
            o.lease_until;
end
$function$;

-- Marks claimed messages as done; answers how many. What is not this owner's live claim of this epoch is left alone.
-- Rows are locked in the order of their ids before any is changed, so that two calls never wait for each other.
create function {schema}.outbox_ack(owner_token uuid, ids uuid[], epochs bigint[]) returns integer
  language plpgsql volatile
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
  v_count integer;
begin
  if cardinality(ids) is distinct from cardinality(epochs) then
    raise exception 'ids and epochs must have the same length' using errcode = 'invalid_parameter_value';
  end if;
  with claims as (
    select distinct c.id, c.epoch from unnest(ids, epochs) as c(id, epoch)
  ),
  mine as materialized (
    select o.id from {schema}.outbox o join claims c on o.id = c.id and o.claim_epoch = c.epoch
     where o.status = 1 and o.owner_token = outbox_ack.owner_token and o.lease_until > v_now
     order by o.id
     for no key update of o
  )
  update {schema}.outbox o
     set status = 2, processed_at = {schema}.clock(), processed_by = o.owner_token, owner_token = null,
         lease_until = null
    from mine where o.id = mine.id and o.lease_until > {schema}.clock();  -- again: the locks may have been waited for
  get diagnostics v_count = row_count;
  return v_count;
end
$function$;
