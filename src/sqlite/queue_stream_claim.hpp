// One claim of streams of one queue: it visits the priorities from the highest to the lowest.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "sqlite/claim_filter.hpp"
#include "sqlite/queue_context.hpp"
#include "sqlite/queue_streams.hpp"
#include "storage/queue_consumer.hpp"

namespace dovetail::sqlite {

class QueueStreamClaim {
 public:
  QueueStreamClaim(const QueueContext& context, Connection& connection,
                   const storage::ClaimOrder& order, const ClaimFilter& filter = {})
      : context_(context),
        connection_(connection),
        order_(order),
        filter_(filter),
        streams_(context, connection),
        now_(context.now()) {}

  storage::Claimed run();

 private:
  struct Ticket {
    std::int64_t seq = 0;
    std::string stream;
  };
  /// Whether the message may follow the earlier ones of its stream.
  enum class Next { taken, expired, paused, exhausted, later };

  void claim_lane(std::int64_t lane);
  std::vector<Ticket> tickets(std::int64_t lane);
  /// Leases the stream. Returns whether the claim has room for more.
  bool take(const Ticket& ticket);
  [[nodiscard]] Next judge(const Message& message, WallTime ready_at, int lost_leases) const;
  void set_aside(const Ticket& ticket, Next reason);
  void lease(const Ticket& ticket, std::int64_t run_to, std::int64_t count);
  void ask_next_due();

  const QueueContext& context_;
  Connection& connection_;
  const storage::ClaimOrder& order_;
  const ClaimFilter filter_;
  QueueStreams streams_;
  WallTime now_;
  std::set<std::string, std::less<>> paused_;
  std::int64_t epoch_ = 0;
  std::int64_t bytes_ = 0;
  std::size_t run_length_ = 1;
  int set_aside_ = 0;
  storage::Claimed claimed_;
};

}  // namespace dovetail::sqlite
