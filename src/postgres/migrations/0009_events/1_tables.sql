-- compatible-with: 8
-- The event store: streams of events with versions, the order of all events, and subscriptions. The
-- tables are private; the functions and views are the contract.
--
-- An append locks the row of its stream, and then draws a number for each event from the sequence
-- event_no. The numbers are not the order of the feed: a transaction that drew a lower number may
-- commit later. event_stamp writes down the order of committed events afterwards.

create domain {schema}.event_stream_key as text collate "C"
  check (char_length(value) between 1 and 255);
create domain {schema}.event_word as text collate "C" check (char_length(value) between 1 and 255);

-- CACHE must stay 1: with a cache, a session draws a number that is lower than numbers which other
-- sessions have drawn before, and event_stamp would close its hole too early. event_stamp
-- checks it.
create sequence {schema}.event_no cache 1;

-- An append changes no indexed column, so it is a HOT update. Without events, the version is 0.
create table {schema}.event_stream (
  no            bigint generated always as identity,
  version       bigint      not null default 0,     -- of the last event
  first_version bigint      not null default 1,     -- events before it were deleted
  created_at    timestamptz not null default {schema}.clock(),
  closed_at     timestamptz,                        -- accepts no more events
  deleted_at    timestamptz,                        -- its events were deleted; the key stays used
  key           {schema}.event_stream_key not null,
  constraint event_stream_pkey primary key (no),
  constraint event_stream_key unique (key)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- The key of the stream is stored again: the feed is read without a join. data and metadata are
-- stored as they were given; jsonb would change the order of keys and the spelling of numbers.
create table {schema}.event (
  no             bigint      not null,
  stream         bigint      not null,              -- event_stream.no
  version        bigint      not null,
  at             timestamptz not null,
  id             uuid        not null,
  key            text collate "C" not null,
  type           {schema}.event_word not null,
  data           text        not null,
  metadata       text,
  correlation_id {schema}.event_word,
  causation_id   {schema}.event_word,
  constraint event_pkey primary key (no),
  constraint event_id unique (id),
  constraint event_version unique (stream, version)
) with (autovacuum_vacuum_insert_scale_factor = 0.05);

-- The order of all events, as runs: the events with the numbers no to no + n - 1 have the positions
-- position to position + n - 1. Positions have no gaps.
create table {schema}.event_feed (
  position bigint  not null,
  no       bigint  not null,
  n        integer not null check (n > 0),
  constraint event_feed_pkey primary key (position),
  constraint event_feed_no unique (no)
) with (fillfactor = 70, autovacuum_vacuum_cost_delay = 0);

create table {schema}.event_feed_state (
  one      boolean        not null default true check (one),
  head     bigint         not null default 0,       -- the last position
  low      bigint         not null default 0,       -- numbers up to it have positions or are dead
  done     int8multirange not null default '{}',    -- numbers above low that have positions
  seen     bigint         not null default 0,       -- last value of event_no in the last round
  mark_no  bigint,        -- the transactions that drew numbers up to mark_no ...
  mark_xid xid8,          -- ... have transaction ids below mark_xid
  constraint event_feed_state_pkey primary key (one)
) with (fillfactor = 20, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
insert into {schema}.event_feed_state default values;

create table {schema}.event_snapshot (
  stream  bigint      not null,                     -- event_stream.no
  version bigint      not null,
  at      timestamptz not null,
  schema  integer     not null,
  name    {schema}.event_word not null,
  data    text        not null,
  constraint event_snapshot_pkey primary key (stream, name)
) with (fillfactor = 70);

create view {schema}.event_streams as
  select s.key::text as stream, s.version, s.first_version, s.created_at, s.closed_at, s.deleted_at
    from {schema}.event_stream s where s.version > 0 or s.closed_at is not null;
comment on view {schema}.event_streams is
  'The streams of the event store, with the versions of their first and last events.';
