// What timers can do beside what every queue can.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dovetail/schedule.hpp"
#include "storage/session.hpp"

namespace dovetail::storage {

/// One of the two; the delay counts from the database's now.
struct NewTime {
  std::optional<WallTime> due_at{};
  std::optional<std::chrono::milliseconds> delay{};
};

/// How long until a scheduler has something to do; zero or negative when it has.
struct NextDue {
  std::optional<std::chrono::microseconds> timers{};
  std::optional<std::chrono::microseconds> jobs{};
};

class TimerStore {
 public:
  virtual ~TimerStore() = default;

  // Of timers that have not fired, and that nobody holds; answer whether there was one.
  virtual bool cancel(WriteSession& session, TimerId timer) = 0;
  virtual bool reschedule(WriteSession& session, TimerId timer, const NewTime& time) = 0;

  /// Whether the outbox knows a message with one of these ids, also one that is finished.
  virtual bool any_known(WriteSession& session, std::span<const Uuid> ids) = 0;

  /// How many messages of the outbox are due and wait for a worker, counted up to `most`.
  virtual int backlog(ReadSession& session, int most) = 0;

  /// Of timers that nobody holds, and of jobs: in one round trip.
  virtual NextDue next_due(ReadSession& session) = 0;

  virtual std::vector<Timer> list(ReadSession& session, std::optional<std::string_view> topic,
                                  const TimerPage& page) = 0;
};

}  // namespace dovetail::storage
