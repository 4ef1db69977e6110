// The calls of a route's Publisher, and what follows from its answers.
#include <algorithm>
#include <map>
#include <set>

#include "core/random.hpp"
#include "storage/row_hint.hpp"
#include "transport/publish_service.hpp"

namespace dovetail::transport {
namespace {

using Verdict = storage::Settlement::Kind;
using std::chrono::milliseconds;

/// A message without an answer, while others of the same call were confirmed, gives way to others.
constexpr milliseconds unanswered_delay{1'000};
/// A message counts as lost this long before its lease expires.
constexpr int safety_share = 10;
/// A message is published alone after its lease was lost this many times, each time by a process
/// that did not return.
constexpr int suspicious_losses = 2;

}  // namespace

void PublishService::publish_batch(Lane& lane) {
  for (;;) {
    const auto works = next_call(lane);
    if (works.empty()) break;
    publish(lane, works);
  }
  {
    const std::lock_guard lock(mutex_);
    lane.works.clear();
    wakes_.notify_all();  // lanes that wait for room in the window
  }
  set_gauges();
}

std::vector<PublishService::Work*> PublishService::next_call(Lane& lane) {
  std::vector<Work*> works;
  std::set<std::string_view> streams;
  const std::lock_guard lock(mutex_);
  const auto now = clock().mono();
  for (auto& work : lane.works) {
    const auto stream = work.message.stream ? std::string_view{*work.message.stream} : "";
    if (work.ended || (!stream.empty() && streams.contains(stream))) continue;
    const bool is_suspect = work.lost_leases >= suspicious_losses;
    if (is_suspect && !works.empty()) continue;
    if (!admit(lane, work, now)) continue;
    works.push_back(&work);
    streams.insert(stream);
    if (is_suspect) break;
  }
  return works;
}

bool PublishService::admit(Lane& lane, Work& work, MonoTime now) {
  const auto margin = std::min<MonoDuration>(worker_.lease / safety_share, std::chrono::seconds{1});
  if (work.lost) {
    work.ended = true;
    planner_.release(1);
    give_back_successors(lane, work);
    return false;
  }
  if (stopping_ || breaker_.is_open() || work.lease_end - margin <= now) {
    give_back(lane, work);
    give_back_successors(lane, work);
    return false;
  }
  if (work.expires && *work.expires <= now) {
    settle(lane, work,
           {.kind = Verdict::fail,
            .error = "expired before it was handled",
            .charge = 0,
            .on_stream_failure = StreamFailure::park});
    return false;
  }
  if (work.lost_leases > 0 && work.message.attempts >= route_.max_attempts) {
    settle(lane, work,
           {.kind = Verdict::fail,
            .error = "the lease expired on the last attempt",
            .charge = 0,
            .on_stream_failure = route_.options.on_stream_failure});
    give_back_successors(lane, work);
    return false;
  }
  return true;
}

void PublishService::publish(Lane& lane, const std::vector<Work*>& works) {
  std::vector<Message> messages;
  messages.reserve(works.size());
  for (auto* work : works) messages.push_back(std::move(work->message));
  set_gauges();
  const auto outcomes = call(lane, messages);
  for (std::size_t i = 0; i < works.size(); ++i) works[i]->message = std::move(messages[i]);
  note_outcomes(lane, works, outcomes);
}

std::vector<PublishOutcome> PublishService::call(Lane& lane, std::span<const Message> messages) {
  const auto began = clock().mono();
  std::vector<PublishOutcome> outcomes;
  std::string reason = "the publisher returned no answer";
  try {
    const core::LoopProgress::Aside aside(lane.progress);
    outcomes = route_.publisher->publish(
        messages, {.deadline = std::chrono::steady_clock::now() + route_.options.timeout,
                   .stop = calls_.get_token(),
                   .source = source_name_});
  } catch (const std::exception& error) {
    outcomes.clear();
    reason = error.what();
  } catch (...) {
    outcomes.clear();
  }
  outcomes.resize(messages.size(), {.result = PublishResult::unavailable, .reason = reason});
  scope_.metrics.time("dovetail_transport_publish_seconds", clock().mono() - began,
                      {{"store", store()}, {"route", route_.pattern}});
  return outcomes;
}

void PublishService::note_outcomes(Lane& lane, const std::vector<Work*>& works,
                                   const std::vector<PublishOutcome>& outcomes) {
  std::map<PublishResult, std::uint64_t> results;
  for (const auto& each : outcomes) ++results[each.result];
  for (const auto& [result, count] : results) {
    scope_.metrics.count(
        "dovetail_transport_published_total", count,
        {{"store", store()}, {"route", route_.pattern}, {"result", to_string(result)}});
  }
  for (std::size_t i = 0; i < works.size(); ++i) report(works[i]->message, outcomes[i]);
  const bool some_confirmed = results.contains(PublishResult::confirmed);
  const std::lock_guard lock(mutex_);
  counts_.confirmed += results[PublishResult::confirmed];
  counts_.rejected += results[PublishResult::rejected];
  counts_.dead += results[PublishResult::refused];
  note_breaker(outcomes);
  for (std::size_t i = 0; i < works.size(); ++i) {
    auto& work = *works[i];
    auto settlement =
        settlement_of(route_, work.claim, work.message.attempts, outcomes[i], core::random_unit());
    const auto result = outcomes[i].result;
    if (result == PublishResult::unavailable && some_confirmed) settlement.delay = unanswered_delay;
    settle(lane, work, std::move(settlement));
    if (result != PublishResult::confirmed) give_back_successors(lane, work);
  }
}

/// Under the mutex.
void PublishService::note_breaker(const std::vector<PublishOutcome>& outcomes) {
  const auto unavailable = [](const PublishOutcome& each) {
    return each.result == PublishResult::unavailable;
  };
  const auto first = std::ranges::find_if(outcomes, unavailable);
  if (!std::ranges::all_of(outcomes, unavailable)) breaker_.note_success();
  if (first == outcomes.end() || calls_.stop_requested()) return;
  if (!breaker_.open(first->reason, core::random_unit(), clock().mono())) return;
  scope_.metrics.gauge("dovetail_transport_breaker_open", 1,
                       {{"store", store()}, {"route", route_.pattern}});
  scope_.log.write(LogLevel::warn, "transport.unavailable",
                   {{"store", store()},
                    {"route", route_.pattern},
                    {"address", route_.publisher->address()},
                    {"error", first->reason}});
}

void PublishService::report(const Message& message, const PublishOutcome& outcome) const {
  const bool rejected = outcome.result == PublishResult::rejected;
  if (!rejected && outcome.result != PublishResult::refused) return;
  const bool last = !rejected || message.attempts + 1 >= route_.max_attempts;
  scope_.log.write(last ? LogLevel::error : LogLevel::warn,
                   scope_.event(last ? "dead_letter" : "retry"),
                   {{"store", store()},
                    {"topic", message.topic},
                    {"message_id", message.message_id.to_string()},
                    {"attempt", message.attempts + 1},
                    {"route", route_.pattern},
                    {"error", outcome.reason}});
}

void PublishService::set_gauges() const {
  std::size_t held = 0;
  {
    const std::lock_guard lock(mutex_);
    held = planner_.held();
  }
  scope_.metrics.gauge("dovetail_transport_in_flight", static_cast<double>(held),
                       {{"store", store()}, {"route", route_.pattern}});
}

// --- under the mutex

void PublishService::settle(Lane& lane, Work& work, storage::Settlement settlement) {
  work.ended = true;
  planner_.release(1);
  settlement.claim = work.claim;
  if (work.renewed) storage::forget_row(settlement.claim);
  const auto outcome = runtime::outcome_of(settlement, work.message);
  lane.finished.push_back({.settlement = std::move(settlement),
                           .priority = work.message.priority,
                           .place = work.place,
                           .lease_end = work.lease_end,
                           .stream = work.message.stream.value_or(""),
                           .topic = work.message.topic,
                           .outcome = outcome});
}

void PublishService::give_back(Lane& lane, Work& work) {
  settle(lane, work, {.kind = Verdict::snooze});
}

void PublishService::give_back_successors(Lane& lane, const Work& work) {
  if (!work.message.stream) return;
  bool is_behind = false;
  for (auto& each : lane.works) {
    if (&each == &work) {
      is_behind = true;
    } else if (is_behind && !each.ended && each.message.stream == work.message.stream) {
      if (each.lost) {
        each.ended = true;
        planner_.release(1);
      } else {
        give_back(lane, each);
      }
    }
  }
}

}  // namespace dovetail::transport
