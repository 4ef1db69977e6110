#include <algorithm>
#include <set>

#include "core/require.hpp"
#include "dovetail/event.hpp"
#include "dovetail/outbox.hpp"
#include "dovetail/subscription.hpp"
#include "event/rules.hpp"
#include "queue/enqueued_count.hpp"
#include "queue/new_messages.hpp"
#include "storage/confirmed_write.hpp"
#include "storage/database.hpp"
#include "storage/event_store.hpp"
#include "storage/queue_names.hpp"
#include "storage/transaction_access.hpp"

namespace dovetail {

using event::require_stream_key;
using storage::after_commit;
using storage::AppendOutcome;
using storage::EventAppend;
using storage::EventOutcome;
using storage::session_of;

Events::Events(storage::Database& database, Outbox& outbox, EventOptions options, Logger log,
               Metrics metrics)
    : database_(&database),
      store_(&database.store<storage::EventStore>()),
      producer_(&database.queue(storage::queue_names::outbox).producer),
      outbox_(&outbox),
      options_(options),
      log_(std::move(log)),
      metrics_(std::move(metrics)) {
  event::require_event_options(options_);
  subscriptions_ = std::make_unique<Subscriptions>(database, *this, log_, metrics_);
}

Events::~Events() = default;

void Events::subscribe(std::string_view name, SubscriptionOptions options,
                       SubscriptionHandler handler) {
  subscriptions_->add(name, std::move(options), std::move(handler));
}

bool Events::wait_for(std::string_view subscription, std::int64_t position,
                      std::chrono::milliseconds timeout, const std::stop_token& stop) {
  return subscriptions_->wait_for(subscription, position, timeout, stop);
}

// --- append

namespace {

Appended appended(const EventAppend& order, const EventOutcome& outcome) {
  return {.first_version = outcome.version - static_cast<std::int64_t>(order.events.size()) + 1,
          .version = outcome.version,
          .stored = outcome.outcome == AppendOutcome::appended};
}

std::vector<Appended> appended(std::span<const EventAppend> orders,
                               std::span<const EventOutcome> outcomes) {
  std::vector<Appended> all;
  all.reserve(orders.size());
  for (std::size_t i = 0; i < orders.size(); ++i) all.push_back(appended(orders[i], outcomes[i]));
  return all;
}

std::size_t count_events(std::span<const EventAppend> orders) {
  std::size_t count = 0;
  for (const auto& order : orders) count += order.events.size();
  return count;
}

bool is_stored(const EventOutcome& outcome) {
  return outcome.outcome == AppendOutcome::appended;
}

/// The messages that an append publishes.
queue::EnqueuedCount published_by(std::span<const storage::EventAppend> orders,
                                  const AppendOptions& options) {
  queue::EnqueuedCount count;
  if (!options.publish) return count;
  for (const auto& order : orders) {
    for (const auto& event : order.events) count.add(event.type, true);
  }
  return count;
}

}  // namespace

void Events::require_appendable(Orders orders, const AppendOptions& options) const {
  std::set<Uuid> ids;
  for (const auto& order : orders) {
    for (const auto& event : order.events) {
      if (!order.fresh && !ids.insert(event.id).second)
        throw std::invalid_argument("two events of an append have the same id");
    }
  }
  if (!options.publish) return;
  const auto limits = queue::limits_of(outbox_->options());
  for (const auto& order : orders) event::PublishedMessages(order, 0, limits);
}

void Events::require_appended(Orders orders, const Outcomes& outcomes) const {
  for (std::size_t i = 0; i < orders.size(); ++i) {
    if (outcomes[i].outcome == AppendOutcome::duplicate) {
      throw InvalidOperation("nothing was appended to stream \"" + std::string{orders[i].stream} +
                             "\": some of the ids belong to events that were appended before; "
                             "repeat an append with all of its events, or give new events new ids");
    }
    if (outcomes[i].outcome == AppendOutcome::closed)
      throw StreamClosed(std::string{orders[i].stream});
    if (outcomes[i].outcome == AppendOutcome::conflict) {
      metrics_.count("dovetail_events_conflicts_total", 1, {{"store", database_->name()}});
      throw VersionConflict(std::string{orders[i].stream}, orders[i].expected, outcomes[i].version);
    }
  }
}

Events::Outcomes Events::store_events(storage::WriteSession& session, Orders orders,
                                      const AppendOptions& options) {
  auto outcomes = orders.size() == 1 ? std::vector{store_->append(session, orders.front())}
                                     : store_->append_many(session, orders);
  if (!options.publish || !std::ranges::all_of(outcomes, is_stored)) return outcomes;
  for (std::size_t i = 0; i < orders.size(); ++i) {
    const event::PublishedMessages published(orders[i], outcomes[i].version, outbox_->options());
    producer_->enqueue_many(session, published.messages(), false);
  }
  return outcomes;
}

/// Events that an earlier attempt of the same call has stored count as stored.
Events::Outcomes Events::append_alone(std::vector<EventAppend>& orders,
                                      const AppendOptions& options) {
  require_appendable(orders, options);
  Outcomes outcomes;
  const bool fresh = std::ranges::all_of(orders, &EventAppend::fresh);
  const bool single = orders.size() == 1 && !options.publish;
  database_->write({.single_statement = single, .repeatable = true},
                   [&](storage::WriteSession& session, const storage::Attempt& attempt) {
                     if (attempt.after_doubt) {
                       for (auto& order : orders) order.fresh = false;
                     }
                     outcomes = store_events(session, orders, options);
                     if (!attempt.after_doubt || !fresh) return;
                     for (auto& each : outcomes) {
                       if (each.outcome == AppendOutcome::repeated)
                         each.outcome = AppendOutcome::appended;
                     }
                   });
  require_appended(orders, outcomes);
  note_appended(count_events(orders), is_stored(outcomes.front()), published_by(orders, options));
  return outcomes;
}

Events::Outcomes Events::append_in(Transaction& transaction, Orders orders,
                                   const AppendOptions& options) {
  require_appendable(orders, options);
  auto outcomes = store_events(session_of(transaction), orders, options);
  require_appended(orders, outcomes);
  after_commit(transaction, [this, count = count_events(orders), stored = is_stored(outcomes[0]),
                             published = published_by(orders, options)] {
    note_appended(count, stored, published);
  });
  return outcomes;
}

Appended Events::append(std::string_view stream, ExpectedVersion expected,
                        const std::vector<NewEvent>& events, const AppendOptions& options) {
  std::vector orders{event::checked(stream, expected, events, options_)};
  return appended(orders.front(), append_alone(orders, options).front());
}

Appended Events::append(Transaction& transaction, std::string_view stream, ExpectedVersion expected,
                        const std::vector<NewEvent>& events, const AppendOptions& options) {
  const auto order = event::checked(stream, expected, events, options_);
  return appended(order, append_in(transaction, std::span{&order, 1}, options).front());
}

std::vector<Appended> Events::append_many(std::span<const StreamAppend> appends,
                                          const AppendOptions& options) {
  auto orders = event::checked(appends, options_);
  if (orders.empty()) return {};
  return appended(orders, append_alone(orders, options));
}

std::vector<Appended> Events::append_many(Transaction& transaction,
                                          std::span<const StreamAppend> appends,
                                          const AppendOptions& options) {
  const auto orders = event::checked(appends, options_);
  if (orders.empty()) return {};
  return appended(orders, append_in(transaction, orders, options));
}

void Events::note_appended(std::size_t count, bool stored,
                           const queue::EnqueuedCount& published) const {
  metrics_.count(stored ? "dovetail_events_appended_total" : "dovetail_events_repeated_total",
                 count, {{"store", database_->name()}});
  if (stored) published.report(metrics_, database_->name(), storage::queue_names::outbox);
}

// --- read

std::vector<Event> Events::read(std::string_view stream, const EventPage& page) {
  require_stream_key(stream);
  core::require_batch_size("size", page.size);
  std::vector<Event> events;
  database_->read(
      [&](storage::ReadSession& session) { events = store_->read_stream(session, stream, page); });
  return events;
}

std::vector<Event> Events::read(Transaction& transaction, std::string_view stream,
                                const EventPage& page) {
  require_stream_key(stream);
  core::require_batch_size("size", page.size);
  return store_->read_stream(session_of(transaction), stream, page);
}

Feed Events::read_all(const FeedPage& page) {
  event::require_page(page);
  Feed feed;
  database_->read(
      [&](storage::ReadSession& session) { feed = store_->read_all(session, {.page = page}); });
  return feed;
}

std::int64_t Events::stamp() {
  for (;;) {
    storage::Stamped stamped;
    database_->write({.single_statement = true, .repeatable = true},
                     [&](storage::WriteSession& session) {
                       stamped = store_->stamp(session, true, options_.durable_positions);
                     });
    if (stamped.count < storage::EventStore::stamp_size) return stamped.head.value_or(0);
  }
}

std::optional<std::int64_t> Events::position(std::string_view stream, std::int64_t version) {
  require_stream_key(stream);
  std::optional<std::int64_t> position;
  database_->read([&](storage::ReadSession& session) {
    position = store_->position(session, stream, version);
  });
  return position;
}

}  // namespace dovetail
