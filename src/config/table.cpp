#include <chrono>

#include "config/section.hpp"

namespace dovetail::config {
namespace {

using std::chrono::milliseconds;
using namespace std::chrono_literals;

constexpr milliseconds ten_years = 24h * 3650;
constexpr std::int64_t kib = 1 << 10;
constexpr std::int64_t mib = 1 << 20;
constexpr std::int64_t tib = std::int64_t{1} << 40;

template <class Member>
auto platform(Member member) {
  return within(&Settings::platform, member);
}

void add_database(Table& table) {
  Section database(table, "database");
  auto& url = database.text("url", within(&Settings::url),
                            "The database: `sqlite:<path>` or `postgresql://…`");
  url.secret = Secret::url;
  url.variable = "DOVETAIL_DATABASE";
  auto& schema = database.text("schema", platform(&PlatformOptions::schema),
                               "PostgreSQL schema, or prefix of SQLite's tables");
  schema.variable = "DOVETAIL_SCHEMA";
  database.boolean("deploy_schema", platform(&PlatformOptions::deploy_schema),
                   "Create or upgrade the schema at the start of `work`, `schedule` and `server`");
  database.number("max_connections", {1, 10'000}, platform(&PlatformOptions::max_connections),
                  "Connections of handlers and callers; the services have their own");
  database.boolean("pooled", platform(&PlatformOptions::pooled),
                   "PostgreSQL is behind PgBouncer in transaction mode");
  database.duration("busy_timeout", 0ms, 24h, platform(&PlatformOptions::busy_timeout),
                    "How long a write to SQLite waits for another writer");
  database.duration("connect_timeout", 100ms, 10min, platform(&PlatformOptions::connect_timeout),
                    "Limit of one connection attempt to PostgreSQL");
  database.duration("retry_for", 0ms, 24h, platform(&PlatformOptions::retry_for),
                    "How long a call retries lost connections and deadlocks");
}

void add_group(Table& table) {
  Section group(table, "group");
  auto& file = group.path("file", within(&Settings::group_file),
                          "TOML file with the section [databases], instead of database.url");
  file.variable = "DOVETAIL_GROUP";
  group.word<std::string>(
      "selection",
      {{"round_robin", "round_robin"}, {"drain_first", "drain_first"}, {"fair", "fair"}},
      within(&Settings::selection), "How the database of the next claim is chosen");
  group.number("max_connections", {4, 10'000},
               within(&Settings::group, &GroupOptions::max_connections),
               "Connections of all databases together");
  group.number("max_listeners", {0, 10'000}, within(&Settings::group, &GroupOptions::max_listeners),
               "Databases that notice messages of other processes at once");
  group.duration("max_poll_interval", 500ms, 1h,
                 within(&Settings::group, &GroupOptions::max_poll_interval),
                 "Longest interval between two checks of a database without work");
  group.duration("call_timeout", 100ms, 10min,
                 within(&Settings::group, &GroupOptions::call_timeout),
                 "Limit of one claim or renewal in a database");
  group.duration("refresh", 100ms, 24h, within(&Settings::discover, &DiscoverOptions::refresh),
                 "Interval at which the list of databases is read; a changed file is read at once");
  group.duration("refresh_timeout", 100ms, 1h,
                 within(&Settings::discover, &DiscoverOptions::timeout),
                 "Limit of reading the list of databases");
}

void add_worker(Table& table) {
  const auto field = [](auto member) {
    return within(&Settings::platform, &PlatformOptions::worker, member);
  };
  Section worker(table, "worker");
  worker.number("threads", {0, 1'000}, field(&WorkerOptions::threads),
                "Handlers at the same time; 0: one per core, at least four");
  worker.number("batch_size", {1, 10'000}, field(&WorkerOptions::batch_size),
                "Messages claimed at once, at most");
  worker.size("max_bytes", {kib, tib}, field(&WorkerOptions::max_bytes),
              "Payloads of one queue that the process holds, about");
  worker.word<UnknownTopics>(
      "unknown_topics", {{"leave", UnknownTopics::leave}, {"abandon", UnknownTopics::abandon}},
      field(&WorkerOptions::unknown_topics), "Messages of topics without a handler");
  worker.number("fetchers", {1, 32}, field(&WorkerOptions::fetchers),
                "PostgreSQL connections that claim and settle at the same time");
  worker.duration("lease", 100ms, 24h, field(&WorkerOptions::lease), "The lease of a claim");
  worker.duration("poll_interval", 1ms, 1h, field(&WorkerOptions::poll_interval),
                  "Interval between two polls for messages");
  worker.duration("idle_poll_interval", 1ms, 1h, field(&WorkerOptions::idle_poll_interval),
                  "Interval of an idle queue, while wake-ups are received; >= poll_interval");
  worker.duration("drain", 0ms, 24h, field(&WorkerOptions::drain),
                  "How long a stop waits for running handlers");
}

/// `queue` leads to a QueueOptions.
template <class Queue>
void add_queue(Section& section, Queue queue, const char* done) {
  const auto field = [queue](auto member) {
    return [=](auto& settings) -> auto& {
      return queue(settings).*member;
    };
  };
  section.size("max_payload_bytes", {1, 64 * mib}, field(&QueueOptions::max_payload_bytes),
               "Largest payload");
  section.number("max_attempts", {1, 1'000}, field(&QueueOptions::max_attempts),
                 "Failed attempts after which a message is a dead letter");
  section.duration("retain_done", 0ms, ten_years, field(&QueueOptions::retain_done), done);
}

void add_queues(Table& table) {
  Section outbox(table, "outbox");
  add_queue(outbox, platform(&PlatformOptions::outbox), "How long done messages are kept");
  Section inbox(table, "inbox");
  const auto field = [](auto member) {
    return within(&Settings::platform, &PlatformOptions::inbox, member);
  };
  add_queue(inbox, field(&InboxOptions::queue), "How long done messages of its queue are kept");
  inbox.duration("remember", 1s, ten_years, field(&InboxOptions::remember),
                 "How long a message stays known after it was processed or last seen");
  inbox.duration("lease", 10ms, 24h, field(&InboxOptions::lease), "The default lease of a message");
  inbox.duration("stuck_after", 0ms, ten_years, field(&InboxOptions::stuck_after),
                 "A message whose lease expired this long ago is reported as stuck");
}

void add_components(Table& table) {
  Section joins(table, "joins");
  const auto join = [](auto member) {
    return within(&Settings::platform, &PlatformOptions::joins, member);
  };
  joins.text("wait_topic", join(&JoinOptions::wait_topic),
             "Topic of waiting messages; the same in all processes");
  joins.duration("wait_poll", 100ms, 1h, join(&JoinOptions::wait_poll),
                 "How often a waiting message checks its join without a wake-up");
  joins.duration("retain_finished", 0ms, ten_years, join(&JoinOptions::retain_finished),
                 "How long ended joins are kept; \"0s\": forever");
  const auto schedule = [](auto member) {
    return within(&Settings::platform, &PlatformOptions::schedule, member);
  };
  Section timers(table, "timers");
  add_queue(timers, schedule(&ScheduleOptions::timers), "How long fired timers are kept");
  Section schedules(table, "schedule");
  schedules.boolean("fire_timers", schedule(&ScheduleOptions::fire_timers),
                    "Whether this process fires timers");
  schedules.duration("retain_runs", 1s, ten_years, schedule(&ScheduleOptions::retain_runs),
                     "How long ended runs of jobs are kept");
  Section events(table, "events");
  const auto event = [](auto member) {
    return within(&Settings::platform, &PlatformOptions::events, member);
  };
  events.size("max_data_bytes", {1, 64 * mib}, event(&EventOptions::max_data_bytes),
              "Largest data, and largest metadata, of an event");
  events.boolean("durable_positions", event(&EventOptions::durable_positions),
                 "PostgreSQL: positions are on disk before they are visible");
  events.duration("max_lag", 1s, ten_years, event(&EventOptions::max_lag),
                  "A subscription whose oldest event waits longer is a health finding");
  Section history(table, "history");
  history.boolean("enabled",
                  within(&Settings::platform, &PlatformOptions::history, &HistoryOptions::enabled),
                  "Whether this process counts its work over time, for the dashboard");
}

void add_log(Table& table) {
  Section logging(table, "log");
  auto& level = logging.word<LogLevel>("level",
                                       {{"debug", LogLevel::debug},
                                        {"info", LogLevel::info},
                                        {"warn", LogLevel::warn},
                                        {"error", LogLevel::error},
                                        {"off", LogLevel::off}},
                                       within(&Settings::log, &LogSettings::level),
                                       "The least level of log lines on standard error");
  level.reloadable = true;
}

Table make_table() {
  Table table;
  add_database(table);
  add_group(table);
  add_worker(table);
  add_queues(table);
  add_components(table);
  add_health(table);
  add_log(table);
  add_tracing(table);
  add_server(table);
  add_auth(table);
  add_webhooks(table);
  return table;
}

}  // namespace

std::span<const Setting> table() {
  static const auto settings = make_table();
  return settings;
}

}  // namespace dovetail::config
