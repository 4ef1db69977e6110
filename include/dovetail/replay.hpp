// Replays: work on many dead letters in the background, with progress.
//
//   const auto replay = platform.replays().start({.filter = {.topic = "mail"}, .rate = 100});
//   … platform.replays().find(replay.id)->changed …
//
// Guarantees
//   * Each dead letter is replayed (or purged) once, and counted in the same transaction, whatever
//     the number of replays at the same time.
//   * Dead letters that fail after the start of the replay are left out.
//   * Every process sees the progress, and may cancel.
// Not guaranteed
//   * A replay ends with its process: it is then `interrupted`, and its counts are right. Start it
//     again to continue.
//
// Threads: Replays may be shared between threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/clock.hpp"
#include "dovetail/ids.hpp"
#include "dovetail/log.hpp"
#include "dovetail/queue.hpp"

namespace dovetail {

namespace storage {
class Database;
}  // namespace storage

namespace detail {
struct ReplayTag : OrderedIdTag {};
}  // namespace detail

using ReplayId = Id<detail::ReplayTag>;

enum class ReplayKind : std::uint8_t {
  replay,  ///< Makes dead letters ready again; see WorkQueue::replay().
  purge,   ///< Deletes them.
};

enum class ReplayState : std::uint8_t {
  running,
  done,
  cancelled,
  failed,       ///< `failure` says why.
  interrupted,  ///< Its process has ended, or has not reported for a minute.
};

[[nodiscard]] std::string_view to_string(ReplayKind kind);
[[nodiscard]] std::string_view to_string(ReplayState state);

struct ReplayRequest {
  ReplayKind kind = ReplayKind::replay;
  std::string queue = "outbox";  ///< outbox, inbox or timers.
  DeadLetterFilter filter{};
  std::optional<std::string> error{};  ///< Only dead letters with exactly this last error.
  /// The largest number of dead letters to change: at least 1. Absent: all.
  std::optional<std::int64_t> limit{};
  /// Dead letters per second, 1 to 100,000. Absent: as fast as possible.
  std::optional<int> rate{};
  std::string actor{};  ///< Who asked for it; truncated to 255 characters.
};

struct Replay {
  ReplayId id{};
  ReplayRequest request{};
  ReplayState state = ReplayState::running;
  std::int64_t examined = 0;  ///< Dead letters that were read.
  std::int64_t changed = 0;   ///< Dead letters that were replayed or purged.
  WallTime started_at{};
  WallTime updated_at{};
  std::optional<WallTime> finished_at{};
  std::string failure{};
};

/// What a replay would change.
struct ReplayPreview {
  std::int64_t count = 0;
  bool cut = false;  ///< The count stopped at its limit: there are more.
  std::vector<MessageId> first{};
};

struct ReplayPage {
  std::optional<ReplayId> before{};  ///< The last id of the previous page.
  int size = 100;                    ///< 1 to 10,000.
};

class Replays {
 public:
  Replays(storage::Database& database, Logger log);
  Replays(const Replays&) = delete;
  Replays& operator=(const Replays&) = delete;
  /// Interrupts the replays of this process.
  ~Replays();

  /// Starts a replay on a thread of this process. Throws InvalidOperation while eight replays of
  /// this process run.
  Replay start(const ReplayRequest& request);

  /// Counts the dead letters that a replay with this request would change, up to 10,000 of them,
  /// reading 100,000 at most. Changes nothing.
  [[nodiscard]] ReplayPreview preview(const ReplayRequest& request);

  /// Stops a replay, whatever process runs it, after its current transaction. Returns false when it
  /// does not exist or does not run.
  bool cancel(ReplayId id);

  [[nodiscard]] std::optional<Replay> find(ReplayId id);
  /// Newest first.
  [[nodiscard]] std::vector<Replay> list(const ReplayPage& page = {});

  /// Deletes replays that have not been running for `age`, and returns their number.
  std::size_t purge(std::chrono::seconds age, const std::stop_token& stop = {});

 private:
  class Runs;
  std::unique_ptr<Runs> runs_;
};

}  // namespace dovetail
