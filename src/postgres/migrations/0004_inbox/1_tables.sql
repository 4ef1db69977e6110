-- The inbox: a record of every received message, by its source and its id at that source, so that a
-- message takes effect once; and a queue for messages that are handled later. That queue has the
-- same functions as that of the outbox.

-- template: queue_1 queue=inbox

create domain {schema}.inbox_source as text collate "C" check (char_length(value) between 1 and 64);
create domain {schema}.inbox_key as text collate "C" check (char_length(value) between 1 and 255);
create domain {schema}.inbox_hash as bytea check (octet_length(value) = 32);

-- The guard: one row for each message that was seen, with or without the queue. No index has a
-- column that a duplicate changes, so counting a duplicate is a HOT update.
create table {schema}.inbox_guard (
  first_seen_at timestamptz not null,
  last_seen_at  timestamptz not null,
  processed_at  timestamptz,                       -- when it was processed or given up
  lease_until   timestamptz,                       -- while it is being processed
  sightings     bigint      not null default 1,
  claim_epoch   bigint      not null default 0,    -- increases with each begin
  attempts      integer     not null default 0,    -- number of begins
  status        smallint    not null default 0,    -- see the view inbox_seen
  by_process    boolean     not null default false, -- Inbox::process() began it
  owner_token   uuid,
  item_id       uuid,                              -- in the queue, or in its archive
  source        {schema}.inbox_source not null,
  message_id    {schema}.inbox_key not null,
  hash          {schema}.inbox_hash,
  last_error    text,
  constraint inbox_guard_pkey primary key (source, message_id),
  constraint inbox_guard_status check (status between 0 and 4)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

create unique index inbox_guard_item on {schema}.inbox_guard (item_id) where item_id is not null;
create index inbox_guard_processed on {schema}.inbox_guard (processed_at) where status = 2;
create index inbox_guard_given_up on {schema}.inbox_guard (processed_at) where status = 3;
create index inbox_guard_open on {schema}.inbox_guard (first_seen_at) where status in (0, 1);
create index inbox_guard_leases on {schema}.inbox_guard (lease_until) where status = 1;
create index inbox_guard_dead_letters on {schema}.inbox_guard (source, message_id) where status = 3;

create view {schema}.inbox_seen as
  select g.source, g.message_id, g.hash,
         (array['seen', 'processing', 'processed', 'dead_letter', 'queued']
         )[g.status + 1] as status,
         g.first_seen_at, g.last_seen_at, g.processed_at, g.sightings,
         coalesce(q.attempts, a.attempts, g.attempts) as attempts,
         coalesce(q.last_error, a.last_error, g.last_error) as last_error,
         coalesce(q.topic, a.topic)::text as topic, g.item_id, g.lease_until
    from {schema}.inbox_guard g
    left join {schema}.inbox q on q.id = g.item_id
    left join {schema}.inbox_archive a on a.id = g.item_id;
comment on view {schema}.inbox_seen is
  'Messages that were received: by source and message id, with their state.';

-- Internal. Raises an error if an argument is not valid.
create function {schema}._inbox_check(source text, message_id text, hash bytea) returns void
  language plpgsql immutable
  set search_path = pg_catalog, pg_temp
as $function$
begin
  if source is null or source = '' then
    raise exception 'source must not be null or empty' using errcode = 'invalid_parameter_value';
  elsif char_length(source) > 64 then
    raise exception 'source must not exceed 64 characters'
      using errcode = 'invalid_parameter_value';
  elsif message_id is null or message_id = '' then
    raise exception 'message_id must not be null or empty'
      using errcode = 'invalid_parameter_value';
  elsif char_length(message_id) > 255 then
    raise exception 'message_id must not exceed 255 characters'
      using errcode = 'invalid_parameter_value';
  elsif octet_length(hash) <> 32 then
    raise exception 'hash must have 32 bytes' using errcode = 'invalid_parameter_value';
  end if;
end
$function$;
