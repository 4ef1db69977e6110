-- compatible-with: 10
-- The audit of what operators change, and replays: work on dead letters in the background.

-- Rows are never changed. count: the number of things that were changed, if it is known.
create table {schema}.audit (
  id     bigint      generated always as identity,
  at     timestamptz not null default {schema}.clock(),
  count  bigint,
  actor  text        not null,
  action text        not null,
  target text        not null,
  detail text        not null,
  result text        not null,
  constraint audit_pkey primary key (id)
);
create index audit_at on {schema}.audit (at);
comment on table {schema}.audit is 'Who changed what, when, and how much.';

-- A replay belongs to a process, which updates `updated_at` at least every few seconds. A row that
-- still says `running` a minute later is interrupted.
create table {schema}.replay (
  started_at    timestamptz not null default {schema}.clock(),
  updated_at    timestamptz not null default {schema}.clock(),
  examined      bigint      not null default 0,
  changed       bigint      not null default 0,
  id            uuid        not null,
  kind          text        not null check (kind in ('replay', 'purge')),
  state         text        not null default 'running'
                check (state in ('running', 'done', 'cancelled', 'failed', 'interrupted')),
  queue         text        not null,
  actor         text        not null,
  finished_at   timestamptz,
  failed_after  timestamptz,
  failed_before timestamptz,
  most          bigint,
  rate          integer,
  topic         text,
  error         text,
  failure       text,
  constraint replay_pkey primary key (id)
) with (fillfactor = 50);
comment on table {schema}.replay is 'Replays and purges of dead letters, with their progress.';
