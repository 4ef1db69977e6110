-- The inbox: a record of every received message, by its source and its id at that source, so that a
-- message takes effect once; and a queue for messages that are handled later, like that of the
-- outbox.

-- template: queue_1 queue=inbox

-- The guard: one row for each message that was seen, with or without the queue.
create table {schema}_inbox_guard (
  source        text    not null check (length(source) between 1 and 64),
  message_id    text    not null check (length(message_id) between 1 and 255),
  hash          blob    check (length(hash) = 32),
  -- status: seen, processing, processed, dead_letter, queued
  status        integer not null default 0 check (status between 0 and 4),
  by_process    integer not null default 0,   -- Inbox::process() began it
  first_seen_at integer not null,
  last_seen_at  integer not null,
  processed_at  integer,                      -- when it was processed or given up
  sightings     integer not null default 1,
  attempts      integer not null default 0,   -- number of begins
  claim_epoch   integer not null default 0,   -- increases with each begin
  owner_token   blob,
  lease_until   integer,                      -- while it is being processed
  item_id       blob,                         -- in the queue
  last_error    text,
  primary key (source, message_id)
) strict;

create unique index {schema}_inbox_guard_item on {schema}_inbox_guard (item_id)
  where item_id is not null;
create index {schema}_inbox_guard_processed on {schema}_inbox_guard (processed_at)
  where status = 2;
create index {schema}_inbox_guard_given_up on {schema}_inbox_guard (processed_at)
  where status = 3;
create index {schema}_inbox_guard_open on {schema}_inbox_guard (first_seen_at)
  where status in (0, 1);
create index {schema}_inbox_guard_leases on {schema}_inbox_guard (lease_until) where status = 1;
create index {schema}_inbox_guard_dead_letters on {schema}_inbox_guard (source, message_id)
  where status = 3;

create view {schema}_inbox_seen as
  select g.source, g.message_id, g.hash,
         case g.status when 0 then 'seen' when 1 then 'processing' when 2 then 'processed'
                       when 3 then 'dead_letter' else 'queued' end as status,
         g.first_seen_at, g.last_seen_at, g.processed_at, g.sightings,
         coalesce(q.attempts, g.attempts) as attempts,
         coalesce(q.last_error, g.last_error) as last_error, q.topic, g.item_id, g.lease_until
    from {schema}_inbox_guard as g
    left join {schema}_inbox as q on q.id = g.item_id;
