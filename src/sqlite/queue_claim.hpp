// One claim of one queue: it visits the priorities from the highest to the lowest.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "sqlite/claim_filter.hpp"
#include "sqlite/queue_context.hpp"
#include "storage/queue_consumer.hpp"

namespace dovetail::sqlite {

class QueueClaim {
 public:
  QueueClaim(const QueueContext& context, Connection& connection, const storage::ClaimOrder& order,
             const ClaimFilter& filter = {})
      : context_(context),
        connection_(connection),
        order_(order),
        filter_(filter),
        now_(context.now()) {}

  storage::Claimed run();

  /// Instead of run(), in a read session: passes over messages of topics that the claim does not
  /// take. It leaves the end of each priority to run(), which sees all messages: a transaction that
  /// is open now may have stored a message there.
  storage::LookAhead look_ahead();

 private:
  /// A due message that the claim may take.
  struct DueRow {
    storage::ClaimedEntry entry;
    std::int64_t seq = 0;
    bool lost = false;  // its lease expired
  };
  struct LeapRow {
    std::int64_t seq = 0;
    WallTime ready_at;
  };
  /// The claim's position in one priority.
  struct Place {
    std::int64_t lane;
    storage::QueueMark from{.ready_at = WallTime::min(), .id = {}, .row = 0};
    bool is_end = false;
  };

  [[nodiscard]] Place place_in(std::int64_t lane) const;
  void claim_lane(std::int64_t lane);
  /// Leases the rows that may be claimed. Returns whether all of them were.
  bool take(std::vector<DueRow>& rows);
  void note_passed(const Place& place);
  /// Reads the cursor's row. Returns false when its payload is too large for the rest of the claim.
  bool read_due(const Cursor& cursor, std::vector<DueRow>& rows);
  std::vector<DueRow> due_rows(Place& place, std::size_t most);
  /// The same behind many messages of topics that the claim does not take.
  std::vector<DueRow> due_rows_after_foreign(Place& place, std::size_t most);
  /// The end of the rows that leap() examines; absent when fewer rows are left.
  std::optional<storage::QueueMark> leap_bound(const Place& place);
  std::optional<storage::QueueMark> near_bound(const Place& place, std::int64_t rows);
  /// The rows that the claim may take, up to the bound.
  std::vector<LeapRow> leap(const Place& place, const std::optional<storage::QueueMark>& bound,
                            std::size_t most);
  /// Returns whether the claim may return the row's message. If not, the message fails or is
  /// parked.
  bool may_claim(DueRow& row);
  void lease(std::span<const std::int64_t> rows);
  std::optional<std::chrono::microseconds> next_due();
  std::optional<std::chrono::microseconds> next_due_in(std::int64_t lane);

  const QueueContext& context_;
  Connection& connection_;
  const storage::ClaimOrder& order_;
  const ClaimFilter filter_;
  WallTime now_;
  std::set<std::string, std::less<>> paused_;
  std::int64_t bytes_ = 0;  // of the payloads claimed so far
  storage::Claimed claimed_;
  bool full_ = false;  // by count or by bytes
};

}  // namespace dovetail::sqlite
