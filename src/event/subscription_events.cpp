// How a runner handles the events of its part.
#include <algorithm>

#include "core/random.hpp"
#include "core/text.hpp"
#include "dovetail/backoff.hpp"
#include "dovetail/handler.hpp"
#include "event/subscription_context.hpp"
#include "event/subscription_runner.hpp"

namespace dovetail::event {
namespace {

constexpr std::int64_t scan_size = 20'000;  // positions that one page examines
constexpr int scan_of_resumed = 10'000;
/// A page with this many events is full, also if it could be larger.
constexpr int full_page = 1'000;
constexpr std::chrono::milliseconds longest_retry_delay = std::chrono::hours{24 * 365};

/// A handler may take any time: the loop counts as resting.
template <class Call>
void call_aside(core::LoopProgress& progress, const Call& call) {
  const core::LoopProgress::Aside handler_runs(progress);
  call();
}

}  // namespace

// --- pages

Feed SubscriptionRunner::read_page(const std::stop_token& stop) {
  const auto& options = registration_.options;
  const auto& lease = holding_->lease();
  FeedPage page{.after = position_,
                .size = position_ < single_until_ ? 1 : options.batch_size,
                .scan = scan_size,
                .types = options.types,
                .prefixes = options.prefixes};
  if (lease.drain_to)
    page.scan = static_cast<int>(std::min<std::int64_t>(scan_size, *lease.drain_to - position_));
  Feed feed;
  scope_->database.read(
      [&](storage::ReadSession& session) {
        feed = scope_->events.read_all(
            session,
            {.page = page, .parts = lease.parts, .part = lease.part, .catches_up = catches_up_});
      },
      {.stop = stop});
  catches_up_ = feed.events.size() >= static_cast<std::size_t>(std::min(page.size, full_page));
  return feed;
}

bool SubscriptionRunner::is_parked(const Event& event) const {
  return parked_positions_.contains(event.position) || parked_streams_.contains(event.stream);
}

bool SubscriptionRunner::handle_page(const std::stop_token& stop) {
  auto feed = read_page(stop);
  if (feed.upto <= position_) return false;
  std::erase_if(feed.events, [this](const Event& event) { return is_parked(event); });
  const auto advance = [&](bool durable) -> Move {
    const storage::PartMove move{.from = position_, .to = feed.upto, .durable = durable};
    return [this, move](storage::WriteSession& session) {
      return scope_->store.advance(session, holding_->lease(), move);
    };
  };
  if (feed.events.empty()) {
    if (!write(advance(false))) {
      forget();
    } else {
      position_ = feed.upto;
      failed_attempts_ = 0;
    }
    return true;
  }
  switch (call(feed.events, stop, {advance(true), advance(false)})) {
    case Called::done:
      position_ = feed.upto;
      failed_attempts_ = 0;
      break;
    case Called::lost:
      forget();
      break;
    case Called::failed:
      if (stop.stop_requested()) return true;
      if (holding_->is_lost()) {  // its stop token has fired: no failure of the event
        forget();
        return true;
      }
      note_failure(feed.events.front(), feed.events.size());
      if (feed.events.size() > 1) {
        single_until_ = feed.events.back().position;  // one of them fails
      } else {
        apply_policy(feed.events.front());
      }
  }
  return true;
}

// --- calls

SubscriptionRunner::Called SubscriptionRunner::call(std::span<const Event> events,
                                                    const std::stop_token& stop,
                                                    const Moves& moves) {
  auto& source = holding_->stop();
  const std::stop_callback ends_with_us(stop, [&source] { source.request_stop(); });
  CallContext context(scope_->database, holding_->lease(), source.get_token());
  const auto begun_at = clock().mono();
  {
    const std::lock_guard lock(mutex_);
    handling_ = true;
  }
  auto called = Called::failed;
  is_permanent_ = false;
  std::exception_ptr transient;
  try {
    call_aside(progress(), [&] { registration_.handler(events, context); });
    called = commit(context.begun(), moves) ? Called::done : Called::lost;
    last_failure_.clear();
  } catch (const PermanentFailure& error) {
    last_failure_ = core::printable(error.what());
    is_permanent_ = true;
  } catch (const Error& error) {
    last_failure_ = core::printable(error.what());
    if (error.is_transient() || error.is_in_doubt()) transient = std::current_exception();
  } catch (const std::exception& error) {
    last_failure_ = core::printable(error.what());
  } catch (...) {
    last_failure_ = "an exception that is no std::exception";
  }
  {
    const std::lock_guard lock(mutex_);
    handling_ = false;
  }
  ended_.notify_all();
  if (transient) std::rethrow_exception(transient);
  scope_->metrics.time("dovetail_events_handler_seconds", clock().mono() - begun_at,
                       {{"store", scope_->database.name()}, {"subscription", registration_.name}});
  if (called == Called::done) {
    scope_->metrics.count(
        "dovetail_events_handled_total", events.size(),
        {{"store", scope_->database.name()}, {"subscription", registration_.name}});
  }
  return called;
}

bool SubscriptionRunner::commit(storage::TransactionHandle* transaction, const Moves& moves) {
  if (transaction == nullptr) {
    bool moved = false;
    scope_->database.write({.single_statement = true, .stop = cut_.get_token()},
                           [&](storage::WriteSession& session) { moved = moves.alone(session); });
    return moved;
  }
  if (!moves.with_handler(transaction->session())) {
    transaction->rollback();
    return false;
  }
  transaction->commit();
  return true;
}

bool SubscriptionRunner::write(const Move& move) {
  bool moved = false;
  scope_->database.write({.stop = cut_.get_token()},
                         [&](storage::WriteSession& session) { moved = move(session); });
  return moved;
}

// --- failures

void SubscriptionRunner::note_failure(const Event& first, std::size_t count) {
  scope_->metrics.count("dovetail_events_handler_failed_total", 1,
                        {{"store", scope_->database.name()}, {"subscription", registration_.name}});
  scope_->log.write(LogLevel::warn, "subscription.handler_failed",
                    {{"store", scope_->database.name()},
                     {"subscription", registration_.name},
                     {"part", part_},
                     {"position", first.position},
                     {"count", count},
                     {"error", last_failure_}});
}

std::chrono::milliseconds SubscriptionRunner::retry_delay(int attempts) const {
  const auto& backoff = registration_.options.backoff;
  if (backoff) {
    try {
      return std::clamp(backoff(attempts), std::chrono::milliseconds{0}, longest_retry_delay);
    } catch (...) {  // NOLINT(bugprone-empty-catch): the default applies
    }
  }
  return ExponentialBackoff{}.delay(attempts - 1, core::random_unit());
}

void SubscriptionRunner::apply_policy(const Event& event) {
  const auto policy = registration_.options.on_failure;
  const auto& lease = holding_->lease();
  const int attempts = failed_attempts_ + 1;
  const bool is_last = policy != SubscriptionFailure::retry &&
                       (is_permanent_ || attempts >= registration_.options.max_attempts);
  const bool stops = is_last && policy == SubscriptionFailure::stop;
  const auto delay = retry_delay(attempts);
  std::optional<int> counted;
  write([&](storage::WriteSession& session) {
    counted = scope_->store.fail(session, lease, last_failure_, delay, stops);
    return counted.has_value();
  });
  failed_attempts_ = counted.value_or(0);
  retry_at_ = clock().mono() + delay;
  load_parked({});  // an operator may have skipped the event
  if (!counted || stops) return forget();
  if (is_last) park(event);
}

void SubscriptionRunner::park(const Event& event) {
  const auto kind = registration_.options.on_failure == SubscriptionFailure::park_event
                        ? ParkedKind::event
                        : ParkedKind::stream;
  const bool parked = write([&](storage::WriteSession& session) {
    return scope_->store.park(session, holding_->lease(), {.from = position_, .to = event.position},
                              kind, last_failure_);
  });
  if (!parked) return forget();
  scope_->log.write(LogLevel::error, "subscription.parked",
                    {{"store", scope_->database.name()},
                     {"subscription", registration_.name},
                     {"stream", event.stream},
                     {"position", event.position},
                     {"error", last_failure_}});
  position_ = event.position;
  failed_attempts_ = 0;
  retry_at_ = MonoTime::min();
  last_failure_.clear();
  load_parked({});
}

// --- resumed events

bool SubscriptionRunner::handle_resumed(const std::stop_token& stop) {
  const auto found = std::ranges::find_if(
      parked_, [](const ParkedEvent& each) { return each.resumed_at.has_value(); });
  if (found == parked_.end()) return false;
  const auto position = found->position;
  auto parked = *found;
  const auto resumed = handle_resumed(parked, stop);
  if (resumed == Resumed::interrupted || holding_->is_lost()) {
    forget();
    return true;
  }
  if (resumed == Resumed::failed && !stop.stop_requested()) {
    const bool held = write([&](storage::WriteSession& session) {
      return scope_->store.fail_parked(session, holding_->lease(), position, parked.position,
                                       last_failure_);
    });
    last_failure_.clear();  // it is parked again
    if (!held) forget();
  }
  if (holding_) load_parked(stop);
  return true;
}

bool SubscriptionRunner::is_skipped(const Event& event) const {
  return std::ranges::any_of(parked_, [&](const ParkedEvent& parked) {
    return parked.kind == ParkedKind::skipped && parked.position == event.position;
  });
}

/// Handles the events of a parked stream up to the position of the part, one at a time, or one
/// parked event. If one of them fails, `parked` has its position.
SubscriptionRunner::Resumed SubscriptionRunner::handle_resumed(ParkedEvent& parked,
                                                               const std::stop_token& stop) {
  const auto& lease = holding_->lease();
  const auto first = parked.position;
  const auto last = parked.kind == ParkedKind::stream ? position_ : first;
  FeedPage page{.after = first - 1,
                .size = registration_.options.batch_size,
                .scan = scan_of_resumed,
                .types = registration_.options.types,
                .prefixes = {parked.stream}};
  while (page.after < last) {
    Feed feed;
    page.scan = static_cast<int>(std::min<std::int64_t>(scan_of_resumed, last - page.after));
    scope_->database.read(
        [&](storage::ReadSession& session) {
          feed = scope_->events.read_all(session,
                                         {.page = page, .parts = lease.parts, .part = lease.part});
        },
        {.stop = stop});
    for (const auto& event : feed.events) {
      if (event.stream != parked.stream || event.version < parked.version || is_skipped(event))
        continue;
      const auto move = [&](storage::WriteSession& session) {
        return scope_->store.move_parked(session, lease, first, event.version);
      };
      const auto called = call(std::span{&event, 1}, stop, {move, move});
      if (called == Called::done) continue;
      parked.position = event.position;
      if (called == Called::failed) note_failure(event, 1);
      return called == Called::failed ? Resumed::failed : Resumed::interrupted;
    }
    if (feed.upto <= page.after) break;
    page.after = feed.upto;
  }
  const bool removed = write([&](storage::WriteSession& session) {
    return scope_->store.move_parked(session, lease, first, std::nullopt);
  });
  return removed ? Resumed::done : Resumed::interrupted;
}

}  // namespace dovetail::event
