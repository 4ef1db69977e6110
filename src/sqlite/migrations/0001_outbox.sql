-- The outbox: a queue table. Times are microseconds since 1970, ids are 16-byte blobs.
--
-- Rows are kept by an integer key that only grows: SQLite appends those to the last page, where a table ordered by the
-- blob would split pages and write half as many again for every commit.

create table {schema}_outbox (
  seq            integer primary key,
  id             blob    not null unique check (length(id) = 16),
  status         integer not null default 0 check (status between 0 and 3),  -- 0 ready, 1 in_progress, 2 done, 3 failed
  attempts       integer not null default 0,
  claim_epoch    integer not null default 0,
  due_at         integer not null,
  lease_until    integer,
  owner_token    blob,
  created_at     integer not null,
  processed_at   integer,
  processed_by   blob,
  topic          text    not null check (length(topic) between 1 and 255),
  correlation_id text    check (length(correlation_id) between 1 and 255),
  payload        text    not null,
  last_error     text,
  check ((status = 1) = (owner_token is not null) and (status = 1) = (lease_until is not null))
) strict;

create index {schema}_outbox_ready  on {schema}_outbox (due_at) where status = 0;
create index {schema}_outbox_leased on {schema}_outbox (lease_until) where status = 1;
create index {schema}_outbox_failed on {schema}_outbox (seq) where status = 3;
