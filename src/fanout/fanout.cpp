#include "dovetail/fanout.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/require.hpp"
#include "core/text.hpp"
#include "dovetail/error.hpp"
#include "fanout/registrations.hpp"
#include "fanout/rules.hpp"
#include "storage/confirmed_write.hpp"
#include "storage/database.hpp"
#include "storage/fanout_store.hpp"
#include "storage/transaction_access.hpp"

namespace dovetail {
namespace {

/// The number of cursors that one transaction of a purge examines.
constexpr std::size_t purge_page = 10'000;

storage::FanoutKey key_of(std::string_view topic, const std::optional<std::string>& work_key) {
  return {topic, work_key ? std::string_view{*work_key} : std::string_view{}};
}

void require_keys(std::string_view topic, const std::optional<std::string>& work_key) {
  fanout::require_topic(topic);
  fanout::require_work_key(work_key);
}

}  // namespace

Fanout::Fanout(storage::Database& database, Outbox& outbox, Joins& joins, Leases& leases,
               Jobs& jobs, Logger log, Metrics metrics)
    : database_(&database),
      store_(&database.store<storage::FanoutStore>()),
      outbox_(&outbox),
      joins_(&joins),
      leases_(&leases),
      jobs_(&jobs),
      log_(std::move(log)),
      metrics_(std::move(metrics)),
      registrations_(std::make_unique<Registrations>()) {}

Fanout::~Fanout() = default;

void Fanout::use_handlers(AddHandler add_handler) {
  const std::lock_guard lock(registrations_->handlers_mutex);
  add_handler_ = std::move(add_handler);
}

void Fanout::add_handler(std::string_view topic, HandlerFunction function, HandlerOptions options) {
  AddHandler add;
  {
    const std::lock_guard lock(registrations_->handlers_mutex);
    add = add_handler_;
  }
  add(topic, std::move(function), std::move(options));
}

// --- registration

void Fanout::add(const FanoutRequest& request, FanoutPlannerFunction planner,
                 const std::stop_token& stop) {
  if (!planner) throw std::invalid_argument("planner must not be empty");
  fanout::require_request(request);
  const auto topic = fanout::round_topic(request.topic, request.work_key);
  const auto job = fanout::job_name(request.topic, request.work_key);
  const auto registration = registrations_->reserve(job, request, std::move(planner));
  if (!registration->has_handler) {
    add_handler(topic,
                [this, registration](const Message& message, HandlerContext& context) {
                  handle_round(*registration, message, context);
                },
                {.timeout = request.timeout});
    registration->has_handler = true;
  }
  database_->write({.repeatable = true, .stop = stop}, [&](storage::WriteSession& session) {
    store_->register_policy(session, {.key = key_of(request.topic, request.work_key),
                                      .every = request.every,
                                      .jitter = request.jitter,
                                      .job = job,
                                      .settle = request.settle});
  });
  jobs_->create_or_update(
      {.name = job, .topic = topic, .cron = request.cron, .time_zone = request.time_zone}, stop);
  registration->is_stored = true;
  log_.write(LogLevel::info, "fanout.added",
             {{"store", database_->name()},
              {"topic", request.topic},
              {"work_key", request.work_key.value_or("")},
              {"cron", request.cron}});
}

void Fanout::add(const FanoutRequest& request, std::shared_ptr<FanoutPlanner> planner) {
  if (!planner) throw std::invalid_argument("planner must not be null");
  add(request,
      [planner = std::move(planner)](const FanoutPlan& plan) { return planner->candidates(plan); });
}

void Fanout::on(std::string_view topic, std::string_view work_key, FanoutHandlerFunction function,
                HandlerOptions options) {
  fanout::require_topic(topic);
  fanout::require_work_key(work_key);
  if (!function) throw std::invalid_argument("handler must not be empty");
  add_handler(
      fanout_topic(topic, work_key),
      [this, function = std::move(function)](const Message& message, HandlerContext& context) {
        handle_slice(function, message, context);
      },
      std::move(options));
}

bool Fanout::remove(std::string_view topic, const std::optional<std::string>& work_key) {
  require_keys(topic, work_key);
  const bool had_job = jobs_->remove(fanout::job_name(topic, work_key));
  const bool had_policy =
      storage::confirmed_write(*database_, {}, [&](storage::WriteSession& session) {
        return store_->remove(session, key_of(topic, work_key));
      });
  if (had_job || had_policy) {
    log_.write(
        LogLevel::info, "fanout.removed",
        {{"store", database_->name()}, {"topic", topic}, {"work_key", work_key.value_or("")}});
  }
  return had_job || had_policy;
}

std::size_t Fanout::purge_cursors(std::string_view topic,
                                  const std::optional<std::string>& work_key,
                                  std::chrono::milliseconds age, const std::stop_token& stop) {
  require_keys(topic, work_key);
  fanout::require_age(age);
  storage::FanoutPurge part{.topic = topic,
                            .work_key = work_key,
                            .after_work_key = {},
                            .after_shard_key = {},
                            .age = age,
                            .page = purge_page};
  std::size_t purged = 0;
  while (part.page > 0 && !stop.stop_requested()) {
    auto next = part;
    std::size_t deleted = 0;
    database_->write({.repeatable = true, .stop = stop}, [&](storage::WriteSession& session) {
      next = part;
      deleted = store_->purge(session, next);
    });
    part = next;
    purged += deleted;
  }
  if (purged > 0) {
    log_.write(LogLevel::info, "fanout.cursors_purged",
               {{"store", database_->name()}, {"topic", topic}, {"count", purged}});
  }
  return purged;
}

// --- cadences

bool Fanout::set_cadence(std::string_view topic, const std::optional<std::string>& work_key,
                         std::chrono::milliseconds every,
                         std::optional<std::chrono::milliseconds> jitter) {
  require_keys(topic, work_key);
  fanout::require_every(every);
  if (jitter) fanout::require_jitter(*jitter);
  bool found = false;
  database_->write({.repeatable = true}, [&](storage::WriteSession& session) {
    found = store_->set_cadence(session, key_of(topic, work_key), every, jitter);
  });
  if (found) {
    log_.write(LogLevel::info, "fanout.cadence_set",
               {{"store", database_->name()},
                {"topic", topic},
                {"work_key", work_key.value_or("")},
                {"every_ms", std::int64_t{every.count()}}});
  }
  return found;
}

bool Fanout::reset_cadence(std::string_view topic, const std::optional<std::string>& work_key) {
  require_keys(topic, work_key);
  const bool found = storage::confirmed_write(*database_, {}, [&](storage::WriteSession& session) {
    return store_->reset_cadence(session, key_of(topic, work_key));
  });
  if (found) {
    log_.write(
        LogLevel::info, "fanout.cadence_reset",
        {{"store", database_->name()}, {"topic", topic}, {"work_key", work_key.value_or("")}});
  }
  return found;
}

std::vector<JobRunId> Fanout::run_now(std::string_view topic,
                                      const std::optional<std::string>& work_key) {
  require_keys(topic, work_key);
  const auto all = policies(std::string{topic});
  const bool has_own = std::ranges::any_of(all, [&](const FanoutPolicy& each) {
    return work_key && each.work_key == work_key && each.job;
  });
  std::vector<JobRunId> runs;
  for (const auto& each : all) {
    const bool is_meant =
        !work_key || (has_own ? each.work_key == work_key : !each.work_key.has_value());
    if (!each.job || !is_meant) continue;
    if (const auto run = jobs_->trigger(*each.job)) runs.push_back(*run);
  }
  return runs;
}

// --- reading

std::vector<FanoutPolicy> Fanout::policies(const std::optional<std::string>& topic) {
  if (topic) fanout::require_topic(*topic);
  std::vector<FanoutPolicy> found;
  database_->read([&](storage::ReadSession& session) {
    found = store_->policies(session, core::view_of(topic));
  });
  return found;
}

std::vector<FanoutCursor> Fanout::cursors(std::string_view topic, const FanoutCursorPage& page) {
  require_keys(topic, page.work_key);
  core::require_batch_size("size", page.size);
  if (page.after_work_key) core::require_text("after_work_key", *page.after_work_key);
  core::require_text("after_shard_key", page.after_shard_key);
  std::vector<FanoutCursor> found;
  database_->read(
      [&](storage::ReadSession& session) { found = store_->cursors(session, topic, page); });
  return found;
}

// --- completion

bool Fanout::mark_completed(const FanoutSlice& slice) {
  fanout::require_slice(slice);
  const bool completed = storage::confirmed_write(
      *database_, {},
      [&](storage::WriteSession& session) { return store_->mark_completed(session, slice); });
  if (completed)
    note_slice("fanout.completed", "dovetail_fanout_completed_total", slice, LogLevel::debug);
  return completed;
}

bool Fanout::mark_completed(Transaction& transaction, const FanoutSlice& slice) {
  fanout::require_slice(slice);
  if (!store_->mark_completed(storage::session_of(transaction), slice)) return false;
  storage::after_commit(transaction, [this, slice] {
    note_slice("fanout.completed", "dovetail_fanout_completed_total", slice, LogLevel::debug);
  });
  return true;
}

void Fanout::note_slice(std::string_view event, std::string_view metric, const FanoutSlice& slice,
                        LogLevel level) const {
  metrics_.count(
      metric, 1,
      {{"store", database_->name()}, {"topic", slice.topic}, {"work_key", slice.work_key}});
  log_.write(level, event,
             {{"store", database_->name()},
              {"topic", slice.topic},
              {"work_key", slice.work_key},
              {"shard_key", slice.shard_key}});
}

}  // namespace dovetail
