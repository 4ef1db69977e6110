// Operations of timers that other queues do not have.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dovetail/schedule.hpp"
#include "storage/session.hpp"

namespace dovetail::storage {

/// Exactly one of the two. The delay counts from the current time of the database.
struct NewTime {
  std::optional<WallTime> due_at{};
  std::optional<std::chrono::milliseconds> delay{};
};

/// How long until a scheduler has something to do. Zero or negative: there is something now.
struct NextDue {
  std::optional<std::chrono::microseconds> timers{};
  std::optional<std::chrono::microseconds> jobs{};
};

class TimerStore {
 public:
  virtual ~TimerStore() = default;

  // These change a timer that has not fired and that no processor holds. They return whether there
  // was one.
  virtual bool cancel(WriteSession& session, TimerId timer) = 0;
  virtual bool reschedule(WriteSession& session, TimerId timer, const NewTime& time) = 0;

  /// Returns whether the outbox has, or had, a message with one of these ids.
  virtual bool any_known(WriteSession& session, std::span<const Uuid> ids) = 0;

  /// The number of due messages in the outbox that wait for a worker, counted up to `most`.
  virtual int backlog(ReadSession& session, int most) = 0;

  /// For timers that no processor holds, and for jobs, in one round trip.
  virtual NextDue next_due(ReadSession& session) = 0;

  virtual std::vector<Timer> list(ReadSession& session, std::optional<std::string_view> topic,
                                  const TimerPage& page) = 0;
};

}  // namespace dovetail::storage
