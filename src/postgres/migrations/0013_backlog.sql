-- compatible-with: 12
-- The backlog over time, by queue. The table is private; the view is the contract.

-- step: the length of the bucket in seconds, 10 or 60. The numbers are the largest of the bucket,
-- counted up to a limit.
create table {schema}.backlog (
  step        integer     not null,
  bucket      timestamptz not null,
  queue       text        not null,
  ready       bigint      not null,
  in_progress bigint      not null,
  constraint backlog_pkey primary key (step, bucket, queue)
);

create view {schema}.backlogs as
  select bucket, step * interval '1 second' as step, queue, ready, in_progress
    from {schema}.backlog;
comment on view {schema}.backlogs is
  'The backlog of each queue over time: 10 s buckets for an hour, minutes for a week.';
