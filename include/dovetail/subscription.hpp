// Subscriptions: handlers for the events of all streams, with a stored position.
//
//   platform.events().subscribe(
//       "billing", {.types = {"OrderPaid"}},
//       [](std::span<const Event> batch, SubscriptionContext& ctx) {
//         for (const auto& event : batch) ctx.transaction().execute("insert into invoices …");
//       });
//   platform.start();
//
// A subscription has a name. All processes that subscribe under this name share its position: one
// of them handles an event. It has one or more parts, which work at the same time. A stream belongs
// to one part.
//
// The end of a handler decides what happens to its batch:
//   * it returns                 the position moves behind the batch, in its transaction
//   * it throws                  the events are handled one at a time; the event that fails is
//                                retried after a backoff, and then by
//                                SubscriptionOptions::on_failure
//   * it throws PermanentFailure as after the last attempt; `retry` retries it like other failures
//   * its process dies           another process continues when the lease expires
//
// Guarantees
//   * The events of a stream are handled in order.
//   * Writes through ctx.transaction() commit together with the position, or not at all: they take
//     effect exactly once. All other effects of a handler happen at least once.
//   * Every event that matches the filter is handled, or parked, or skipped by an operator.
// Not guaranteed
//   * That a handler does not run twice at the same time for one event, if its process was stopped
//     for longer than the lease. Only one of the two takes effect.
//
// Threads: Subscriptions may be shared between threads. A handler is called by one thread for each
// part.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/event.hpp"
#include "dovetail/transaction.hpp"

namespace dovetail {

namespace storage {
class SubscriptionStore;
}  // namespace storage
namespace event {
class Registrations;
}  // namespace event

/// What happens to an event whose handler has failed `max_attempts` times.
enum class SubscriptionFailure : std::uint8_t {
  retry,        ///< It is retried until it succeeds; the events behind it wait.
  stop,         ///< The part stops until resume().
  park_event,   ///< It is put aside, and the events behind it continue.
  park_stream,  ///< It and the later events of its stream are put aside, until resume_parked().
};

[[nodiscard]] std::string_view to_string(SubscriptionFailure policy);

/// Where a new subscription begins.
class SubscriptionStart {
 public:
  [[nodiscard]] static SubscriptionStart beginning() { return SubscriptionStart{0}; }
  /// With the events that have no position yet when the subscription is created.
  [[nodiscard]] static SubscriptionStart now() { return SubscriptionStart{std::nullopt}; }
  /// Throws std::out_of_range if `position` is negative.
  [[nodiscard]] static SubscriptionStart after(std::int64_t position);
  /// Absent: now.
  [[nodiscard]] std::optional<std::int64_t> position() const { return position_; }

 private:
  explicit SubscriptionStart(std::optional<std::int64_t> position) : position_(position) {}
  std::optional<std::int64_t> position_;
};

struct SubscriptionOptions {
  std::vector<std::string> types{};     ///< Empty: all types.
  std::vector<std::string> prefixes{};  ///< Of stream keys, such as `order-`. Empty: all streams.
  /// Has an effect when the subscription is created. Later starts continue where it stopped.
  SubscriptionStart start = SubscriptionStart::beginning();
  /// 1 to 256. If the number changes, the parts first finish at a common position.
  int parts = 1;
  int batch_size = 100;  ///< The maximum number of events of a call: 1 to 10,000.
  SubscriptionFailure on_failure = SubscriptionFailure::retry;
  int max_attempts = 10;  ///< 1 to 1,000.
  /// The delay before the next attempt, by the number of failed attempts (1, 2, …). Absent: 1 s, 2
  /// s … 60 s, minus up to 10 %.
  std::function<std::chrono::milliseconds(int attempts)> backoff{};
  /// The lease of a part: 100 ms to 24 h. It is renewed when a third of it has passed.
  std::chrono::milliseconds lease{30'000};
};

/// The context of one handler call. It is valid during the call.
class SubscriptionContext {
 public:
  virtual ~SubscriptionContext() = default;

  /// Fires at shutdown, and when the lease is lost. Return or throw soon after that.
  [[nodiscard]] virtual std::stop_token stop_token() const = 0;
  [[nodiscard]] virtual const std::string& database() const = 0;
  [[nodiscard]] virtual const std::string& subscription() const = 0;
  [[nodiscard]] virtual int part() const = 0;  ///< From 0.
  /// Increases with every lease of the part. Use it as a fencing token for other systems.
  [[nodiscard]] virtual std::int64_t epoch() const = 0;

  /// A transaction that commits together with the position when the handler returns. It is rolled
  /// back when the handler throws, or when the lease was lost. The first call begins it. The
  /// handler must not commit it. On SQLite it excludes all other writers.
  [[nodiscard]] virtual Transaction& transaction() = 0;
};

using SubscriptionHandler =
    std::function<void(std::span<const Event> batch, SubscriptionContext& context)>;

struct SubscriptionStatus {
  std::string name{};
  int parts = 1;
  std::optional<int> next_parts{};  ///< While the number of parts changes.
  std::vector<std::string> types{};
  std::vector<std::string> prefixes{};
  std::string on_failure{};
  WallTime created_at{};
  std::optional<WallTime> paused_at{};
  std::int64_t position = 0;  ///< Of the part that is behind all others.
  std::int64_t head = 0;      ///< The last position of the feed.
  std::int64_t lag = 0;       ///< Positions that were not examined yet.
  /// How long the oldest event that was not examined yet has been waiting.
  std::optional<std::chrono::microseconds> lag_time{};
  std::optional<WallTime> stopped_at{};  ///< Of a part that a failure has stopped.
  int attempts = 0;                      ///< Failed calls for the next event of a part.
  std::optional<std::string> last_error{};
  int held_parts = 0;       ///< Parts that a process works on.
  std::int64_t parked = 0;  ///< Events and streams.
};

struct SubscriptionPart {
  int part = 0;
  std::int64_t position = 0;
  std::int64_t epoch = 0;
  std::optional<OwnerToken> owner{};
  std::optional<WallTime> lease_until{};
  int attempts = 0;
  std::optional<WallTime> retry_at{};
  std::optional<WallTime> stopped_at{};
  std::optional<std::string> last_error{};
  WallTime moved_at{};
};

enum class ParkedKind : std::uint8_t {
  event,    ///< This event has failed.
  stream,   ///< This event has failed, and the later events of its stream wait.
  skipped,  ///< An operator has skipped this event.
};

[[nodiscard]] std::string_view to_string(ParkedKind kind);

struct ParkedEvent {
  std::int64_t position = 0;
  std::string stream{};
  std::int64_t version = 0;  ///< Of the event, or of the first event that waits.
  ParkedKind kind = ParkedKind::event;
  int attempts = 0;
  std::string error{};
  WallTime parked_at{};
  std::optional<WallTime> resumed_at{};  ///< Set until it has been handled again.
};

/// Which events tail() returns.
struct TailOptions {
  std::optional<std::int64_t> after{};  ///< Absent: only events that are appended from now on.
  std::vector<std::string> types{};
  std::vector<std::string> prefixes{};
};

class Subscriptions {
 public:
  Subscriptions(storage::Database& database, Events& events, Logger log, Metrics metrics);
  ~Subscriptions();
  Subscriptions(const Subscriptions&) = delete;
  Subscriptions& operator=(const Subscriptions&) = delete;

  // Names have 1 to 255 characters. Values out of range are rejected before any I/O.

  /// Registers a handler. The started Platform creates the subscription and calls the handler.
  /// Throws InvalidOperation if the name has a handler, or after the start.
  void add(std::string_view name, SubscriptionOptions options, SubscriptionHandler handler);

  /// All subscriptions of the database, in the order of their names.
  [[nodiscard]] std::vector<SubscriptionStatus> list();
  [[nodiscard]] std::optional<SubscriptionStatus> find(std::string_view name);
  [[nodiscard]] std::vector<SubscriptionPart> parts(std::string_view name);
  /// Parked and skipped events, in the order of their positions.
  [[nodiscard]] std::vector<ParkedEvent> parked(std::string_view name);

  /// Waits until all parts have passed `position`. Returns false after `timeout`. Use it to read
  /// what you have written: `wait_for("billing", events.stamp(), 2s)`.
  [[nodiscard]] bool wait_for(std::string_view name, std::int64_t position,
                              std::chrono::milliseconds timeout, const std::stop_token& stop = {});

  /// Pauses a subscription in all processes. A running call ends first, within a second or so.
  /// Returns whether it was running.
  bool pause(std::string_view name);
  /// Continues a subscription that is paused, stopped, or waits after a failure. Returns whether it
  /// was.
  bool resume(std::string_view name);
  /// The parked events are handled again: of one stream, or of all. A parked stream continues in
  /// order. Returns their number.
  std::size_t resume_parked(std::string_view name, std::optional<std::string_view> stream = {});
  /// The subscription does not handle the event at `position`. If its stream is parked there, the
  /// stream continues behind it. Returns false if there is no such event, or if it was handled.
  bool skip(std::string_view name, std::int64_t position);
  /// The subscription handles all events after `position` again. Calls that run have no effect.
  /// Parked events are forgotten. Returns whether the subscription exists.
  bool rebuild(std::string_view name, std::int64_t position = 0);
  /// The same in a transaction: empty your tables in it, and they are built again exactly once.
  bool rebuild(Transaction& transaction, std::string_view name, std::int64_t position = 0);
  /// Deletes a subscription. Returns whether it existed.
  bool remove(std::string_view name);

  /// Calls `handler` for events as they are appended, until `stop`. It stores no position. It gives
  /// positions itself, so it works without a started Platform.
  void tail(const TailOptions& options, const std::function<void(const Event& event)>& handler,
            const std::stop_token& stop);

  /// For the runtime.
  [[nodiscard]] event::Registrations& registrations() { return *registrations_; }

 private:
  storage::Database* database_;
  storage::SubscriptionStore* store_;
  Events* events_;
  Logger log_;
  Metrics metrics_;
  std::unique_ptr<event::Registrations> registrations_;
};

}  // namespace dovetail
