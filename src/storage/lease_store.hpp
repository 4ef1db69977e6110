// Leases as a backend stores them.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "dovetail/lease.hpp"
#include "storage/session.hpp"

namespace dovetail::storage {

struct LeaseOrder {
  std::string_view name;
  std::string_view owner;
  std::chrono::microseconds duration{};
  std::optional<int> slots;  ///< Absent: the one and only.
  Uuid grant;                ///< The same for every run of one call.
};

class LeaseStore {
 public:
  virtual ~LeaseStore() = default;

  /// Nothing when it is held.
  virtual std::optional<Lease> try_acquire(WriteSession& session, const LeaseOrder& order) = 0;
  /// When it ends now; nothing when it is not held any more.
  virtual std::optional<WallTime> renew(WriteSession& session, const Lease& lease,
                                        std::chrono::microseconds duration) = 0;
  /// Whether it was still held.
  virtual bool release(WriteSession& session, const Lease& lease) = 0;
  /// Deletes up to `most` that ran out longer ago than `age`; answers how many.
  virtual std::size_t purge(WriteSession& session, std::chrono::microseconds age, int most) = 0;
  /// Those that are held, of one name or of all, in the order of names and slots.
  virtual std::vector<Lease> list(ReadSession& session, std::optional<std::string_view> name,
                                  const LeasePage& page) = 0;
};

}  // namespace dovetail::storage
