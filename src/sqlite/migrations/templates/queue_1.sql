-- A queue, for the migrations that include this template. After its release a template never
-- changes: later changes are migrations of their own.

-- A row of the queue is in progress while its lease_until is a time (positive). The columns that a
-- claim and an ack change have the same size before and after, so SQLite overwrites them in place.
-- That is why large negative numbers mean "never", an owner of zeros means "nobody", and done is 1.
-- The view {schema}_{queue}_messages shows the values of the specification.
--
-- lane: the priority of the message, or -100 if its topic was paused when a claim found it. No
-- claim looks at the lane -100. No index has a column that a claim changes, so claims write no
-- index.
create table {schema}_{queue} (
  seq            integer primary key,
  id             blob    not null unique check (length(id) = 16),
  -- status: queued, done, failed
  status         integer not null default 0 check (status between 0 and 3 and status <> 2),
  lane           integer not null default 0,
  ready_at       integer not null,              -- not claimed before this time
  lease_until    integer not null default -9000000000000000000,
  -- owner_token: the owner of the lease, and at the end the owner that finished the message
  owner_token    blob    not null default x'00000000000000000000000000000000',
  claim_epoch    integer not null default 0,
  attempts       integer not null default 0,
  past_attempts  integer not null default 0,    -- before the last replay
  lost_leases    integer not null default 0,    -- expired leases in a row
  stages         integer not null default 1,    -- bits, of what has succeeded
  priority       integer not null default 0,
  created_at     integer not null,
  due_at         integer,
  expires_at     integer,
  processed_at   integer not null default -9000000000000000000,
  topic          text    not null check (length(topic) between 1 and 255),
  correlation_id text    check (length(correlation_id) between 1 and 255),
  unique_key     text    check (length(unique_key) between 1 and 255),
  stream         text    check (length(stream) between 1 and 255),
  headers        text,
  last_error     text,
  failures       text,                          -- of attempts: a JSON array of the newest ten
  payload        text    not null,
  check (priority between -5 and 5
         and (lane = -100 or case when stream is null then lane = priority
                                  else lane in (priority + 20, -101, -102) end))
) strict;

-- With the topic, a claim passes messages of other topics without reading their rows.
create index {schema}_{queue}_queue  on {schema}_{queue} (lane, ready_at, seq, topic)
  where status = 0;
create index {schema}_{queue}_done   on {schema}_{queue} (processed_at) where status = 1;
create index {schema}_{queue}_failed on {schema}_{queue} (id) where status = 3;
create unique index {schema}_{queue}_unique_key on {schema}_{queue} (unique_key)
  where unique_key is not null and status = 0;
create index {schema}_{queue}_parked on {schema}_{queue} (topic) where lane = -100;

create index {schema}_{queue}_by_stream on {schema}_{queue} (stream)
  where stream is not null and status = 0;

-- Streams: messages of one stream are handled in the order of their rows, by one owner at a time. A
-- worker leases the stream, not its messages. Only the first message of a stream that is neither
-- leased nor blocked has a lane that claims read (priority + 20, a ticket). The others have the
-- lane -101, and the first message of a blocked stream has -102.
--
-- The row of a stream exists while the stream is leased or blocked.
create table {schema}_{queue}_stream (
  stream      text    not null primary key,
  epoch       integer not null default 0,
  run_to      integer not null default 0,  -- the last message of the lease
  unsettled   integer not null default 0,  -- messages of the lease that are not settled
  lease       integer not null default 0,  -- its length
  lease_until integer not null default -9000000000000000000,
  owner_token blob    not null default x'00000000000000000000000000000000',
  blocked_at  integer                      -- the first message has failed, and the stream waits
) strict, without rowid;

create index {schema}_{queue}_stream_lease on {schema}_{queue}_stream (lease_until)
  where lease_until > 0;

-- The epochs of leases of streams.
create table {schema}_{queue}_stream_epoch (
  place integer primary key check (place = 1),
  epoch integer not null
) strict;
insert into {schema}_{queue}_stream_epoch (place, epoch) values (1, 0);

create table {schema}_{queue}_paused (
  topic     text    not null primary key,
  paused_at integer not null
) strict, without rowid;

-- Every stored message, with the columns of the specification.
create view {schema}_{queue}_messages as
  select m.id, m.topic, m.payload, m.created_at,
         case m.status when 0 then m.lease_until > 0 or s.stream is not null
                       when 1 then 2 else 3 end as status,
         case when m.lease_until > 0 then m.lease_until else s.lease_until end as locked_until,
         case when m.lease_until > 0 then m.owner_token else s.owner_token end as owner_token,
         m.status = 1 as is_processed,
         case when m.status > 0 then m.processed_at end as processed_at,
         case when m.status > 0 then nullif(m.owner_token, zeroblob(16)) end as processed_by,
         m.attempts as retry_count, m.last_error,
         case m.status when 0 then m.ready_at end as next_attempt_at, m.id as message_id,
         m.correlation_id, m.due_at as due_time_utc, m.expires_at, m.priority, m.unique_key,
         m.headers, m.claim_epoch, m.past_attempts, m.stream, m.stages, m.failures
    from {schema}_{queue} m
    left join {schema}_{queue}_stream s
           on s.stream = m.stream and m.status = 0 and s.lease_until > 0 and m.seq <= s.run_to;
