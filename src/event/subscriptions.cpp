#include <algorithm>
#include <array>
#include <stdexcept>

#include "core/require.hpp"
#include "dovetail/subscription.hpp"
#include "event/registrations.hpp"
#include "event/rules.hpp"
#include "storage/confirmed_write.hpp"
#include "storage/database.hpp"
#include "storage/subscription_store.hpp"
#include "storage/transaction_access.hpp"

namespace dovetail {

using event::require_subscription_name;
using std::chrono::milliseconds;

namespace {

/// The time between two looks of wait_for() and tail().
constexpr milliseconds wait_interval{10};

}  // namespace

std::string_view to_string(SubscriptionFailure policy) {
  constexpr std::array<std::string_view, 4> words{"retry", "stop", "park_event", "park_stream"};
  return words.at(static_cast<std::size_t>(policy));
}

std::string_view to_string(ParkedKind kind) {
  constexpr std::array<std::string_view, 3> words{"event", "stream", "skipped"};
  return words.at(static_cast<std::size_t>(kind));
}

SubscriptionStart SubscriptionStart::after(std::int64_t position) {
  if (position < 0) throw std::out_of_range("position must not be negative");
  return SubscriptionStart{position};
}

Subscriptions::Subscriptions(storage::Database& database, Events& events, Logger log,
                             Metrics metrics)
    : database_(&database),
      store_(&database.store<storage::SubscriptionStore>()),
      events_(&events),
      log_(std::move(log)),
      metrics_(std::move(metrics)),
      registrations_(std::make_unique<event::Registrations>()) {}

Subscriptions::~Subscriptions() = default;

void Subscriptions::add(std::string_view name, SubscriptionOptions options,
                        SubscriptionHandler handler) {
  registrations_->add(event::checked(name, std::move(options), std::move(handler)));
}

// --- state

std::vector<SubscriptionStatus> Subscriptions::list() {
  std::vector<SubscriptionStatus> all;
  database_->read(
      [&](storage::ReadSession& session) { all = store_->list(session, std::nullopt); });
  return all;
}

std::optional<SubscriptionStatus> Subscriptions::find(std::string_view name) {
  require_subscription_name(name);
  std::vector<SubscriptionStatus> found;
  database_->read([&](storage::ReadSession& session) { found = store_->list(session, name); });
  return found.empty() ? std::nullopt : std::optional{found.front()};
}

std::vector<SubscriptionPart> Subscriptions::parts(std::string_view name) {
  require_subscription_name(name);
  std::vector<SubscriptionPart> parts;
  database_->read([&](storage::ReadSession& session) { parts = store_->parts(session, name); });
  return parts;
}

std::vector<ParkedEvent> Subscriptions::parked(std::string_view name) {
  require_subscription_name(name);
  std::vector<ParkedEvent> parked;
  database_->read(
      [&](storage::ReadSession& session) { parked = store_->parked(session, name, 1, 0); });
  return parked;
}

bool Subscriptions::wait_for(std::string_view name, std::int64_t position, milliseconds timeout,
                             const std::stop_token& stop) {
  auto& clock = database_->clock();
  const auto until = clock.mono() + timeout;
  for (;;) {
    const auto all = parts(name);
    const bool passed = std::ranges::all_of(
        all, [&](const SubscriptionPart& each) { return each.position >= position; });
    if (passed && !all.empty()) return true;
    const auto now = clock.mono();
    if (now >= until) return false;
    if (!clock.sleep_until(std::min<MonoTime>(until, now + wait_interval), stop)) return false;
  }
}

// --- operation

bool Subscriptions::pause(std::string_view name) {
  require_subscription_name(name);
  return storage::confirmed_write(
      *database_, {.single_statement = true},
      [&](storage::WriteSession& session) { return store_->pause(session, name); });
}

bool Subscriptions::resume(std::string_view name) {
  require_subscription_name(name);
  return storage::confirmed_write(*database_, {}, [&](storage::WriteSession& session) {
    return store_->resume(session, name);
  });
}

std::size_t Subscriptions::resume_parked(std::string_view name,
                                         std::optional<std::string_view> stream) {
  require_subscription_name(name);
  if (stream) event::require_stream_key(*stream);
  const auto count = storage::confirmed_answer<std::size_t>(
      *database_, {},
      [&](storage::WriteSession& session, const storage::Attempt&) -> std::optional<std::size_t> {
        const auto resumed = store_->resume_parked(session, name, stream);
        return resumed > 0 ? std::optional{resumed} : std::nullopt;
      });
  return count.value_or(0);
}

bool Subscriptions::skip(std::string_view name, std::int64_t position) {
  require_subscription_name(name);
  if (position < 1) throw std::out_of_range("position must be 1 or more");
  bool done = false;
  // Not repeated after a commit in doubt: a second run would have another effect.
  database_->write(
      {}, [&](storage::WriteSession& session) { done = store_->skip(session, name, position); });
  return done;
}

bool Subscriptions::rebuild(std::string_view name, std::int64_t position) {
  require_subscription_name(name);
  if (position < 0) throw std::out_of_range("position must not be negative");
  bool done = false;
  // Not repeated after a commit in doubt: a second run would have another effect.
  database_->write(
      {}, [&](storage::WriteSession& session) { done = store_->rebuild(session, name, position); });
  return done;
}

bool Subscriptions::rebuild(Transaction& transaction, std::string_view name,
                            std::int64_t position) {
  require_subscription_name(name);
  if (position < 0) throw std::out_of_range("position must not be negative");
  return store_->rebuild(storage::session_of(transaction), name, position);
}

bool Subscriptions::remove(std::string_view name) {
  require_subscription_name(name);
  return storage::confirmed_write(*database_, {}, [&](storage::WriteSession& session) {
    return store_->remove(session, name);
  });
}

// --- tail

void Subscriptions::tail(const TailOptions& options,
                         const std::function<void(const Event& event)>& handler,
                         const std::stop_token& stop) {
  if (!handler) throw std::invalid_argument("handler must not be empty");
  FeedPage page{.types = options.types, .prefixes = options.prefixes};
  if (options.after) page.after = *options.after;
  event::require_page(page);
  if (!options.after) page.after = events_->stamp();
  while (!stop.stop_requested()) {
    events_->stamp();
    const auto feed = events_->read_all(page);
    for (const auto& event : feed.events) {
      if (stop.stop_requested()) return;
      handler(event);
    }
    if (feed.upto > page.after) {
      page.after = feed.upto;
    } else if (!database_->clock().sleep_for(wait_interval, stop)) {
      return;
    }
  }
}

}  // namespace dovetail
