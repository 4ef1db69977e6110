// Rounds: a cron job's message takes the lease, asks the planner, and enqueues the due slices.
#include <algorithm>
#include <future>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/text.hpp"
#include "dovetail/error.hpp"
#include "dovetail/fanout.hpp"
#include "fanout/registrations.hpp"
#include "fanout/round_join.hpp"
#include "fanout/rules.hpp"
#include "storage/confirmed_write.hpp"
#include "storage/database.hpp"
#include "storage/fanout_store.hpp"
#include "storage/queue_names.hpp"

namespace dovetail {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t candidates_at_once = 5'000;
constexpr std::size_t candidates_of_transaction = 2'500;
constexpr std::size_t candidates_of_one_writer = 1'000;  // other writers wait for it
constexpr milliseconds longest_busy_pause{10'000};
constexpr std::size_t logged_bad_candidates = 10;  // per round

/// Returns why a candidate cannot be planned, or an empty string if it can. Sets a missing work key
/// to that of the plan.
std::string problem_of(const FanoutPlan& plan, FanoutCandidate& candidate) {
  if (candidate.work_key.empty() && plan.work_key) candidate.work_key = *plan.work_key;
  if (plan.work_key && candidate.work_key != *plan.work_key)
    return "the planner was asked for the work key " + *plan.work_key;
  try {
    fanout::require_shard_key(candidate.shard_key);
    fanout::require_work_key(std::string_view{candidate.work_key});
    return {};
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

void require_running(const FanoutPlan& plan) {
  if (!plan.stop.stop_requested()) return;
  throw Error({.kind = ErrorKind::cancelled, .native_code = {}, .statement = "fanout_plan"},
              "the round was stopped before its end; the slices that it has enqueued stay");
}

void add_planned(FanoutRound& round, const FanoutRound& planned) {
  round.enqueued += planned.enqueued;
  round.replaced += planned.replaced;
}

std::string output_of(const FanoutRound& round) {
  return nlohmann::ordered_json{{"candidates", round.candidates},
                                {"enqueued", round.enqueued},
                                {"rejected", round.rejected},
                                {"replaced", round.replaced}}
      .dump();
}

}  // namespace

void Fanout::handle_round(const Registration& registration, const Message& message,
                          HandlerContext& context) {
  const auto& request = registration.request;
  const auto name = fanout::name_of(request.topic, request.work_key);
  const auto runner = LeaseRunner::try_start(
      *leases_, name, {.duration = request.lease, .limit = 0, .stop = context.stop_token()});
  if (!runner) {
    log_.write(LogLevel::info, "fanout.busy", {{"store", database_->name()}, {"fanout", name}});
    context.snooze(std::min(request.lease / 3, longest_busy_pause));
    return;
  }
  const FanoutPlan plan{request.topic, request.work_key, runner->stop_token()};
  std::optional<RoundJoin> join;
  if (request.join) join.emplace(*database_, *outbox_, *joins_, plan, message.id);
  const auto round = run_round(plan, registration.planner(plan), join ? &*join : nullptr);
  if (const auto run = Jobs::run_of(message)) jobs_->set_output(*run, output_of(round));
}

FanoutRound Fanout::enqueue_due(const FanoutPlan& plan, FanoutCandidates candidates) {
  fanout::require_topic(plan.topic);
  fanout::require_work_key(plan.work_key);
  return run_round(plan, std::move(candidates), nullptr);
}

FanoutRound Fanout::run_round(const FanoutPlan& plan, FanoutCandidates candidates,
                              RoundJoin* join) {
  require_policy(plan);
  const auto begun = database_->clock().mono();
  FanoutRound round;
  std::vector<FanoutCandidate> page;
  std::vector<FanoutCandidate> waiting;  // small pages share a transaction
  const auto plan_waiting = [&] {
    add_planned(round, plan_pages(plan, waiting, join));
    waiting.clear();
  };
  while (require_running(plan), candidates.next_page(page)) {
    round.candidates += page.size();
    keep_good(plan, page, round);
    std::ranges::move(page, std::back_inserter(waiting));
    page.clear();
    if (waiting.size() >= candidates_at_once) plan_waiting();
  }
  plan_waiting();
  metrics_.time("dovetail_fanout_round_seconds", database_->clock().mono() - begun,
                {{"store", database_->name()}, {"topic", plan.topic}});
  note_round(plan, round);
  return round;
}

void Fanout::require_policy(const FanoutPlan& plan) {
  const auto all = policies(plan.topic);
  const bool found = std::ranges::any_of(all, [&](const FanoutPolicy& each) {
    return !plan.work_key || !each.work_key || each.work_key == plan.work_key;
  });
  if (!found) {
    throw InvalidOperation("there is no fan-out " + fanout::name_of(plan.topic, plan.work_key) +
                           ": it was removed, or never added");
  }
}

void Fanout::keep_good(const FanoutPlan& plan, std::vector<FanoutCandidate>& page,
                       FanoutRound& round) const {
  std::erase_if(page, [&](FanoutCandidate& candidate) {
    const auto problem = problem_of(plan, candidate);
    if (problem.empty()) return false;
    if (++round.rejected <= logged_bad_candidates) {
      log_.write(LogLevel::error, "fanout.bad_candidate",
                 {{"store", database_->name()},
                  {"topic", plan.topic},
                  {"work_key", core::printable(core::trimmed(candidate.work_key, 100))},
                  {"shard_key", core::printable(core::trimmed(candidate.shard_key, 256))},
                  {"error", problem}});
    }
    return true;
  });
}

/// If the database allows several writers, two transactions run at the same time, unless both would
/// change the row of one join.
FanoutRound Fanout::plan_pages(const FanoutPlan& plan, std::span<const FanoutCandidate> candidates,
                               RoundJoin* join) {
  const bool one_writer = database_->transactions_exclude_writers();
  const auto most = one_writer ? candidates_of_one_writer : candidates_of_transaction;
  const auto next = [&] {
    const auto some = candidates.first(std::min(candidates.size(), most));
    candidates = candidates.subspan(some.size());
    return some;
  };
  FanoutRound round;
  while (!candidates.empty()) {
    const auto first = next();
    std::future<FanoutRound> beside;  // its destructor waits
    if (join == nullptr && !one_writer && !candidates.empty()) {
      beside = std::async(std::launch::async, [this, &plan, second = next()] {
        return plan_page(plan, second, nullptr);
      });
    }
    add_planned(round, plan_page(plan, first, join));
    if (beside.valid()) add_planned(round, beside.get());
  }
  return round;
}

FanoutRound Fanout::plan_page(const FanoutPlan& plan, std::span<const FanoutCandidate> page,
                              RoundJoin* join) {
  using Slices = std::vector<storage::EnqueuedSlice>;
  require_running(plan);
  const auto slices = storage::confirmed_answer<Slices>(
      *database_, {.stop = plan.stop},
      [&](storage::WriteSession& session, const storage::Attempt&) -> std::optional<Slices> {
        auto stored = store_->plan(session, plan.topic, page);
        if (stored.empty()) return std::nullopt;
        if (join != nullptr) join->attach(session, stored);
        return stored;
      });
  FanoutRound round;
  if (!slices) return round;
  round.enqueued = slices->size();
  round.replaced =
      static_cast<std::size_t>(std::ranges::count_if(*slices, &storage::EnqueuedSlice::replaced));
  return round;
}

void Fanout::note_round(const FanoutPlan& plan, const FanoutRound& round) const {
  metrics_.count("dovetail_fanout_candidates_total", round.candidates,
                 {{"store", database_->name()}, {"topic", plan.topic}});
  metrics_.count("dovetail_fanout_enqueued_total", round.enqueued,
                 {{"store", database_->name()}, {"topic", plan.topic}});
  metrics_.count("dovetail_enqueued_total", round.enqueued,
                 {{"store", database_->name()},
                  {"queue", storage::queue_names::outbox},
                  {"topic", plan.topic}});
  metrics_.count("dovetail_fanout_rejected_total", round.rejected,
                 {{"store", database_->name()}, {"topic", plan.topic}});
  metrics_.count("dovetail_fanout_replaced_total", round.replaced,
                 {{"store", database_->name()}, {"topic", plan.topic}});
  log_.write(LogLevel::info, "fanout.round",
             {{"store", database_->name()},
              {"topic", plan.topic},
              {"work_key", plan.work_key.value_or("")},
              {"candidates", round.candidates},
              {"enqueued", round.enqueued},
              {"rejected", round.rejected},
              {"replaced", round.replaced}});
}

}  // namespace dovetail
