// Whether there is something to do in a database, and when: cheap on an idle database, however many
// finished messages it has.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "storage/session.hpp"

namespace dovetail::storage {

/// How long until there is something to do. Zero or negative: there is something now. Absent:
/// nothing waits.
struct Glance {
  /// Until a message is due, or the lease of a message in progress expires. Messages of paused
  /// topics count until a claim has put them aside.
  std::optional<std::chrono::microseconds> outbox{};
  std::optional<std::chrono::microseconds> inbox{};
  std::optional<std::chrono::microseconds> timers{};  ///< Without timers in progress.
  std::optional<std::chrono::microseconds> jobs{};
  /// Zero if a running subscription is behind, or if events have no positions yet.
  std::optional<std::chrono::microseconds> events{};
};

/// The topics whose messages count. Absent: all topics.
struct GlanceTopics {
  std::optional<std::vector<std::string>> outbox{};
  std::optional<std::vector<std::string>> inbox{};
};

class GlanceStore {
 public:
  virtual ~GlanceStore() = default;

  /// Examines some of the first messages. Behind many messages of other topics, a message counts
  /// though its topic may be another one.
  virtual Glance look(ReadSession& session, const GlanceTopics& topics) = 0;
};

}  // namespace dovetail::storage
