// The composite call of the work coordinator, as a backend makes it.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dovetail/work.hpp"
#include "storage/inbox_store.hpp"
#include "storage/queue_producer.hpp"
#include "storage/session.hpp"

namespace dovetail::storage {

/// The part of a batch that concerns one queue. Everything was checked.
struct WorkPart {
  std::vector<WorkCompletion> completions{};
  std::vector<WorkFailure> failures{};
  std::vector<WorkRelease> releases{};
  std::vector<Claim> renewals{};
  std::vector<NewMessage> messages{};    ///< Of the outbox.
  std::vector<InboxArrival> arrivals{};  ///< Of the inbox.
  // Of the messages, or of the arrivals.
  std::vector<bool> is_event{};
  std::vector<const Headers*> headers{};  ///< As the caller gave them.
  const WorkClaim* claim = nullptr;
  int max_attempts = 10;
  bool keep_done = true;
  StreamFailure on_stream_failure = StreamFailure::block;

  [[nodiscard]] bool has_results() const {
    return !completions.empty() || !failures.empty() || !releases.empty();
  }
};

struct WorkBatchOrder {
  InstanceId instance;
  const WorkOptions& options;
  std::string host;
  std::int64_t pid = 0;
  std::string version;
  WorkPart outbox{};
  WorkPart inbox{};
  bool fresh = false;  ///< The ids of the outbox's messages were generated for this run.

  [[nodiscard]] bool claims() const { return outbox.claim != nullptr || inbox.claim != nullptr; }
  /// True if the call claims waiting work. So the instance takes a share of the partitions.
  [[nodiscard]] bool joins() const {
    const auto waits = [](const WorkClaim* claim) {
      return claim != nullptr && !claim->stored_only;
    };
    return waits(outbox.claim) || waits(inbox.claim);
  }
};

class WorkStore {
 public:
  virtual ~WorkStore() = default;

  /// True if process() runs one statement.
  [[nodiscard]] virtual bool is_single_statement() const = 0;
  virtual WorkResult process(WriteSession& session, const WorkBatchOrder& order) = 0;
  /// Removes an instance. Returns whether it was there.
  virtual bool leave(WriteSession& session, InstanceId instance) = 0;
};

}  // namespace dovetail::storage
